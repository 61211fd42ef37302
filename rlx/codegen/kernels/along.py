"""Kernels that take statistics along an axis, and compute each element from them.

    with along(scope, x, y, axis) as line:
        largest = line.fold("largest", peak_fold(x.dtype))
        line.write(lambda element, at, j: element() - largest(j))

One description serves both layouts. Where the axis runs fastest a slice is a row, statistics are
variables, and vectors run along the row. Otherwise a block of neighboring slices is computed
together: statistics are local arrays with an element per column `j`, and vectors run across.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.accumulators import fill, local_state
from rlx.codegen.kernels.folds import Fold, sum_fold
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.reduction import (
    ROW_CHUNK,
    chunks,
    fold_columns,
    fold_row,
    streams_for,
)
from rlx.codegen.kernels.registry import Scope
from rlx.codegen.kernels.slices import Columns, column_blocks, slices
from rlx.codegen.kernels.values import Scalar, real
from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.expr import E, const, index
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind
from rlx.dataclass import dataclass
from rlx.ir.shape import Extent, upper

LOCAL_ROW = 8192
"""Elements of a row that a kernel keeps on the stack: 32 KiB of f32."""

Prepare: TypeAlias = Callable[[E, E], E]
"""Takes an element and its column; returns what is folded."""

Keep: TypeAlias = Callable[[E, E, E], None]
"""Takes an index along the axis, a column, and what was prepared there."""

Element: TypeAlias = Callable[[Callable[[], E], E, E], E]
"""Takes how the element is read, its index along the axis, and its column; returns the result's."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """A number per slice: a variable of a row, or an element per column of a local array."""

    k: KernelBuilder
    of: E | Buffer

    def __call__(self, j: E) -> E:
        """Return that of column `j`, which a row leaves out of account."""
        return self.k.load(self.of, j) if isinstance(self.of, Buffer) else self.of


def _unchanged(value: E, _: E) -> E:
    return value


class Slice(ABC):
    """A row, or a block of columns."""

    __slots__ = ()

    @abstractmethod
    def fold(self, name: str, fold: Fold, prepare: Prepare = _unchanged) -> Statistic:
        """Fold all prepared elements of each slice, by a fold of one accumulator."""

    @abstractmethod
    def sum(self, prepare: Prepare, keep: Keep | None = None) -> Statistic:
        """Sum the prepared elements of each slice, in order but for chunks of long ones."""

    @abstractmethod
    def sum_kept(self, name: str, prepare: Prepare) -> tuple[Statistic, Element]:
        """Sum the prepared elements of each slice; also return how they are read again.

        They are kept in the result where nothing follows there, else in a local array if they are
        few; of others each is computed again.
        """

    @abstractmethod
    def change(self, name: str, statistic: Statistic, change: Callable[[E], E]) -> Statistic:
        """Return a function of a statistic, which replaces it."""

    @abstractmethod
    def write(self, result: Element) -> None:
        """Compute and store all elements of the result."""


@contextmanager
def along(scope: Scope, x: Reader, y: Writer, axis: int) -> Iterator[Slice]:
    """Loop over the slices of `x` along `axis`, to compute those of `y`."""
    split, elements = slices(x.shape, axis), x.type.elements
    if split.are_rows:
        source, target = x.grouped(split.groups[:2]), y.grouped(split.groups[:2])
        with rows(scope.k, "row", source.extent(0), elements) as row:
            ahead = source.at(row + 1) if _is_streamed(scope, x) else None
            yield Row(scope, x, source.at(row), (y, target.at(row)), ahead)
        return
    lines, results = x.grouped(split.groups), y.grouped(split.groups)
    with column_blocks(scope, split.outer, split.inner, elements, kept=split.length) as columns:
        outer = columns.outer
        yield Block(scope, x, y, lines.at(outer), results.at(outer), columns)


def _is_streamed(scope: Scope, x: Reader) -> bool:
    """True if `x` is read from memory beyond the cache of a core."""
    elements = x.type.elements
    is_stored = x.memory is not None
    return is_stored and isinstance(elements, int) and elements * x.prim.size > scope.target.l2


def _is_kept(y: Writer) -> bool:
    """True if the result itself keeps what is written to it, unrounded."""
    return y.memory is not None and not y.dtype.is_low_precision


@dataclass(frozen=True, slots=True)
class Row(Slice):
    """One slice, contiguous in memory."""

    scope: Scope
    x: Reader
    source: GroupedReader
    result: tuple[Writer, GroupedWriter] | None = None
    ahead: GroupedReader | None = None
    """The next row, where it is worth a prefetch while this one is computed."""

    @property
    def length(self) -> Extent:
        return self.source.extent_of(0)

    def fold(self, name: str, fold: Fold, prepare: Prepare = _unchanged) -> Statistic:
        k = self.scope.k
        streams, here = streams_for(self.x, self.length, fold), index(0)
        (total,) = fold_row(
            self.scope, self.source, fold, streams=streams,
            prepare=lambda value: prepare(real(value), here),
        )  # fmt: skip
        return Statistic(k, k.let(name, total))

    def sum_kept(self, name: str, prepare: Prepare) -> tuple[Statistic, Element]:
        k, here = self.scope.k, index(0)
        if self.result is not None and _is_kept(self.result[0]):
            line = self.result[1]
            total = self.sum(prepare, lambda i, _, value: line.write(i, value=value))
            return total, lambda _, i, __: line.written(i)
        if upper(self.length) > LOCAL_ROW:
            return self.sum(prepare), lambda element, _, __: prepare(element(), here)
        kept = k.local(name, self.x.prim, upper(self.length))
        total = self.sum(prepare, lambda i, _, value: k.store(kept, i, value))
        return total, lambda _, i, __: k.load(kept, i)

    def sum(self, prepare: Prepare, keep: Keep | None = None) -> Statistic:
        k, length = self.scope.k, self.length
        if upper(length) <= ROW_CHUNK:
            bounds = index(0), self.source.extent(0)
            return Statistic(k, self._part(bounds, prepare, keep))
        total = k.mutable("total", const(0.0, self.x.prim))
        with chunks(self.scope, length, ROW_CHUNK) as bounds:
            total.set(total + self._part(bounds, prepare, keep))
        return Statistic(k, total)

    def _part(self, bounds: tuple[E, E], prepare: Prepare, keep: Keep | None) -> Mutable:
        k, (start, stop) = self.scope.k, bounds
        total = k.mutable("sum", const(0.0, self.x.prim))
        folded = [(total, BinaryOp.ADD)]
        with k.loop("i", stop, start=start, kind=LoopKind.SIMD, accumulators=folded) as i:
            if self.ahead is not None:
                self.ahead.prefetch(i, count=1)
            value = prepare(self.source.read_real(i), index(0))
            if keep is not None:
                value = k.let("weight", value)
                keep(i, index(0), value)
            total.set(total + value)
        return total

    def change(self, name: str, statistic: Statistic, change: Callable[[E], E]) -> Statistic:
        k = self.scope.k
        return Statistic(k, k.let(name, change(statistic(index(0)))))

    def write(self, result: Element) -> None:
        assert self.result is not None
        _, line = self.result
        with self.scope.k.loop("i", line.extent(0), kind=LoopKind.SIMD) as i:
            line.write(i, value=result(lambda: self.source.read_real(i), i, index(0)))


@dataclass(frozen=True, slots=True)
class Block(Slice):
    """Neighboring slices, an element of each of which is contiguous with that of the next."""

    scope: Scope
    x: Reader
    y: Writer
    source: GroupedReader
    target: GroupedWriter
    columns: Columns

    def fold(self, name: str, fold: Fold, prepare: Prepare = _unchanged) -> Statistic:
        named = replace(fold, names=(name,))
        return self._folded(named, lambda _, j, value: prepare(real(value), j))

    def sum(self, prepare: Prepare, keep: Keep | None = None) -> Statistic:
        k = self.scope.k

        def prepared(r: E, j: E, value: Scalar) -> E:
            weight = k.let("weight", prepare(real(value), j))
            if keep is not None:
                keep(r, j, weight)
            return weight

        return self._folded(sum_fold(self.x.dtype), prepared, in_order=True)

    def _folded(
        self, fold: Fold, prepare: Callable[[E, E, Scalar], Scalar], *, in_order: bool = False
    ) -> Statistic:
        k, columns = self.scope.k, self.columns
        total = local_state(k, fold, columns.most)
        fill(k, fold, total, columns.width)
        fold_columns(
            self.scope, self.source, fold, total, columns, prepare=prepare, in_order=in_order
        )
        return Statistic(k, total[0])

    def sum_kept(self, name: str, prepare: Prepare) -> tuple[Statistic, Element]:
        del name  # nothing is kept in arrays
        if not _is_kept(self.y):
            return self.sum(prepare), lambda element, _, j: prepare(element(), j)
        target, start = self.target, self.columns.start
        total = self.sum(prepare, lambda r, j, value: target.at(r).write(start + j, value=value))
        return total, lambda _, r, j: target.at(r).written(start + j)

    def change(self, name: str, statistic: Statistic, change: Callable[[E], E]) -> Statistic:
        del name  # the array has one
        k, buffer = self.scope.k, statistic.of
        assert isinstance(buffer, Buffer)
        with k.loop("j", self.columns.width, kind=LoopKind.SIMD) as j:
            k.store(buffer, j, change(k.load(buffer, j)))
        return statistic

    def write(self, result: Element) -> None:
        k, columns = self.scope.k, self.columns
        with k.loop("r", self.source.extent(0)) as r:
            source, target = self.source.at(r), self.target.at(r)
            with k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
                at = columns.start + j

                def read(at: E = at) -> E:
                    return source.read_real(at)

                target.write(at, value=result(read, r, j))
