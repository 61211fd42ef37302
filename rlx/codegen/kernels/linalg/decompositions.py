"""Kernels of orthogonal decompositions: one slice after the other, in scratch of its own.

Columns are kept as rows, along which vectors run. A slice is scaled by its largest entry, so that
squares neither overflow nor vanish; one that is not finite throughout becomes NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import overload

import numpy as np

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.registry import Scope, kernel, scratch
from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.expr import E, const, index, maximum, select
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind, Prim, UnaryOp
from rlx.errors import InternalError
from rlx.ir.shape import product
from rlx.ir.types import TensorType

_MOST_SWEEPS = 40
"""Over all pairs; ten do for any matrix of practical size."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Some vectors of one length in scratch."""

    k: KernelBuilder
    buffer: Buffer
    first: E
    width: int

    def at(self, row: E | int, j: E | int) -> E:
        return self.first + index(row) * self.width + j

    def load(self, row: E | int, j: E | int) -> E:
        return self.k.load(self.buffer, self.at(row, j))

    def store(self, row: E | int, j: E | int, value: E) -> None:
        self.k.store(self.buffer, self.at(row, j), value)

    def number(self, value: float) -> E:
        return const(value, self.buffer.prim)

    def dot(self, row: E, other: E, start: E | int = 0) -> E:
        """Return the sum of products of two rows from `start` on."""
        total = self.k.mutable("total", self.number(0.0))
        with self.k.loop(
            "j", self.width, start=start, kind=LoopKind.SIMD, accumulators=[(total, BinaryOp.ADD)]
        ) as j:
            total.set(total + self.load(row, j) * self.load(other, j))
        return self.k.let("product", total)

    def rotate(self, p: E, q: E, cosine: E, sine: E) -> None:
        with self.k.loop("j", self.width, kind=LoopKind.SIMD) as j:
            x, y = self.k.let("x", self.load(p, j)), self.k.let("y", self.load(q, j))
            self.store(p, j, cosine * x - sine * y)
            self.store(q, j, sine * x + cosine * y)

    def subtract(self, row: E, factor: E, other: E, start: E | int = 0) -> None:
        """Subtract a multiple of another row."""
        with self.k.loop("j", self.width, start=start, kind=LoopKind.SIMD) as j:
            self.store(row, j, self.load(row, j) - factor * self.load(other, j))

    def scale(self, row: E, factor: E, start: E | int = 0) -> None:
        with self.k.loop("j", self.width, start=start, kind=LoopKind.SIMD) as j:
            self.store(row, j, self.load(row, j) * factor)

    def exchange(self, p: E, q: E) -> None:
        with self.k.loop("j", self.width, kind=LoopKind.SIMD) as j:
            x = self.k.let("x", self.load(p, j))
            self.store(p, j, self.load(q, j))
            self.store(q, j, x)

    def fill_identity(self, count: int) -> None:
        k = self.k
        with k.loop("i", count) as i:
            with k.loop("j", self.width, kind=LoopKind.SIMD) as j:
                self.store(i, j, self.number(0.0))
            self.store(i, i, self.number(1.0))

    def largest(self, row: E) -> E:
        """Return the component of a row that is largest in size, the first among equals."""
        best = self.k.mutable("best", self.number(0.0))
        with self.k.loop("j", self.width) as j:
            x = self.k.let("x", self.load(row, j))
            best.set(select(abs(x) > abs(best), x, best))
        return best

    def turn_positive(self, row: E) -> E:
        """Give the largest component a positive sign; return what the row was multiplied by."""
        sign = self._sign(self.largest(row))
        self.scale(row, sign)
        return sign

    def sign_of_column(self, column: E, height: int) -> E:
        """Return the sign of the component of a column that is largest in size."""
        best = self.k.mutable("best", self.number(0.0))
        with self.k.loop("i", height) as i:
            x = self.k.let("x", self.load(i, column))
            best.set(select(abs(x) > abs(best), x, best))
        return self._sign(best)

    def _sign(self, x: E) -> E:
        return self.k.let("sign", select(x < 0.0, self.number(-1.0), self.number(1.0)))


@contextmanager
def _slices(scope: Scope, a: Reader, sizes: list[tuple[int, int]]) -> Iterator[_Slice]:
    """Go through the slices; each has as many sets of rows in scratch as there are `sizes`."""
    batch = product(a.shape[:-2])
    source = matrices_of(a)
    each = sum(count * width for count, width in sizes)
    with rows(scope.k, "slice", scope.extents(batch), a.type.elements * 64) as number:
        if scope.scratch is None:
            raise InternalError("a decomposition needs scratch")
        first, sets = number * each, []
        for count, width in sizes:
            sets.append(Rows(scope.k, scope.scratch, first, width))
            first = first + count * width
        yield _Slice(number, source, tuple(sets))


@dataclass(frozen=True, slots=True)
class _Slice:
    """One matrix, and the rows that are worked on."""

    number: E
    source: GroupedReader
    sets: tuple[Rows, ...]

    def read(self, target: Rows, count: int, *, mirrored: bool = False) -> tuple[E, E]:
        """Read the columns as rows, scaled; return the scale, and NaN unless all is finite."""
        k, matrix = target.k, self.source.at(self.number)
        largest = k.mutable("largest", target.number(0.0))
        rest = k.mutable("rest", target.number(0.0))
        with k.loop("i", count) as i, k.loop("j", target.width) as j:
            row, column = (j, i) if not mirrored else (maximum(i, j), select(i < j, i, j))
            x = k.let("x", matrix.at(row).read_real(column))
            target.store(i, j, x)
            largest.set(select(abs(x) > largest, abs(x), largest))
            rest.set(rest + (x - x))
        scale = k.let("scale", select(largest > 0.0, largest, target.number(1.0)))
        with k.loop("i", count) as i, k.loop("j", target.width, kind=LoopKind.SIMD) as j:
            target.store(i, j, target.load(i, j) / scale)
        return scale, k.let("poison", rest)


@overload
def matrices_of(x: Reader) -> GroupedReader: ...
@overload
def matrices_of(x: Writer) -> GroupedWriter: ...
def matrices_of(x: Reader | Writer) -> GroupedReader | GroupedWriter:
    """Return matrices by slice, row and column."""
    rank = len(x.shape)
    return x.grouped((tuple(range(rank - 2)), (rank - 2,), (rank - 1,)))


def _scratch_bytes(a: TensorType, *sizes: tuple[int, int]) -> int:
    batch = product(a.shape[:-2])
    each = sum(count * width for count, width in sizes)
    return a.with_shape((batch, each)).bytes


def _epsilon(prim: Prim) -> float:
    return float(np.finfo(np.float32 if prim is Prim.F32 else np.float64).eps)


# Eigenvalues


def _eigh_sizes(a: TensorType) -> list[tuple[int, int]]:
    (n, _) = a.with_shape(a.shape[-2:]).static_shape
    return [(n, n), (n, n)]


@scratch("eigh")
def eigh_scratch(operands: list[TensorType], results: list[TensorType], **_: object) -> int:
    del results
    return _scratch_bytes(operands[0], *_eigh_sizes(operands[0]))


@kernel("eigh")
def eigh(scope: Scope, a: Reader, w: Writer, v: Writer) -> None:
    """Turn pairs of axes until the matrix is diagonal."""
    k, n = scope.k, _eigh_sizes(a.type)[0][0]
    rank = len(w.shape)
    values, vectors = w.grouped((tuple(range(rank - 1)), (rank - 1,))), matrices_of(v)
    with _slices(scope, a, _eigh_sizes(a.type)) as slice_:
        matrix, axes = slice_.sets
        scale, poison = slice_.read(matrix, n, mirrored=True)
        axes.fill_identity(n)
        with _sweeps(k, n) as (p, q, moved):
            _diagonalize(matrix, axes, p, q, moved, n)
        _ascend(matrix, axes, n)
        found, columns = values.at(slice_.number), vectors.at(slice_.number)
        with k.loop("i", n) as i:
            axes.turn_positive(i)
            found.write(i, value=matrix.load(i, i) * scale + poison)
            with k.loop("j", n) as j:
                columns.at(j).write(i, value=axes.load(i, j) + poison)


@contextmanager
def _sweeps(k: KernelBuilder, n: int) -> Iterator[tuple[E, E, Mutable]]:
    """Go over all pairs of rows again and again until none was moved."""
    moved = k.mutable("moved", index(1))
    sweep = k.mutable("sweep", index(0))
    with k.while_(moved.ne(0) & (sweep < _MOST_SWEEPS)):
        moved.set(0)
        sweep.set(sweep + 1)
        with k.loop("p", n) as p, k.loop("q", n, start=p + 1) as q:
            yield p, q, moved


def _diagonalize(matrix: Rows, axes: Rows, p: E, q: E, moved: Mutable, n: int) -> None:
    k = matrix.k
    off = k.let("off", matrix.load(p, q))
    with k.if_(abs(off) > _epsilon(matrix.buffer.prim) / 4):
        moved.set(1)
        first, second = k.let("first", matrix.load(p, p)), k.let("second", matrix.load(q, q))
        tangent, cosine, sine = _angle(matrix, (second - first) / (off * 2.0))
        matrix.rotate(p, q, cosine, sine)
        with k.loop("i", n) as i:
            x, y = k.let("x", matrix.load(i, p)), k.let("y", matrix.load(i, q))
            matrix.store(i, p, cosine * x - sine * y)
            matrix.store(i, q, sine * x + cosine * y)
        matrix.store(p, p, first - tangent * off)
        matrix.store(q, q, second + tangent * off)
        matrix.store(p, q, matrix.number(0.0))
        matrix.store(q, p, matrix.number(0.0))
        axes.rotate(p, q, cosine, sine)


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
            least.set(select(matrix.load(j, j) < matrix.load(least, least), j, least))
        chosen = k.let("chosen", least)
        with k.if_(chosen.ne(i)):
            x = k.let("x", matrix.load(i, i))
            matrix.store(i, i, matrix.load(chosen, chosen))
            matrix.store(chosen, chosen, x)
            axes.exchange(i, chosen)


# Singular values


def _svd_sizes(a: TensorType, *, full: bool) -> list[tuple[int, int]]:
    m, n = a.with_shape(a.shape[-2:]).static_shape
    return [(m if full else n, m), (n, n), (1, n)]


@scratch("svd")
def svd_scratch(
    operands: list[TensorType], results: list[TensorType], *, full: bool, **_: object
) -> int:
    del results
    return _scratch_bytes(operands[0], *_svd_sizes(operands[0], full=full))


@kernel("svd")
def svd(scope: Scope, a: Reader, u: Writer, s: Writer, vt: Writer, *, full: bool) -> None:
    """Turn pairs of columns until all are orthogonal: their lengths are the singular values."""
    k = scope.k
    (count, m), (n, _), _ = _svd_sizes(a.type, full=full)
    rank = len(s.shape)
    lefts, rights = matrices_of(u), matrices_of(vt)
    values = s.grouped((tuple(range(rank - 1)), (rank - 1,)))
    with _slices(scope, a, _svd_sizes(a.type, full=full)) as slice_:
        left, right, lengths = slice_.sets
        scale, poison = slice_.read(left, n)
        right.fill_identity(n)
        floor = _least_square(left, n, m)
        with _sweeps(k, n) as (p, q, moved):
            _orthogonalize(left, right, p, q, moved, floor)
        _descend(left, right, lengths, n)
        with k.loop("i", n) as i:
            _normalize(left, lengths, i, floor)
        with k.loop("i", count, start=n) as i:
            _complete(left, i)
            left.turn_positive(i)
        found, us, vs = (y.at(slice_.number) for y in (values, lefts, rights))
        with k.loop("i", n) as i:
            left.scale(i, right.turn_positive(i))
            found.write(i, value=lengths.load(0, i) * scale + poison)
            with k.loop("j", n) as j:
                vs.at(i).write(j, value=right.load(i, j) + poison)
        with k.loop("i", count) as i, k.loop("j", m) as j:
            us.at(j).write(i, value=left.load(i, j) + poison)


def _least_square(left: Rows, n: int, m: int) -> E:
    """Return the squared length below which a column is rounding errors of the others."""
    k = left.k
    total = k.mutable("all", left.number(0.0))
    with k.loop("i", n) as i:
        total.set(total + left.dot(i, i))
    relative = _epsilon(left.buffer.prim) * math.sqrt(m)
    return k.let("floor", total * (relative * relative))


def _orthogonalize(left: Rows, right: Rows, p: E, q: E, moved: Mutable, floor: E) -> None:
    k = left.k
    first, second, both = left.dot(p, p), left.dot(q, q), left.dot(p, q)
    lengths = (first.unary(UnaryOp.SQRT)) * (second.unary(UnaryOp.SQRT))
    is_large = (first > floor) & (second > floor)
    with k.if_(is_large & (abs(both) > lengths * (_epsilon(left.buffer.prim) * 2))):
        moved.set(1)
        _, cosine, sine = _angle(left, (second - first) / (both * 2.0))
        left.rotate(p, q, cosine, sine)
        right.rotate(p, q, cosine, sine)


def _descend(left: Rows, right: Rows, lengths: Rows, n: int) -> None:
    """Measure the columns and sort them by length."""
    k = left.k
    with k.loop("i", n) as i:
        lengths.store(0, i, left.dot(i, i).unary(UnaryOp.SQRT))
    with k.loop("i", n) as i:
        most = k.mutable("most", i)
        with k.loop("j", n, start=i + 1) as j:
            most.set(select(lengths.load(0, j) > lengths.load(0, most), j, most))
        chosen = k.let("chosen", most)
        with k.if_(chosen.ne(i)):
            x = k.let("x", lengths.load(0, i))
            lengths.store(0, i, lengths.load(0, chosen))
            lengths.store(0, chosen, x)
            left.exchange(i, chosen)
            right.exchange(i, chosen)


def _normalize(left: Rows, lengths: Rows, i: E, floor: E) -> None:
    """Give a column length 1; one that has none is replaced by what the others leave."""
    k = left.k
    length = k.let("length", lengths.load(0, i))
    with k.if_(length * length > floor):
        left.scale(i, left.number(1.0) / length)
    with k.else_():
        _complete(left, i)


def _complete(left: Rows, i: E) -> None:
    """Make row i orthogonal to those before: the unit vector that they leave most of."""
    k = left.k
    most, axis = k.mutable("most", left.number(-1.0)), k.mutable("axis", index(0))
    with k.loop("c", left.width) as c:
        used = k.mutable("used", left.number(0.0))
        with k.loop("r", i) as r:
            used.set(used + left.load(r, c) * left.load(r, c))
        remains = k.let("remains", left.number(1.0) - used)
        better = k.let("better", remains > most)
        axis.set(select(better, c, axis))
        most.set(select(better, remains, most))
    with k.loop("j", left.width) as j:
        left.store(i, j, select(j.eq(axis), left.number(1.0), left.number(0.0)))
    with k.loop("twice", 2), k.loop("r", i) as r:
        left.subtract(i, left.dot(i, r), r)
    left.scale(i, left.number(1.0) / left.dot(i, i).unary(UnaryOp.SQRT))


# Triangles


def _qr_sizes(a: TensorType, *, full: bool) -> list[tuple[int, int]]:
    m, n = a.with_shape(a.shape[-2:]).static_shape
    return [(n, m), (m if full else min(m, n), m), (1, min(m, n))]


@scratch("qr")
def qr_scratch(
    operands: list[TensorType], results: list[TensorType], *, full: bool, **_: object
) -> int:
    del results
    return _scratch_bytes(operands[0], *_qr_sizes(operands[0], full=full))


@kernel("qr")
def qr(scope: Scope, a: Reader, q: Writer, r: Writer, *, full: bool) -> None:
    """Reflect one column after the other onto its axis; q is the reflections, back to front."""
    k = scope.k
    (n, m), (count, _), (_, steps) = _qr_sizes(a.type, full=full)
    lefts, rights = matrices_of(q), matrices_of(r)
    with _slices(scope, a, _qr_sizes(a.type, full=full)) as slice_:
        columns, axes, factors = slice_.sets
        scale, poison = slice_.read(columns, n)
        with k.loop("c", steps) as c:
            _reflect(columns, factors, c)
            with k.loop("other", n, start=c + 1) as other:
                _apply(columns, factors, c, columns, other)
        axes.fill_identity(count)
        with k.loop("back", steps) as back:
            c = k.let("c", steps - 1 - back)
            with k.loop("other", count) as other:
                _apply(columns, factors, c, axes, other)
        us, triangle = lefts.at(slice_.number), rights.at(slice_.number)
        with k.loop("i", count) as i:
            with k.loop("j", m) as j:
                us.at(j).write(i, value=axes.load(i, j) + poison)
            with k.loop("j", n) as j:
                row = select(i <= j, i, j)  # below the diagonal lie the reflections
                entry = select(i <= j, columns.load(j, row) * scale, columns.number(0.0))
                triangle.at(i).write(j, value=entry + poison)


def _reflect(columns: Rows, factors: Rows, c: E) -> None:
    """Leave, of a column, its length at c, and below it the reflection's vector, 1 at c."""
    k = columns.k
    top = k.let("top", columns.load(c, c))
    below = columns.dot(c, c, c + 1)
    length = k.let("length", (top * top + below).unary(UnaryOp.SQRT))
    with k.if_(below.eq(0.0)):
        factors.store(0, c, columns.number(0.0))
    with k.else_():
        found = k.let("found", select(top < 0.0, length, -length))
        factors.store(0, c, (found - top) / found)
        columns.scale(c, columns.number(1.0) / (top - found), c + 1)
        columns.store(c, c, found)


def _apply(columns: Rows, factors: Rows, c: E, target: Rows, other: E) -> None:
    """Reflect a row of `target` by reflection c."""
    k = target.k
    total = k.mutable("total", target.load(other, c))
    with k.loop(
        "j", target.width, start=c + 1, kind=LoopKind.SIMD, accumulators=[(total, BinaryOp.ADD)]
    ) as j:
        total.set(total + target.load(other, j) * columns.load(c, j))
    amount = k.let("amount", total * factors.load(0, c))
    target.store(other, c, target.load(other, c) - amount)
    with k.loop("j", target.width, start=c + 1, kind=LoopKind.SIMD) as j:
        target.store(other, j, target.load(other, j) - amount * columns.load(c, j))
