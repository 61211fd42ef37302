"""Calls of functions from outside of the program; `ir.foreign` has their signature."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.expr import E, index
from rlx.codegen.loops.nodes import Address, Prim, Status, ValueType
from rlx.ir.foreign import find_target, shape_words
from rlx.ir.shape import Extent
from rlx.ir.types import TensorType

_WORD = 8


@kernel("ffi_call", "effect_call")
def ffi_call(
    scope: Scope,
    *arguments: Reader | Writer,
    target: str,
    result_types: tuple[TensorType, ...],
    attributes: tuple[int, ...],
    **_: str | None,
) -> None:
    """Call the target; leave the kernel with the code that it returns, unless that is 0.

    The result that an `effect_call` has besides is its token.
    """
    k, callee, text = scope.k, find_target(target), bytes(attributes)
    for _value, token in scope.body.outputs[len(result_types) :]:
        k.store(token, 0, 0)
    operands = [a.value for a in arguments if isinstance(a, Reader)]
    scope.body.stored.update(range(len(scope.body.outputs)))
    made = [buffer for _, buffer in scope.body.outputs[: len(result_types)]]
    untyped = Prim.U8 if callee.function is not None else None
    places = [k.address(scope.body.inputs[value], prim=untyped) for value in operands]
    places += [k.address(buffer, prim=untyped, writable=True) for buffer in made]
    types = [value.type for value in operands]
    words = [len(operands), len(made), *shape_words([*types, *result_types])]
    given: list[E | Address] = [
        *places,
        _table(scope, "shapes", words),
        _bytes(scope, text),
        index(len(text)),
    ]
    symbol = callee.symbol(len(operands), len(made))
    error = k.external(symbol, given, ValueType(Prim.I32), name="error")
    assert error is not None  # it has a result
    with k.if_(error.ne(0)):
        k.fail(Status.FOREIGN_CALL_FAILED, error.cast(Prim.I64))


def _table(scope: Scope, name: str, words: Sequence[Extent], prim: Prim | None = None) -> Address:
    """Return the address of these words, in a local buffer."""
    place = scope.k.local(name, Prim.I64, max(len(words), 1))
    for position, word in enumerate(words):
        scope.k.store(place, position, scope.extents(word))
    return scope.k.address(place, prim=prim)


def _bytes(scope: Scope, content: bytes) -> Address:
    padded = content + bytes(-len(content) % _WORD)
    starts = range(0, len(padded), _WORD)
    words = [int.from_bytes(padded[i : i + _WORD], "little", signed=True) for i in starts]
    return _table(scope, "attributes", words, Prim.U8)
