"""Row vectors in scratch for orthogonal decompositions.

Parts of complex numbers are interleaved, as LAPACK has them: what is the same for both parts runs
along all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

import numpy as np

from rlx.codegen.kernels.access import GroupedReader, Reader
from rlx.codegen.kernels.affine import Groups
from rlx.codegen.kernels.extents import matrix_groups, vector_groups
from rlx.codegen.kernels.linalg.arithmetic import conjugate, polar, squared
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.registry import Scope
from rlx.codegen.kernels.values import Complex, Scalar, let, parts_of, real
from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.expr import E, const, index, maximum, select
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.ir.shape import Shape, product
from rlx.ir.types import TensorType

_Group = TypeVar("_Group", covariant=True)

_ALMOST_LARGEST = 1.0 - 2.0**-10
"""Squared sizes of complex components that count as equal to the largest."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Some vectors of one length in scratch."""

    k: KernelBuilder
    buffer: Buffer
    first: E
    width: int
    parts: int = 1
    """2 of complex numbers."""

    @property
    def is_complex(self) -> bool:
        return self.parts == 2

    @property
    def length(self) -> int:
        """How many machine numbers a row takes."""
        return self.width * self.parts

    def at(self, row: E | int, j: E | int) -> E:
        return self.first + (index(row) * self.width + j) * self.parts

    def load(self, row: E | int, j: E | int) -> Scalar:
        at = self.at(row, j)
        first = self.k.load(self.buffer, at)
        return Complex(first, self.k.load(self.buffer, at + 1)) if self.is_complex else first

    def store(self, row: E | int, j: E | int, value: Scalar) -> None:
        at = self.at(row, j)
        if not self.is_complex:
            self.k.store(self.buffer, at, real(value))
            return
        named = let(self.k, "value", value)  # both parts are computed before either is replaced
        for number, part in enumerate(parts_of(named)):
            self.k.store(self.buffer, at + number, part)

    def store_real(self, row: E | int, j: E | int, value: E) -> None:
        self.store(row, j, Complex(value, self.number(0.0)) if self.is_complex else value)

    def number(self, value: float) -> E:
        return const(value, self.buffer.prim)

    # Along all parts alike

    def _part(self, row: E, j: E) -> E:
        return self.first + row * self.length + j

    def square(self, row: E, start: E | int = 0) -> E:
        """Return the squared length of a row from `start` on."""
        total = self.k.mutable("total", self.number(0.0))
        with self._sum(start, total) as j:
            x = self.k.load(self.buffer, self._part(row, j))
            total.set(total + x * x)
        return self.k.let("square", total)

    @contextmanager
    def _sum(self, start: E | int, total: Mutable) -> Iterator[E]:
        accumulators = [(total, BinaryOp.ADD)]
        begin = index(start) * self.parts
        with self.k.loop(
            "j", self.length, start=begin, kind=LoopKind.SIMD, accumulators=accumulators
        ) as j:
            yield j

    def rotate(self, p: E, q: E, cosine: E, sine: E) -> None:
        k = self.k
        with k.loop("j", self.length, kind=LoopKind.SIMD) as j:
            first, second = self._part(p, j), self._part(q, j)
            x, y = k.let("x", k.load(self.buffer, first)), k.let("y", k.load(self.buffer, second))
            k.store(self.buffer, first, cosine * x - sine * y)
            k.store(self.buffer, second, sine * x + cosine * y)

    def scale(self, row: E, factor: E, start: E | int = 0) -> None:
        k = self.k
        begin = index(start) * self.parts
        with k.loop("j", self.length, start=begin, kind=LoopKind.SIMD) as j:
            at = self._part(row, j)
            k.store(self.buffer, at, k.load(self.buffer, at) * factor)

    def exchange(self, p: E, q: E) -> None:
        k = self.k
        with k.loop("j", self.length, kind=LoopKind.SIMD) as j:
            x = k.let("x", k.load(self.buffer, self._part(p, j)))
            k.store(self.buffer, self._part(p, j), k.load(self.buffer, self._part(q, j)))
            k.store(self.buffer, self._part(q, j), x)

    def fill_identity(self, count: int) -> None:
        k = self.k
        with k.loop("i", count) as i:
            with k.loop("j", self.length, kind=LoopKind.SIMD) as j:
                k.store(self.buffer, self._part(i, j), self.number(0.0))
            k.store(self.buffer, self.at(i, i), self.number(1.0))

    # By numbers

    def dot(self, row: E, other: E, start: E | int = 0, *, of: Rows | None = None) -> Scalar:
        """Return the sum of products of a row, conjugated, and a row `of` others."""
        others = of or self
        total = self.k.mutable("total", self.number(0.0))
        if not self.is_complex:
            with self._sum(start, total) as j:
                total.set(total + real(self.load(row, j)) * real(others.load(other, j)))
            return self.k.let("product", total)
        height = self.k.mutable("height", self.number(0.0))
        both = [(total, BinaryOp.ADD), (height, BinaryOp.ADD)]
        with self.k.loop("j", self.width, start=start, kind=LoopKind.SIMD, accumulators=both) as j:
            term = conjugate(self.load(row, j)) * others.load(other, j)
            re, im = parts_of(term)
            total.set(total + re)
            height.set(height + im)
        return let(self.k, "product", Complex(total, height))

    def turn(self, row: E, factor: Scalar, start: E | int = 0) -> None:
        """Scale a row by a number."""
        if isinstance(factor, E):
            self.scale(row, factor, start)
            return
        with self.k.loop("j", self.width, start=start, kind=LoopKind.SIMD) as j:
            self.store(row, j, self.load(row, j) * factor)

    def subtract(
        self, row: E, factor: Scalar, other: E, start: E | int = 0, *, of: Rows | None = None
    ) -> None:
        """Subtract a multiple of a row `of` others."""
        others = of or self
        with self.k.loop("j", self.width, start=start, kind=LoopKind.SIMD) as j:
            self.store(row, j, self.load(row, j) - factor * others.load(other, j))

    def turn_positive(self, row: E) -> Scalar:
        """Make the largest component positive; return what the row was multiplied by."""
        factor = self._to_positive(lambda j: self.load(row, j), self.width)
        self.turn(row, factor)
        return factor

    def sign_of_column(self, column: E, height: int) -> Scalar:
        """Return what makes the largest component of a column positive."""
        return self._to_positive(lambda i: self.load(i, column), height)

    def _to_positive(self, component: Callable[[E], Scalar], count: int) -> Scalar:
        """Return a sign, or the direction of the complex number that makes it positive."""
        if self.is_complex:
            return self._to_positive_complex(component, count)
        k = self.k
        best = k.mutable("best", self.number(0.0))
        with k.loop("j", count) as j:
            x = k.let("x", real(component(j)))
            best.set(select(abs(x) > abs(best), x, best))
        return k.let("sign", select(best < 0.0, self.number(-1.0), self.number(1.0)))

    def _to_positive_complex(self, component: Callable[[E], Scalar], count: int) -> Scalar:
        """Use the first component within rounding of the largest, for a stable choice."""
        k = self.k
        most, chosen = k.mutable("most", self.number(0.0)), k.mutable("chosen", index(0))
        with k.loop("j", count) as j:
            most.set(maximum(squared(component(j)), most))
        with k.loop("step", count) as step:
            j = k.let("j", count - 1 - step)
            is_large = squared(component(j)) >= most * _ALMOST_LARGEST
            chosen.set(select(is_large, j, chosen))
        _, direction = polar(k, component(chosen))
        return conjugate(direction)


@contextmanager
def slices_in_rows(scope: Scope, a: Reader, sizes: list[tuple[int, int]]) -> Iterator[SliceInRows]:
    """Go through the slices; each has as many sets of rows in scratch as there are `sizes`."""
    batch, parts = product(a.shape[:-2]), 2 if a.dtype.is_complex else 1
    source = matrices_of(a)
    each = sum(count * width for count, width in sizes) * parts
    with rows(scope.k, "slice", scope.extents(batch), a.type.elements * 64) as number:
        first, sets = number * each, []
        for count, width in sizes:
            sets.append(Rows(scope.k, scope.scratch_memory, first, width, parts))
            first = first + count * width * parts
        yield SliceInRows(number, source, tuple(sets))


@dataclass(frozen=True, slots=True)
class SliceInRows:
    """One matrix, and the rows that are worked on."""

    number: E
    source: GroupedReader
    sets: tuple[Rows, ...]

    def read(self, target: Rows, count: int, *, mirrored: bool = False) -> tuple[E, E]:
        """Read the columns as rows, scaled; return the scale, and NaN unless all is finite.

        If `mirrored`, rows are read, of the lower triangle and its conjugate.
        """
        k, matrix = target.k, self.source.at(self.number)
        largest = k.mutable("largest", target.number(0.0))
        rest = k.mutable("rest", target.number(0.0))
        with k.loop("i", count) as i, k.loop("j", target.width) as j:
            x = mirrored_entry(k, matrix, i, j) if mirrored else matrix.at(j).read(i)
            named = let(k, "x", x)
            target.store(i, j, named)
            for part in parts_of(named):
                largest.set(select(abs(part) > largest, abs(part), largest))
                rest.set(rest + (part - part))
        scale = k.let("scale", select(largest > 0.0, largest, target.number(1.0)))
        with k.loop("i", count) as i, k.loop("j", target.width, kind=LoopKind.SIMD) as j:
            target.store(i, j, target.load(i, j) / scale)
        return scale, k.let("poison", rest)


def mirrored_entry(k: KernelBuilder, matrix: GroupedReader, i: E, j: E) -> Scalar:
    """Return an entry of the matrix whose lower triangle is given; its diagonal is real."""
    row, column = k.let("row", maximum(i, j)), k.let("column", select(i < j, i, j))
    x = matrix.at(row).read(column)
    if not isinstance(x, Complex):
        return x
    x = Complex(x.re, select(i.eq(j), 0.0, x.im))
    return Complex(x.re, select(i < j, -x.im, x.im))


class _Grouping(Protocol[_Group]):
    """A reader, or a writer."""

    @property
    def shape(self) -> Shape: ...

    def grouped(self, groups: Groups) -> _Group: ...


def matrices_of(x: _Grouping[_Group]) -> _Group:
    """Return matrices by slice, row and column."""
    return x.grouped(matrix_groups(x.shape))


def vectors_of(x: _Grouping[_Group]) -> _Group:
    """Return vectors by slice and element."""
    return x.grouped(vector_groups(x.shape))


def scratch_of_rows(a: TensorType, *sizes: tuple[int, int]) -> int:
    """Return the bytes of the rows of all slices."""
    batch = product(a.shape[:-2])
    each = sum(count * width for count, width in sizes)
    return a.with_shape((batch, each)).bytes


def epsilon(prim: Prim) -> float:
    return float(np.finfo(np.float32 if prim is Prim.F32 else np.float64).eps)
