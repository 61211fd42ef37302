"""Kernels of orthogonal decompositions: one slice after the other, in scratch of its own.

Columns are kept as rows, along which vectors run. A slice is scaled by its largest entry, so that
squares neither overflow nor vanish; one that is not finite throughout becomes NaN. Complex axes are
turned in the complex plane until what is between them is real; then all is as for real ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.linalg.arithmetic import (
    conjugate,
    filled,
    moved,
    polar,
    real_part,
    size,
    squared,
    with_real,
)
from rlx.codegen.kernels.linalg.rows import (
    Rows,
    epsilon,
    matrices_of,
    scratch_of_rows,
    slices_in_rows,
    vectors_of,
)
from rlx.codegen.kernels.registry import Scope, kernel, scratch
from rlx.codegen.kernels.values import Complex, Scalar, chosen_where, let, real
from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.expr import E, index, select
from rlx.codegen.loops.nodes import UnaryOp
from rlx.ir.types import TensorType

_MOST_SWEEPS = 40
"""Over all pairs; ten do for any matrix of practical size."""


def _scratch_of(sizes: Callable[..., list[tuple[int, int]]]) -> Callable[..., int]:
    def scratch_bytes(a: TensorType, *, results: object, **attributes: Any) -> int:
        del results
        return scratch_of_rows(a, *sizes(a, **attributes))

    return scratch_bytes


# Eigenvalues


def _eigh_sizes(a: TensorType) -> list[tuple[int, int]]:
    (n, _) = a.with_shape(a.shape[-2:]).static_shape
    return [(n, n), (n, n)]


scratch("eigh")(_scratch_of(_eigh_sizes))


@kernel("eigh")
def eigh(scope: Scope, a: Reader, w: Writer, v: Writer) -> None:
    """Jacobi's method: rotate pairs of axes until the matrix is diagonal."""
    k, n = scope.k, _eigh_sizes(a.type)[0][0]
    values, vectors = vectors_of(w), matrices_of(v)
    with slices_in_rows(scope, a, _eigh_sizes(a.type)) as slice_:
        matrix, axes = slice_.sets
        scale, poison = slice_.read(matrix, n, mirrored=True)
        axes.fill_identity(n)
        with _sweeps(k, n) as (p, q, changed):
            _diagonalize(matrix, axes, p, q, changed, n)
        _ascend(matrix, axes, n)
        found, columns = values.at(slice_.number), vectors.at(slice_.number)
        with k.loop("i", n) as i:
            axes.turn_positive(i)
            found.write(i, value=real_part(matrix.load(i, i)) * scale + poison)
            with k.loop("j", n) as j:
                columns.at(j).write(i, value=moved(axes.load(i, j), poison))


@contextmanager
def _sweeps(k: KernelBuilder, n: int) -> Iterator[tuple[E, E, Mutable]]:
    """Sweep over all pairs of rows until a sweep rotates none."""
    moved = k.mutable("moved", index(1))
    sweep = k.mutable("sweep", index(0))
    with k.while_(moved.ne(0) & (sweep < _MOST_SWEEPS)):
        moved.set(0)
        sweep.set(sweep + 1)
        with k.loop("p", n) as p, k.loop("q", n, start=p + 1) as q:
            yield p, q, moved


def _diagonalize(matrix: Rows, axes: Rows, p: E, q: E, changed: Mutable, n: int) -> None:
    """Rotate two axes so that their off-diagonal entry is 0."""
    k = matrix.k
    entry = let(k, "off", matrix.load(p, q))
    with k.if_(size(entry) > epsilon(matrix.buffer.prim) / 4):
        changed.set(1)
        off = _made_real(matrix, axes, q, entry, n)
        first = k.let("first", real_part(matrix.load(p, p)))
        second = k.let("second", real_part(matrix.load(q, q)))
        tangent, cosine, sine = _angle(matrix, (second - first) / (off * 2.0))
        matrix.rotate(p, q, cosine, sine)
        with k.loop("i", n) as i:
            x, y = let(k, "x", matrix.load(i, p)), let(k, "y", matrix.load(i, q))
            matrix.store(i, p, x * cosine - y * sine)
            matrix.store(i, q, x * sine + y * cosine)
        matrix.store_real(p, p, first - tangent * off)
        matrix.store_real(q, q, second + tangent * off)
        matrix.store_real(p, q, matrix.number(0.0))
        matrix.store_real(q, p, matrix.number(0.0))
        axes.rotate(p, q, cosine, sine)


def _made_real(matrix: Rows, axes: Rows, q: E, entry: Scalar, n: int) -> E:
    """Multiply axis q by a phase so that `entry`, of its column, is real; return the entry."""
    if not isinstance(entry, Complex):
        return entry
    k = matrix.k
    off, direction = polar(k, entry)
    matrix.turn(q, direction)
    back = conjugate(direction)
    with k.loop("i", n) as i:
        matrix.store(i, q, matrix.load(i, q) * back)
    axes.turn(q, back)
    return off


def _angle(matrix: Rows, cotangent: E) -> tuple[E, E, E]:
    """Return tangent, cosine and sine of the smaller angle whose double has `cotangent`."""
    k = matrix.k
    size = k.let("size", abs(cotangent))
    steep = k.let("steep", size + (size * size + 1.0).unary(UnaryOp.SQRT))
    small = matrix.number(1.0) / steep
    tangent = k.let("tangent", select(cotangent < 0.0, -small, small))
    cosine = k.let("cosine", matrix.number(1.0) / (tangent * tangent + 1.0).unary(UnaryOp.SQRT))
    return tangent, cosine, k.let("sine", tangent * cosine)


def _ascend(matrix: Rows, axes: Rows, n: int) -> None:
    """Sort the diagonal, and the axes with it."""
    k = matrix.k
    with k.loop("i", n) as i:
        least = k.mutable("least", i)
        with k.loop("j", n, start=i + 1) as j:
            is_less = real_part(matrix.load(j, j)) < real_part(matrix.load(least, least))
            least.set(select(is_less, j, least))
        chosen = k.let("chosen", least)
        with k.if_(chosen.ne(i)):
            x = let(k, "x", matrix.load(i, i))
            matrix.store(i, i, matrix.load(chosen, chosen))
            matrix.store(chosen, chosen, x)
            axes.exchange(i, chosen)


# Singular values


def _svd_sizes(a: TensorType, *, full: bool) -> list[tuple[int, int]]:
    m, n = a.with_shape(a.shape[-2:]).static_shape
    return [(m if full else n, m), (n, n), (1, n)]


scratch("svd")(_scratch_of(_svd_sizes))


@kernel("svd")
def svd(scope: Scope, a: Reader, u: Writer, s: Writer, vt: Writer, *, full: bool) -> None:
    """One-sided Jacobi: rotate columns until orthogonal; their lengths are singular values."""
    k = scope.k
    (count, m), (n, _), _ = _svd_sizes(a.type, full=full)
    lefts, values, rights = matrices_of(u), vectors_of(s), matrices_of(vt)
    with slices_in_rows(scope, a, _svd_sizes(a.type, full=full)) as slice_:
        left, right, room = slice_.sets
        lengths = replace(room, parts=1)
        scale, poison = slice_.read(left, n)
        right.fill_identity(n)
        floor = _least_square(left, n, m)
        with _sweeps(k, n) as (p, q, changed):
            _orthogonalize(left, right, p, q, changed, floor)
        _descend(left, right, lengths, n)
        with k.loop("i", n) as i:
            _normalize(left, lengths, i, floor)
        with k.loop("i", count, start=n) as i:
            _complete(left, i)
            left.turn_positive(i)
        found, us, vs = (y.at(slice_.number) for y in (values, lefts, rights))
        with k.loop("i", n) as i:
            left.turn(i, right.turn_positive(i))
            found.write(i, value=real(lengths.load(0, i)) * scale + poison)
            with k.loop("j", n) as j:
                vs.at(i).write(j, value=moved(conjugate(right.load(i, j)), poison))
        with k.loop("i", count) as i, k.loop("j", m) as j:
            us.at(j).write(i, value=moved(left.load(i, j), poison))


def _least_square(left: Rows, n: int, m: int) -> E:
    """Return the squared length below which a column is rounding errors of the others."""
    k = left.k
    total = k.mutable("all", left.number(0.0))
    with k.loop("i", n) as i:
        total.set(total + left.square(i))
    relative = epsilon(left.buffer.prim) * math.sqrt(m)
    return k.let("floor", total * (relative * relative))


def _orthogonalize(left: Rows, right: Rows, p: E, q: E, changed: Mutable, floor: E) -> None:
    """Rotate two columns so that their product is 0, unless it is relatively small."""
    k = left.k
    first, second, product = left.square(p), left.square(q), left.dot(p, q)
    lengths = (first.unary(UnaryOp.SQRT)) * (second.unary(UnaryOp.SQRT))
    is_large = (first > floor) & (second > floor)
    with k.if_(is_large & (size(product) > lengths * (epsilon(left.buffer.prim) * 2))):
        changed.set(1)
        both = product
        if isinstance(product, Complex):  # one is turned in the complex plane before
            both, direction = polar(k, product)
            left.turn(q, conjugate(direction))
            right.turn(q, conjugate(direction))
        _, cosine, sine = _angle(left, (second - first) / (real(both) * 2.0))
        left.rotate(p, q, cosine, sine)
        right.rotate(p, q, cosine, sine)


def _descend(left: Rows, right: Rows, lengths: Rows, n: int) -> None:
    """Measure the columns and sort them by length."""
    k = left.k
    with k.loop("i", n) as i:
        lengths.store(0, i, left.square(i).unary(UnaryOp.SQRT))
    with k.loop("i", n) as i:
        most = k.mutable("most", i)
        with k.loop("j", n, start=i + 1) as j:
            is_more = real(lengths.load(0, j)) > real(lengths.load(0, most))
            most.set(select(is_more, j, most))
        chosen = k.let("chosen", most)
        with k.if_(chosen.ne(i)):
            x = let(k, "x", lengths.load(0, i))
            lengths.store(0, i, lengths.load(0, chosen))
            lengths.store(0, chosen, x)
            left.exchange(i, chosen)
            right.exchange(i, chosen)


def _normalize(left: Rows, lengths: Rows, i: E, floor: E) -> None:
    """Normalize a column; a zero column is replaced by a vector orthogonal to the others."""
    k = left.k
    length = k.let("length", real(lengths.load(0, i)))
    with k.if_(length * length > floor):
        left.scale(i, left.number(1.0) / length)
    with k.else_():
        _complete(left, i)


def _complete(left: Rows, i: E) -> None:
    """Replace row i by the orthogonal part of the unit vector that has the most of it."""
    k = left.k
    most, axis = k.mutable("most", left.number(-1.0)), k.mutable("axis", index(0))
    with k.loop("c", left.width) as c:
        used = k.mutable("used", left.number(0.0))
        with k.loop("r", i) as r:
            used.set(used + squared(left.load(r, c)))
        remains = k.let("remains", left.number(1.0) - used)
        better = k.let("better", remains > most)
        axis.set(select(better, c, axis))
        most.set(select(better, remains, most))
    with k.loop("j", left.width) as j:
        left.store_real(i, j, select(j.eq(axis), left.number(1.0), left.number(0.0)))
    with k.loop("twice", 2), k.loop("r", i) as r:
        left.subtract(i, left.dot(r, i), r)
    left.scale(i, left.number(1.0) / left.square(i).unary(UnaryOp.SQRT))


# Triangles


def _qr_sizes(a: TensorType, *, full: bool) -> list[tuple[int, int]]:
    m, n = a.with_shape(a.shape[-2:]).static_shape
    return [(n, m), (m if full else min(m, n), m), (1, min(m, n))]


scratch("qr")(_scratch_of(_qr_sizes))


@kernel("qr")
def qr(scope: Scope, a: Reader, q: Writer, r: Writer, *, full: bool) -> None:
    """Householder reflections of the columns; q is their product, formed in reverse order."""
    k = scope.k
    (n, m), (count, _), (_, steps) = _qr_sizes(a.type, full=full)
    lefts, rights = matrices_of(q), matrices_of(r)
    with slices_in_rows(scope, a, _qr_sizes(a.type, full=full)) as slice_:
        columns, axes, factors = slice_.sets
        scale, poison = slice_.read(columns, n)
        with k.loop("c", steps) as c:
            _reflect(columns, factors, c)
            with k.loop("other", n, start=c + 1) as other:
                _apply(columns, c, conjugate(factors.load(0, c)), columns, other)
        axes.fill_identity(count)
        with k.loop("back", steps) as back:
            c = k.let("c", steps - 1 - back)
            with k.loop("other", count) as other:
                _apply(columns, c, factors.load(0, c), axes, other)
        us, triangle = lefts.at(slice_.number), rights.at(slice_.number)
        with k.loop("i", count) as i:
            with k.loop("j", m) as j:
                us.at(j).write(i, value=moved(axes.load(i, j), poison))
            with k.loop("j", n) as j:
                row = select(i <= j, i, j)  # below the diagonal are the reflections
                found = let(k, "found", columns.load(j, row) * scale)
                entry = chosen_where(i <= j, found, filled(0.0, found))
                triangle.at(i).write(j, value=moved(entry, poison))


def _reflect(columns: Rows, factors: Rows, c: E) -> None:
    """Leave, of a column, its length at c, and below it the reflection's vector, 1 at c.

    The length is real; that of complex numbers has the sign of the real part, as LAPACK has it.
    """
    k = columns.k
    top = let(k, "top", columns.load(c, c))
    below = columns.square(c, c + 1)
    length = k.let("length", (squared(top) + below).unary(UnaryOp.SQRT))
    is_done = below.eq(0.0)
    if isinstance(top, Complex):
        is_done = is_done & top.im.eq(0.0)
    with k.if_(is_done):
        factors.store_real(0, c, columns.number(0.0))
    with k.else_():
        found = k.let("found", select(real_part(top) < 0.0, length, -length))
        apart = let(k, "apart", top - with_real(top, found))
        factors.store(0, c, -apart / found)
        columns.turn(c, let(k, "scale", filled(1.0, top) / apart), c + 1)
        columns.store_real(c, c, found)


def _apply(columns: Rows, c: E, factor: Scalar, target: Rows, other: E) -> None:
    """Reflect a row of `target` by the vector in column c, times `factor`."""
    k = target.k
    top = target.load(other, c)
    total = top + columns.dot(c, other, c + 1, of=target)
    amount = let(k, "amount", total * factor)
    target.store(other, c, top - amount)
    target.subtract(other, amount, c, c + 1, of=columns)
