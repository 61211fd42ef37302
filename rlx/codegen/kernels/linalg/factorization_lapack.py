"""Calls of LAPACK for the triangles of large matrices."""

from __future__ import annotations

import math

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.linalg.arithmetic import filled, moved, real_part
from rlx.codegen.kernels.linalg.lapack import (
    Room,
    Slice,
    extents,
    lay_out,
    needs_room,
    parts_in,
    slices,
)
from rlx.codegen.kernels.linalg.rows import Rows, matrices_of, vectors_of
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.expr import E, index, maximum, minimum, select
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim, Status
from rlx.ir.lowering import Library
from rlx.ir.types import TensorType


@needs_room("cholesky", "lu")
def _room(a: TensorType, **_: object) -> Room:
    n, parts = extents(a)[0], parts_in(a)
    return Room({"matrix": n * n * parts}, parts)


@kernel("cholesky", lowering=Library)
def cholesky_by_lapack(
    scope: Scope, a: Reader, y: Writer, *, lower: bool, on_singular: str
) -> None:
    """Factor by `potrf`, which takes rows for columns and so the lower triangle for the upper."""
    k, (n, _) = scope.k, extents(a.type)
    source, target = matrices_of(a), matrices_of(y)
    with slices(scope, a.type, _room(a.type)) as slice_:
        given, found = source.at(slice_.number), target.at(slice_.number)
        matrix = slice_.rows("matrix", n)
        with k.loop("i", n) as i:
            (start, stop), _ = _sides(i, n, lower=lower)
            with k.loop("j", stop, start=start, kind=LoopKind.SIMD) as j:
                matrix.store(i, j, given.read(i, j))
        side = "U" if lower else "L"
        verdict = slice_.call("potrf", side, "extent matrix extent", extent=n)
        poison = _judged(slice_, matrix, verdict, on_singular)
        with k.loop("i", n) as i:
            (start, stop), (first, last) = _sides(i, n, lower=lower)
            with k.loop("j", stop, start=start, kind=LoopKind.SIMD) as j:
                found.at(i).write(j, value=moved(matrix.load(i, j), poison))
            with k.loop("j", last, start=first, kind=LoopKind.SIMD) as j:
                zero = filled(0.0, matrix.load(i, j))
                found.at(i).write(j, value=moved(zero, poison))


def _sides(i: E, n: int, *, lower: bool) -> tuple[tuple[E, E], tuple[E, E]]:
    """Return the ranges of row i inside and outside of a triangle.

    No loop asks on which side it is: GCC 12 gets pairs wrong that are loaded under a condition.
    """
    end = index(n)
    return ((index(0), i + 1), (i + 1, end)) if lower else ((i, end), (index(0), i))


def _judged(slice_: Slice, matrix: Rows, verdict: E, on_singular: str) -> E:
    """Fail where the pivot that LAPACK stopped at is not positive; return 0, or NaN to spoil all.

    At a NaN, which is no fault, some libraries stop, and others leave zeros around it.
    """
    k = slice_.k
    has_stopped = verdict.ne(0)
    if on_singular == "error":
        at = k.let("at", maximum(verdict.cast(Prim.I64), 1) - 1)
        pivot = k.let("pivot", real_part(matrix.load(at, at)))
        with k.if_(has_stopped & pivot.eq(pivot)):
            k.fail(Status.SINGULAR_MATRIX, slice_.number)
    nan, zero = matrix.number(math.nan), matrix.number(0.0)
    poison = k.mutable("poison", select(has_stopped, nan, zero))
    with k.loop("i", matrix.width) as i:
        pivot = k.let("pivot", real_part(matrix.load(i, i)))
        poison.set(select(pivot.eq(pivot), poison, nan))
    return poison


@kernel("lu", lowering=Library)
def lu_by_lapack(
    scope: Scope,
    a: Reader,
    y: Writer,
    exchanged: Writer,
    permutation: Writer,
) -> None:
    """Factor by `getrf`; its status for a pivot of 0 is no error here."""
    k, (n, _) = scope.k, extents(a.type)
    source, target = matrices_of(a), matrices_of(y)
    steps, orders = vectors_of(exchanged), vectors_of(permutation)
    with slices(scope, a.type, _room(a.type)) as slice_:
        number, columns = slice_.number, slice_.rows("matrix", n)
        pivots = k.local("pivots", Prim.I32, n)
        lay_out(columns, source.at(number), n)
        places = k.address(pivots, 0, writable=True)
        slice_.call("getrf", "", "extent extent matrix extent pivots", extent=n, pivots=places)
        found = target.at(number)
        with k.loop("i", n) as i, k.loop("j", n, kind=LoopKind.SIMD) as j:
            found.at(i).write(j, value=columns.load(j, i))
        order = _follow(slice_, pivots, n)
        with k.loop("i", n) as i:
            steps.at(number).write(i, value=k.load(pivots, i))
            orders.at(number).write(i, value=k.load(order, i))


def _follow(slice_: Slice, pivots: Buffer, n: int) -> Buffer:
    """Count rows from 0; return the numbers of the rows, exchanged as the rows were."""
    k = slice_.k
    order = k.local("order", Prim.I32, n)
    with k.loop("i", n, kind=LoopKind.SIMD) as i:
        k.store(order, i, i.cast(Prim.I32))
    with k.loop("c", n) as c:
        # Of a column of NaN, libraries do not agree on the row
        row = k.let("row", maximum(minimum(k.load(pivots, c).cast(Prim.I64), n), 1) - 1)
        k.store(pivots, c, row.cast(Prim.I32))
        taken = k.let("taken", k.load(order, row))
        k.store(order, row, k.load(order, c))
        k.store(order, c, taken)
    return order
