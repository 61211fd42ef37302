"""Operands of a contraction in tiles: rows, of which scalars are read, and panels of vectors.

Addresses of memory are affine: a stride for each outer axis, each axis of the tile and each step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from rlx.codegen.kernels.access import GroupedReader
from rlx.codegen.kernels.contraction.spans import Axis, Number, Range, Span
from rlx.codegen.kernels.register_tile import RowElement
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, index, maximum, minimum
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim
from rlx.dataclass import dataclass

LINE = 64
"""Bytes of a cache line."""

AHEAD = 8
"""Steps of an operand that is copied, or rows of a panel, that are prefetched before their use."""

Steps: TypeAlias = Sequence[E]
"""An index along each axis that is folded."""

Step: TypeAlias = Callable[[Steps], Callable[[E], RowElement]]
"""Returns how the elements of a tile's rows are read some steps after one, along the last axis."""


class Rows(Protocol):
    """The operand whose elements are scalars of a tile's rows."""

    @property
    def prim(self) -> Prim:
        """The machine type of the elements."""
        ...

    def tile(self, outer: Sequence[E], down: Span, across: Span, column: E) -> Step:
        """Return how the rows of a tile are read, at its indices along the outer axes.

        `column` is the tile's first; most operands are the same for all.
        """
        ...


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows that are read from memory."""

    k: KernelBuilder
    memory: Buffer
    outer: Sequence[Number]
    """Elements from an index along each outer axis to the next."""
    down: Number
    across: Number
    steps: Sequence[Number]
    origin: Number = 0
    prefetched: bool = False
    """True if steps are pages apart, which no hardware prefetches."""
    lanes: int = 0
    """Of vectors along the columns, which are contiguous; 0 if elements are scalars for all."""

    @property
    def prim(self) -> Prim:
        return self.memory.prim

    def tile(self, outer: Sequence[E], down: Span, across: Span, column: E) -> Step:
        k, lanes = self.k, self.lanes or 1
        at = affine(self.origin, outer, self.outer)
        at = at + column if self.lanes else at
        at = k.let("at", affine(at, (down.start, across.start), (self.down, self.across)))

        def step(steps: Steps) -> Callable[[E], RowElement]:
            source = k.let("source", affine(at, steps, self.steps))
            if self.prefetched:
                k.prefetch(self.memory, source + across.size * self.across)

            def element(further: E, i: E) -> E:
                offset = self._position(i, down, across) + further * self.steps[-1]
                return k.load(self.memory, source + offset, lanes)

            return lambda further: functools.partial(element, further)

        return step

    def _position(self, i: E, down: Span, across: Span) -> E:
        """Return the elements from a tile's first row to row `i`."""
        if down.size == 1:
            return i * self.across
        if across.size == 1:
            return i * self.down
        return i / across.size * self.down + i % across.size * self.across


@dataclass(frozen=True, slots=True)
class ComputedRows:
    """Rows of a matrix that are computed where they are read."""

    source: GroupedReader
    prim: Prim
    transposed: bool
    outer: int
    """Of how many outer axes there is an index in the source."""

    def tile(self, outer: Sequence[E], down: Span, across: Span, column: E) -> Step:
        del across, column  # rows are along one axis
        source = self.source.at(*outer[: self.outer])

        def step(steps: Steps) -> Callable[[E], RowElement]:
            (first,) = steps

            def element(further: E, i: E) -> E:
                p, row = first + further, down.read(i)
                return source.read_real(*((p, row) if self.transposed else (row, p)))

            return lambda further: functools.partial(element, further)

        return step


@dataclass(frozen=True, slots=True)
class Copy:
    """How rows are copied before panels are multiplied with them."""

    steps: int
    """Steps that are copied at a time."""
    rows_fastest: bool
    """True if the rows of a step are neighbors, else the steps of a row."""
    in_registers: bool
    """True for few elements, which are copied to registers: blocks then have whole sizes, and the
    steps of the copy start at 0."""


def copied(
    k: KernelBuilder,
    rows: Rows,
    outer: Sequence[E],
    down: Span,
    across: Axis,
    steps: Range,
    copy: Copy,
) -> StoredRows:
    """Copy the rows of a strip of tiles for a range of steps; in the copy, `down` starts at 0."""
    (start, stop), wide = steps, across.extent
    assert isinstance(wide, int)  # `Copy` is chosen for known extents alone
    count = down.size * wide
    read = rows.tile(outer, down, Span.of(index(0), wide), index(0))
    k.comment("A strip: rows of a tile, copied side by side.")
    if copy.in_registers:
        block = 1 if stop.node == (start + 1).node else copy.steps
        memory = k.local("copy", rows.prim, count * block)
        with (
            k.loop("q", block, kind=LoopKind.UNROLL) as q,
            k.loop("i", count, kind=LoopKind.UNROLL) as i,
        ):
            k.store(memory, q * count + i, read((start,))(q)(i))
        return StoredRows(k, memory, (), wide, 1, (count,))
    if copy.rows_fastest:
        memory = k.local("copy", rows.prim, count * copy.steps)
        with k.loop("p", stop, start=start) as p:
            _prefetch_copied(k, rows, outer, down, p, wide)
            element = read((p,))(index(0))
            with k.loop("i", count, kind=LoopKind.SIMD) as i:
                k.store(memory, (p - start) * count + i, element(i))
        return StoredRows(k, memory, (), wide, 1, (count,), start * -count)
    apart = copy.steps + LINE // rows.prim.size
    memory = k.local("copy", rows.prim, count * apart)
    with k.loop("i", count) as i, k.loop("p", stop - start, kind=LoopKind.SIMD) as p:
        k.store(memory, i * apart + p, read((start,))(p)(i))
    return StoredRows(k, memory, (), wide * apart, apart, (1,), start * -1)


def _prefetch_copied(
    k: KernelBuilder, rows: Rows, outer: Sequence[E], down: Span, p: E, wide: int
) -> None:
    """Prefetch the elements that are copied some steps later, where these are pages apart."""
    if not isinstance(rows, StoredRows) or not rows.prefetched:
        return
    at = affine(rows.origin, (*outer, down.start, p + AHEAD), (*rows.outer, rows.down, *rows.steps))
    prefetch_row(k, rows.memory, at, wide * index(rows.across))


@dataclass(frozen=True, slots=True)
class Panels:
    """The operand whose columns are vectors, in panels: packed, or as rows of a matrix."""

    k: KernelBuilder
    memory: Buffer
    width: int
    """Columns of a panel."""
    columns: Number
    count: Number
    """Panels of all columns."""
    outer: Sequence[Number]
    """Elements from an index along each outer axis to the next."""
    panel: Number | None
    """Elements from a panel to the next; None for columns of a matrix that is not packed."""
    steps: Sequence[Number]
    most: int
    """Panels of all columns, at most."""
    ahead: int = 0
    """Rows that are prefetched before their use; 0 for panels that the first-level cache keeps."""
    origin: Number = 0

    @property
    def is_packed(self) -> bool:
        return self.panel is not None

    def start(self, outer: Sequence[E], panel: E) -> E:
        """Return the address of the first row of a panel."""
        at = affine(self.origin, outer, self.outer)
        return at + (self.first(panel) if self.panel is None else panel * self.panel)

    def first(self, panel: E) -> E:
        """Return the first column a panel has in memory; the last may overlap the one before."""
        if self.is_packed or self.are_multiple_of(self.width):
            return panel * self.width
        last = self.columns - self.width
        return minimum(panel * self.width, maximum(last, 0) if isinstance(last, E) else last)

    def are_multiple_of(self, number: int) -> bool:
        """True if the columns are known to be a multiple of `number`."""
        return isinstance(self.columns, int) and self.columns % number == 0

    def prefetch(self, row: E) -> None:
        """Prefetch a later row of a panel, at a fixed distance after the one at address `row`."""
        if self.ahead:
            prefetch_row(self.k, self.memory, row + self.ahead * self.steps[-1], self.width)


def prefetch_row(k: KernelBuilder, memory: Buffer, at: E, count: Number) -> None:
    """Prefetch `count` elements."""
    line = max(1, LINE // memory.prim.size)
    with k.loop("j", count, step=line, kind=LoopKind.UNROLL) as j:
        k.prefetch(memory, at + j)


def affine(origin: Number, indices: Sequence[E], strides: Sequence[Number]) -> E:
    """Return `origin + sum(indices[i] * strides[i])`.

    The origin is added last: GCC then keeps one pointer for loops over few taps.
    """
    offset = index(0)
    for at, stride in zip(reversed(indices), reversed(strides), strict=True):
        offset = at * stride + offset
    return origin + offset
