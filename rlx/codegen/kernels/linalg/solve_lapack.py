"""Calls of LAPACK for large linear systems.

LAPACK counts columns first: a row-major matrix is its transpose. Scratch holds the matrix,
the right-hand sides and the row exchanges of one slice, as LAPACK wants them.
"""

from __future__ import annotations

import math

from rlx.codegen.kernels.access import GroupedReader, Reader, Writer
from rlx.codegen.kernels.registry import Scope, kernel, scratch
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, Operand, index, select
from rlx.codegen.loops.nodes import Address, Buffer, LoopKind, Prim, Status
from rlx.errors import InternalError
from rlx.ir.lowering import Library
from rlx.ir.shape import Extent, product, upper
from rlx.ir.types import TensorType

_GESV = {Prim.F32: "sgesv_", Prim.F64: "dgesv_"}
_TILE = 8
"""Rows and columns moved together by a transpose: a cache line of each."""


@scratch("solve", lowering=Library)
def solve_by_lapack_scratch(
    operands: list[TensorType], results: list[TensorType], *, vector: bool, **_: object
) -> int:
    del results
    a, b = operands
    extent = upper(a.shape[-1])
    elements = extent * (extent + upper(_columns(b, vector=vector)) + 1)
    return elements * a.dtype.size


@kernel("solve", lowering=Library)
def solve_by_lapack(
    scope: Scope,
    a: Reader,
    b: Reader,
    x: Writer,
    *,
    lowering: Library,
    vector: bool,
    transposed: bool,
    on_singular: str,
) -> None:
    del lowering  # there is one library
    k, memory = scope.k, scope.scratch
    if memory is None:
        raise InternalError("solve by LAPACK needs scratch")
    n = upper(a.shape[-1])
    columns = scope.extents(_columns(b.type, vector=vector))
    sides = n * n
    axes = tuple(range(len(b.shape)))
    rank = len(a.shape) - 2
    groups = (axes[:rank], *((axis,) for axis in axes[rank:]))
    matrices = a.grouped((tuple(range(rank)), (rank,), (rank + 1,)))
    vectors, target = b.grouped(groups), x.grouped(groups)
    with k.loop("slice", scope.extents(product(a.shape[:-2]))) as at:
        _lay_out(k, memory, matrices.at(at), n, as_it_is=transposed)
        given, found = vectors.at(at), target.at(at)
        with k.loop("j", columns) as j, k.loop("i", n, kind=LoopKind.SIMD) as i:
            place = (i,) if vector else (i, j)
            k.store(memory, sides + j * n + i, given.read_real(*place))
        is_singular = _call(k, memory, n, columns).ne(0)
        if on_singular == "error":
            with k.if_(is_singular):
                k.fail(Status.SINGULAR_MATRIX, at)
        with k.loop("i", n) as i, k.loop("j", columns, kind=LoopKind.SIMD) as j:
            value = k.load(memory, sides + j * n + i)
            if on_singular == "nan":
                value = select(is_singular, math.nan, value)
            place = (i,) if vector else (i, j)
            found.write(*place, value=value)


def _lay_out(
    k: KernelBuilder, memory: Buffer, matrix: GroupedReader, n: int, *, as_it_is: bool
) -> None:
    """Copy a matrix, transposed unless LAPACK is to see its transpose."""
    if as_it_is:
        with k.loop("i", n) as i, k.loop("j", n, kind=LoopKind.SIMD) as j:
            k.store(memory, i * n + j, matrix.read_real(i, j))
        return
    whole = n // _TILE * _TILE
    with (
        k.loop("j", whole, step=_TILE) as first,
        k.loop("i", n) as i,
        k.loop("j_inner", _TILE) as j,
    ):
        k.store(memory, (first + j) * n + i, matrix.read_real(i, first + j))
    with k.loop("j", n, start=whole) as j, k.loop("i", n) as i:
        k.store(memory, j * n + i, matrix.read_real(i, j))


def _call(k: KernelBuilder, memory: Buffer, n: int, columns: E) -> E:
    """Call `gesv`; return its verdict: 0, or 1 + the number of the pivot that is 0."""
    extent = _integer(k, "extent", index(n))
    count = _integer(k, "count", columns)
    verdict = k.local("verdict", Prim.I32, 1)
    sides = n * n
    exchanged = k.address(memory, sides + columns * n, prim=Prim.I32, writable=True)
    k.external(
        _GESV[memory.prim],
        [
            extent,
            count,
            k.address(memory, 0, writable=True),
            extent,
            exchanged,
            k.address(memory, sides, writable=True),
            extent,
            k.address(verdict, 0, writable=True),
        ],
    )
    return k.let("found", k.load(verdict, 0))


def _integer(k: KernelBuilder, name: str, value: Operand) -> Address:
    """Return where `value` lies as a C int: LAPACK takes all by address."""
    place = k.local(name, Prim.I32, 1)
    k.store(place, 0, index(value).cast(Prim.I32))
    return k.address(place, 0)


def _columns(b: TensorType, *, vector: bool) -> Extent:
    return 1 if vector else b.shape[-1]
