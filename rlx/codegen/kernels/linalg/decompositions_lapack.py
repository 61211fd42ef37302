"""Calls of LAPACK for large decompositions: what the generated kernels give, in less time.

Signs are set as the ops state them. A slice that is not finite throughout, or whose values LAPACK
does not find, is NaN.
"""

from __future__ import annotations

import math

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.linalg.arithmetic import conjugate, filled, moved
from rlx.codegen.kernels.linalg.lapack import (
    BLOCK,
    Room,
    Slice,
    extents,
    lay_out,
    lay_out_transposed,
    needs_room,
    parts_in,
    slices,
)
from rlx.codegen.kernels.linalg.rows import Rows, matrices_of, mirrored_entry, vectors_of
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import chosen_where, let
from rlx.codegen.loops.builder import Mutable
from rlx.codegen.loops.expr import E, select
from rlx.codegen.loops.nodes import BinaryOp, LoopKind
from rlx.ir.lowering import Library
from rlx.ir.types import TensorType


def _poison(slice_: Slice, count: int) -> Mutable:
    """Return NaN if the matrix has an infinity or NaN, else 0."""
    k, first = slice_.k, slice_.at("matrix")
    poison = k.mutable("poison", slice_.rows("matrix", count).number(0.0))
    with k.loop(
        "i", count * slice_.room.parts, kind=LoopKind.SIMD, accumulators=[(poison, BinaryOp.ADD)]
    ) as i:
        x = k.load(slice_.memory, first + i)
        poison.set(poison + (x - x))
    return poison


def _spoil(poison: Mutable, verdict: E) -> None:
    """Fill the results of a slice that did not converge with NaN."""
    poison.set(select(verdict.ne(0), math.nan, poison))


def _write(matrix: Rows, count: int, target: GroupedWriter, poison: E, *, turned: bool) -> None:
    """Write rows as they are, or as columns."""
    k = matrix.k
    with k.loop("i", count) as i, k.loop("j", matrix.width, kind=LoopKind.SIMD) as j:
        row, column = (j, i) if turned else (i, j)
        target.at(row).write(column, value=moved(matrix.load(i, j), poison))


# Eigenvalues


@needs_room("eigh")
def _eigh_room(a: TensorType, **_: object) -> Room:
    n, parts = extents(a)[0], parts_in(a)
    work = 1 + 6 * n + 2 * n * n
    counts = {"matrix": parts * n * n, "values": n, "work": parts * work, "integers": 3 + 5 * n}
    return Room({**counts, "real_work": work} if parts == 2 else counts, parts)


@kernel("eigh", lowering=Library)
def eigh_by_lapack(scope: Scope, a: Reader, w: Writer, v: Writer) -> None:
    """Reduce to three diagonals, divide and conquer: `syevd` or, of complex numbers, `heevd`."""
    k, (n, _) = scope.k, extents(a.type)
    source, values, target = matrices_of(a), vectors_of(w), matrices_of(v)
    with slices(scope, a.type, _eigh_room(a.type)) as slice_:
        vectors = slice_.rows("matrix", n)
        _mirror(vectors, source.at(slice_.number), n)
        poison = _poison(slice_, n * n)
        name, real = ("heevd", "real_work #real_work") if vectors.is_complex else ("syevd", "")
        with k.if_(poison.eq(0.0)):
            arguments = f"extent matrix extent values work #work {real} integers #integers"
            _spoil(poison, slice_.call(name, "VU", arguments, extent=n))
        found = values.at(slice_.number)
        with k.loop("i", n) as i:
            vectors.turn_positive(i)
            found.write(i, value=k.load(slice_.memory, slice_.at("values") + i) + poison)
        _write(vectors, n, target.at(slice_.number), poison, turned=True)


def _mirror(target: Rows, matrix: GroupedReader, n: int) -> None:
    """Copy the lower triangle to both sides, column by column."""
    k = target.k
    with k.loop("i", n) as i, k.loop("j", i + 1) as j:
        x = let(k, "x", mirrored_entry(k, matrix, i, j))
        target.store(i, j, conjugate(x))
        target.store(j, i, x)


# Singular values


@needs_room("svd")
def _svd_room(a: TensorType, *, full: bool, **_: object) -> Room:
    m, n = extents(a)
    left, parts = m if full else n, parts_in(a)
    work = 4 * n * n + 7 * n + BLOCK * (m + n) + m
    counts = {"matrix": m * n * parts, "values": n, "left": left * m * parts,
              "right": n * n * parts, "work": work * parts, "integers": 8 * n}  # fmt: skip
    real_work = {"real_work": max(5 * n * n + 5 * n, 2 * m * n + 2 * n * n + n)}
    return Room({**counts, **real_work} if parts == 2 else counts, parts)


@kernel("svd", lowering=Library)
def svd_by_lapack(scope: Scope, a: Reader, u: Writer, s: Writer, vt: Writer, *, full: bool) -> None:
    """Decompose the transpose by `gesdd`: its right vectors are the left ones, row by row."""
    k, (m, n) = scope.k, extents(a.type)
    source, lefts, rights = matrices_of(a), matrices_of(u), matrices_of(vt)
    values, count = vectors_of(s), m if full else n
    with slices(scope, a.type, _svd_room(a.type, full=full)) as slice_:
        lay_out_transposed(slice_.rows("matrix", n), source.at(slice_.number), m)
        poison = _poison(slice_, m * n)
        job, last = ("A", "high") if full else ("S", "wide")
        real = "real_work" if a.dtype.is_complex else ""
        with k.if_(poison.eq(0.0)):
            arguments = f"wide high matrix wide values right wide left {last} work #work {real}"
            verdict = slice_.call("gesdd", job, f"{arguments} integers", wide=n, high=m)
            _spoil(poison, verdict)
        left, right = slice_.rows("left", count), slice_.rows("right", n)
        signs = slice_.rows("work", count)
        with k.loop("i", n) as i:
            signs.store(0, i, conjugate(right.turn_positive(i)))
        with k.loop("i", count, start=n) as i:
            signs.store(0, i, left.sign_of_column(i, m))
        found = values.at(slice_.number)
        with k.loop("i", n) as i:
            found.write(i, value=k.load(slice_.memory, slice_.at("values") + i) + poison)
        with k.loop("i", m) as i, k.loop("j", count, kind=LoopKind.SIMD) as j:
            left.store(i, j, left.load(i, j) * signs.load(0, j))
        _write(left, m, lefts.at(slice_.number), poison, turned=False)
        _write(right, n, rights.at(slice_.number), poison, turned=False)


# Triangles


@needs_room("qr")
def _qr_room(a: TensorType, *, full: bool, **_: object) -> Room:
    (m, n), parts = extents(a), parts_in(a)
    count = max(n, m) if full else n
    counts = {"matrix": m * count, "factors": min(m, n), "work": BLOCK * count}
    return Room({name: extent * parts for name, extent in counts.items()}, parts)


@kernel("qr", lowering=Library)
def qr_by_lapack(scope: Scope, a: Reader, q: Writer, r: Writer, *, full: bool) -> None:
    """Reflect columns by `geqrf`; `orgqr`, complex `ungqr`, multiplies the reflections out."""
    k, (m, n) = scope.k, extents(a.type)
    steps, count = min(m, n), m if full else min(m, n)
    source, lefts, rights = matrices_of(a), matrices_of(q), matrices_of(r)
    with slices(scope, a.type, _qr_room(a.type, full=full)) as slice_:
        columns = slice_.rows("matrix", m)
        lay_out(columns, source.at(slice_.number), n)
        poison = _poison(slice_, m * n)
        with k.if_(poison.eq(0.0)):
            slice_.call("geqrf", "", "high wide matrix high factors work #work", high=m, wide=n)
        triangle = rights.at(slice_.number)
        with k.loop("i", count) as i, k.loop("j", n) as j:
            found = let(k, "found", columns.load(j, i))  # not under a condition
            entry = chosen_where(i <= j, found, filled(0.0, found))
            triangle.at(i).write(j, value=moved(entry, poison))
        name, arguments = (
            "ungqr" if columns.is_complex else "orgqr",
            "high kept steps matrix high factors work #work",
        )
        with k.if_(poison.eq(0.0)):
            slice_.call(name, "", arguments, high=m, kept=count, steps=steps)
        _write(columns, count, lefts.at(slice_.number), poison, turned=True)
