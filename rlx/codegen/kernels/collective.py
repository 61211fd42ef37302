"""Collectives: kernels that call MPI on arrays in the arena, without copies.

Thread 0 alone runs them (MPI_THREAD_FUNNELED): they have no parallel loop, and they can fail.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.expr import E, Operand, const, index, select
from rlx.codegen.loops.nodes import Address, Buffer, Prim, Status, ValueType
from rlx.codegen.mpi_names import PREFIX, fold_name
from rlx.errors import UnsupportedError
from rlx.ir.op import Trait


@kernel("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
def exchange(
    scope: Scope,
    x: Reader,
    *rest: Reader | Writer,
    axis_name: str,
    axis_size: int,
    reduction: str = "sum",
) -> None:
    """Call the function of the anchor's name: it folds elements, or moves bytes."""
    assert scope.body.anchor is not None  # this builder runs for an anchor
    definition = scope.body.anchor.op
    name = definition.name
    ranks = _communicator(scope, rest, axis_name)
    folds = "reduce" in name
    count = scope.extents(x.type.elements) if folds else _bytes(scope, x)
    if definition.has(Trait.DISTRIBUTES):  # the part of one rank
        count = count // axis_size
    symbol = fold_name(name, reduction, x.type.dtype) if folds else name
    _exchange(scope, symbol, x, (count, ranks, axis_size))


@kernel("all_reduce_start")
def all_reduce_start(
    scope: Scope, x: Reader, *rest: Reader | Writer, axis_name: str, axis_size: int
) -> None:
    k = scope.k
    ranks = _communicator(scope, rest, axis_name)
    total, request = (buffer for _, buffer in scope.body.outputs)
    scope.body.stored.update((0, 1))
    numbers = (scope.extents(x.type.elements), ranks, const(axis_size, Prim.I64))
    places = (
        k.address(scope.body.inputs[x.value], prim=Prim.U8),
        k.address(total, prim=Prim.U8, writable=True),
        k.address(request, writable=True),
    )
    _succeed(scope, fold_name("all_reduce_start", "sum", x.type.dtype), [*places, *numbers])


@kernel("all_reduce_done")
def all_reduce_done(scope: Scope, total: Reader, request: Reader, *_: Reader | Writer) -> None:
    k = scope.k
    places = (
        k.address(scope.body.inputs[request.value]),
        k.address(scope.body.inputs[total.value], prim=Prim.U8),
        k.address(_result(scope), prim=Prim.U8, writable=True),
    )
    _succeed(scope, "all_reduce_done", [*places, _bytes(scope, total)])


@kernel("collective_broadcast")
def collective_broadcast(
    scope: Scope, x: Reader, *rest: Reader | Writer, axis_name: str, axis_size: int, root: int
) -> None:
    ranks = _communicator(scope, rest, axis_name)
    _exchange(scope, "broadcast", x, (_bytes(scope, x), root, ranks, axis_size))


@kernel("collective_permute")
def collective_permute(
    scope: Scope,
    x: Reader,
    *rest: Reader | Writer,
    axis_name: str,
    axis_size: int,
    pairs: tuple[tuple[int, int], ...],
) -> None:
    ranks = _communicator(scope, rest, axis_name)
    own = _rank(scope, ranks)
    target, source = index(-1), index(-1)
    for sender, receiver in pairs:
        target = select(own.eq(sender), receiver, target)
        source = select(own.eq(receiver), sender, source)
    ends = (scope.k.let("target", target), scope.k.let("source", source))
    _exchange(scope, "send_receive", x, (_bytes(scope, x), *ends, ranks, axis_size))


@kernel("axis_index")
def axis_index(scope: Scope, *given: Reader | Writer, axis_name: str, axis_size: int) -> None:
    ranks = _communicator(scope, given, axis_name)
    _succeed(scope, "check_size", [ranks, const(axis_size, Prim.I64)])
    result = _result(scope)
    scope.k.store(result, 0, _rank(scope, ranks).cast(Prim.I32))


def _communicator(scope: Scope, given: Sequence[Reader | Writer], axis_name: str) -> E:
    """Load the communicator; the called function checks its number of ranks."""
    readers = [each for each in given if isinstance(each, Reader)]
    if not readers:
        raise UnsupportedError(
            f"axis {axis_name!r} is bound to no ranks",
            remedy="run the function in rlx.distributed.shard_map, or map over the axis with vmap",
        )
    k = scope.k
    return k.let("communicator", k.load(scope.body.inputs[readers[0].value], 0))


def _result(scope: Scope) -> Buffer:
    """Return the buffer of the only result; the kernel stores all of it."""
    ((_, result),) = scope.body.outputs
    scope.body.stored.add(0)
    return result


def _rank(scope: Scope, communicator: E) -> E:
    number = scope.k.external(f"{PREFIX}rank", [communicator], ValueType(Prim.I32), name="number")
    assert number is not None  # it has a result
    return scope.k.let("rank", number.cast(Prim.I64))


def _bytes(scope: Scope, x: Reader) -> E:
    return scope.extents(x.type.elements) * x.type.dtype.size


def _exchange(scope: Scope, name: str, x: Reader, numbers: Sequence[Operand]) -> None:
    """Call a collective from `x` to the result; leave the kernel if it fails."""
    k = scope.k
    arguments: list[E | Address] = [
        k.address(scope.body.inputs[x.value], prim=Prim.U8),
        k.address(_result(scope), prim=Prim.U8, writable=True),
        *(const(n, Prim.I64) if isinstance(n, int) else index(n) for n in numbers),
    ]
    _succeed(scope, name, arguments)


def _succeed(scope: Scope, name: str, arguments: Sequence[E | Address]) -> None:
    """Call a function over MPI; leave the kernel if it fails."""
    k = scope.k
    error = k.external(f"{PREFIX}{name}", arguments, ValueType(Prim.I32), name="error")
    assert error is not None  # it has a result
    with k.if_(error.ne(0)):
        k.fail(Status.COLLECTIVE_FAILED, error.cast(Prim.I64))
