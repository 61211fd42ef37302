"""Calls of LAPACK for large linear systems."""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.linalg.arithmetic import spoiled
from rlx.codegen.kernels.linalg.lapack import (
    Room,
    columns_of,
    extents,
    lay_out,
    lay_out_transposed,
    needs_room,
    parts_in,
    slices,
)
from rlx.codegen.kernels.linalg.rows import matrices_of, vectors_of
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import chosen_where
from rlx.codegen.loops.nodes import LoopKind, Status
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
    vector: bool,
    transposed: bool,
    on_singular: str,
) -> None:
    """Factor and solve by `gesv`."""
    k, (n, _) = scope.k, extents(a.type)
    columns = scope.extents(columns_of(b.type, vector=vector))
    groups = vectors_of if vector else matrices_of
    matrices, vectors, target = matrices_of(a), groups(b), groups(x)
    with slices(scope, a.type, _room(a.type, b.type, vector=vector)) as slice_:
        sides, number = slice_.rows("sides", n), slice_.number
        copy = lay_out_transposed if transposed else lay_out
        copy(slice_.rows("matrix", n), matrices.at(number), n)
        given, found = vectors.at(number), target.at(number)
        with k.loop("j", columns) as j, k.loop("i", n, kind=LoopKind.SIMD) as i:
            place = (i,) if vector else (i, j)
            sides.store(j, i, given.read(*place))
        arguments = "extent count matrix extent exchanged sides extent"
        is_singular = slice_.call("gesv", "", arguments, extent=n, count=columns).ne(0)
        if on_singular == "error":
            with k.if_(is_singular):
                k.fail(Status.SINGULAR_MATRIX, number)
        with k.loop("i", n) as i, k.loop("j", columns, kind=LoopKind.SIMD) as j:
            value = sides.load(j, i)
            if on_singular == "nan":
                value = chosen_where(is_singular, spoiled(value), value)
            place = (i,) if vector else (i, j)
            found.write(*place, value=value)
