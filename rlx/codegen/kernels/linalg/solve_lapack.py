"""Calls of LAPACK for large linear systems."""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.linalg.arithmetic import spoiled
from rlx.codegen.kernels.linalg.lapack import (
    Room,
    call,
    columns_of,
    extents,
    integer,
    lay_out,
    lay_out_transposed,
    needs_room,
    parts_in,
    slices,
)
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import chosen_where
from rlx.codegen.loops.nodes import LoopKind, Prim, Status
from rlx.ir.lowering import Library
from rlx.ir.shape import upper
from rlx.ir.types import TensorType


@needs_room("solve")
def _room(a: TensorType, b: TensorType, *, vector: bool, **_: object) -> Room:
    n = extents(a)[0]
    columns = upper(columns_of(b, vector=vector))
    parts = parts_in(a)
    return Room({"matrix": n * n * parts, "sides": n * columns * parts, "exchanged": n}, parts)


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
    """Factor and solve by `gesv`."""
    del lowering  # there is one library
    k, (n, _) = scope.k, extents(a.type)
    columns = scope.extents(columns_of(b.type, vector=vector))
    axes, rank = tuple(range(len(b.shape))), len(a.shape) - 2
    groups = (axes[:rank], *((axis,) for axis in axes[rank:]))
    matrices = a.grouped((tuple(range(rank)), (rank,), (rank + 1,)))
    vectors, target = b.grouped(groups), x.grouped(groups)
    with slices(scope, a.type, _room(a.type, b.type, vector=vector)) as slice_:
        sides, number = slice_.rows("sides", n), slice_.number
        copy = lay_out_transposed if transposed else lay_out
        copy(slice_.rows("matrix", n), matrices.at(number), n)
        given, found = vectors.at(number), target.at(number)
        with k.loop("j", columns) as j, k.loop("i", n, kind=LoopKind.SIMD) as i:
            place = (i,) if vector else (i, j)
            sides.store(j, i, given.read(*place))
        extent, count = integer(k, "extent", n), integer(k, "count", columns)
        exchanged = slice_.array("exchanged", Prim.I32)
        matrix, right = slice_.array("matrix"), slice_.array("sides")
        args = [extent, count, matrix, extent, exchanged, right, extent]
        is_complex = a.dtype.is_complex
        is_singular = call(k, "gesv", slice_.memory.prim, "", args, is_complex=is_complex).ne(0)
        if on_singular == "error":
            with k.if_(is_singular):
                k.fail(Status.SINGULAR_MATRIX, number)
        with k.loop("i", n) as i, k.loop("j", columns, kind=LoopKind.SIMD) as j:
            value = sides.load(j, i)
            if on_singular == "nan":
                value = chosen_where(is_singular, spoiled(value), value)
            place = (i,) if vector else (i, j)
            found.write(*place, value=value)
