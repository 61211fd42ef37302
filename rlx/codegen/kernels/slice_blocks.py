"""Blocks of small matrices of a batch, copied to tiles with one matrix per lane.

Many small slices are worked on in blocks, one slice to a vector lane: element (i, j) of all of
them is one vector, and steps that differ between slices are selects. A few slices, or large
ones, are worked on one at a time, and vectors run along their rows. Kernels are written once:

    with blocks(scope, batch) as block:
        tile = block.tile
        block.read(a, 0)
        with k.loop("j", tile.width, kind=tile.inner) as j:
            tile.store(0, j, tile.load(0, j) * 2.0)

Memory for a block is on the stack where it is small, else in the arena.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.affine import Groups
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.registry import Scope
from rlx.codegen.kernels.slice_tiles import SliceBatch, Tile
from rlx.codegen.kernels.transposes import starts, turned
from rlx.codegen.kernels.values import Scalar, real
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, Operand, index, minimum
from rlx.codegen.loops.nodes import BinaryOp, Status
from rlx.codegen.loops.passes.pipeline import SPELLED_OUT
from rlx.dataclass import dataclass
from rlx.ir.shape import Extent, Shape, upper

_MOST_TURNED = 36
"""Elements of a matrix with short rows that are turned in registers, in straight-line code."""


Load: TypeAlias = Callable[[Operand, Operand], Scalar]
"""Reads element (i, j) of one slice, or of all of them side by side."""
Element: TypeAlias = Callable[[E, E, Load], Scalar]
Settled: TypeAlias = Callable[[Scalar], Scalar]
"""Makes what is written of an element of a tile."""


def unchanged(value: Scalar) -> Scalar:
    return value


@dataclass(frozen=True, slots=True)
class Line:
    """Consecutive elements of a slice: indices of the first, and all their rows and columns."""

    first: tuple[E, E]
    places: list[tuple[E, E]]


@dataclass(frozen=True, slots=True)
class Block:
    """The slices `first`, `first + 1`, ... that a kernel works on together."""

    tile: Tile
    first: E
    last: E
    """The last slice of the batch: lanes beyond it repeat it."""
    count: E
    """How many of the lanes are slices of their own."""

    @property
    def k(self) -> KernelBuilder:
        return self.tile.k

    def read(
        self, x: Reader, column: int = 0, *, vector: bool = False, transposed: bool = False
    ) -> None:
        """Copy matrices, or vectors as one column, to the columns from `column` on."""
        if self._turns(x, vector=vector):
            self._read_lines(x, column, vector=vector, transposed=transposed)
            return
        groups = _groups(x.shape, vector=vector)
        source = x.grouped(groups)
        with self._lanes(self.tile.lanes) as lane:
            item = source.at(minimum(self.first + lane, self.last))
            with self._elements(item) as at:
                i, j = reversed(at) if transposed else at
                value = item.read(*at[: len(groups) - 1])
                self.tile.store_lane(i, j + column, lane, value)

    def write(self, y: Writer, element: Element, *, vector: bool = False) -> None:
        """Write `element(i, j, load)` to matrices, or (i, 0) to vectors.

        `load(i, j)` reads the tile: one slice of it, or all.
        """
        if self._turns(y, vector=vector):
            self._write_lines(y, element, vector=vector)
            return

        def of_lane(i: E, j: E, lane: E) -> Scalar:
            return element(i, j, lambda row, column: self.tile.load_lane(row, column, lane))

        self.write_lanes(y, of_lane, vector=vector)

    def write_lanes(
        self, y: Writer, element: Callable[[E, E, E], Scalar], *, vector: bool = False
    ) -> None:
        """Write `element(i, j, lane)` to matrices, or (i, 0) to vectors."""
        groups = _groups(y.shape, vector=vector)
        target = y.grouped(groups)
        with self._lanes(self.count) as lane:
            item = target.at(self.first + lane)
            with self._elements(item) as at:
                item.write(*at[: len(groups) - 1], value=element(*at, lane))

    def write_columns(
        self,
        y: Writer,
        column: int,
        *,
        vector: bool = False,
        transposed: bool = False,
        settled: Settled = unchanged,
    ) -> None:
        """Write the columns of the tile from `column` on."""

        def element(i: E, j: E, load: Load) -> Scalar:
            row, place = (j, i) if transposed else (i, j)
            return settled(load(row, place + column))

        self.write(y, element, vector=vector)

    # Whole vectors of each slice, turned in registers

    def _turns(self, x: Reader | Writer, *, vector: bool) -> bool:
        """True if slices are long enough, and short ones few enough for straight-line code."""
        lanes = self.tile.lanes
        height, width = _extents(x.shape, vector=vector)
        if lanes == 1 or x.memory is None or not isinstance(height * width, int):
            return False
        if x.type.dtype.is_complex:
            return False
        return upper(width) >= lanes or lanes <= upper(height * width) <= _MOST_TURNED

    def _lines(self, x: Reader | Writer, *, vector: bool) -> Iterator[Line]:
        """Go over all elements of a slice, as many at a time as there are lanes.

        Long rows are taken one by one, short ones as one sequence.
        """
        height, width = map(upper, _extents(x.shape, vector=vector))
        lanes = self.tile.lanes
        if width < lanes:
            for start in starts(height * width, lanes):
                taken = [divmod(e, width) for e in range(start, start + lanes)]
                yield Line((index(0), index(start)), [(index(r), index(c)) for r, c in taken])
            return
        with self.k.loop("i", height) as i:
            for start in starts(width, lanes):
                columns = [index(start + lane) for lane in range(lanes)]
                places = [(j, index(0)) if vector else (i, j) for j in columns]
                yield Line((i, columns[0]), places)

    def _read_lines(self, x: Reader, column: int, *, vector: bool, transposed: bool) -> None:
        k, lanes = self.k, self.tile.lanes
        source = x.grouped(_line_groups(x.shape, lanes, vector=vector))
        for line in self._lines(x, vector=vector):
            vectors = []
            for lane in range(lanes):
                item = source.at(minimum(self.first + lane, self.last))
                vectors.append(k.let("line", item.read_vector(*line.first, lanes=lanes)))
            for (i, j), value in zip(line.places, turned(k, vectors), strict=True):
                row, place = (j, i) if transposed else (i, j)
                self.tile.store(row, place + column, value)

    def _write_lines(self, y: Writer, element: Element, *, vector: bool) -> None:
        k, lanes = self.k, self.tile.lanes
        target = y.grouped(_line_groups(y.shape, lanes, vector=vector))
        for line in self._lines(y, vector=vector):
            values = [k.let("value", real(element(i, j, self.tile.load))) for i, j in line.places]
            for lane, vector_of_slice in enumerate(turned(k, values)):
                with k.if_(self.count > lane):
                    item = target.at(self.first + lane)
                    item.write_vector(*line.first, value=vector_of_slice)

    def fail_where_zero(self, measure: E) -> None:
        """Leave the kernel if `measure` of any slice is 0 or less, naming the first."""
        k, lanes = self.k, self.tile.lanes
        if lanes == 1:
            with k.if_(measure <= 0.0):
                k.fail(Status.SINGULAR_MATRIX, self.first)
            return
        with k.if_(measure.fold(BinaryOp.MIN) <= 0.0):
            found = k.local("measure", self.tile.prim, lanes)
            k.store(found, 0, measure)
            with k.loop("lane", self.count) as lane, k.if_(k.load(found, lane) <= 0.0):
                k.fail(Status.SINGULAR_MATRIX, self.first + lane)

    @contextmanager
    def _lanes(self, count: Operand) -> Iterator[E]:
        if self.tile.lanes == 1:
            yield index(0)
            return
        with self.k.loop("lane", count) as lane:
            yield lane

    @contextmanager
    def _elements(self, item: GroupedReader | GroupedWriter) -> Iterator[tuple[E, E]]:
        """Loop over the rows and columns of one slice; a vector has column 0 only."""
        if len(item.grid.groups) == 2:
            with self.k.loop("i", item.extent(0), kind=self.tile.inner) as i:
                yield i, index(0)
            return
        with (
            self.k.loop("i", item.extent(0), kind=self.tile.outer) as i,
            self.k.loop("j", item.extent(1), kind=self.tile.inner) as j,
        ):
            yield i, j


@contextmanager
def blocks(scope: Scope, batch: SliceBatch, *, spelled_out: bool = False) -> Iterator[Block]:
    """Open the loop over all slices of `batch`, block by block.

    Where one slice is worked on at a time, it is in registers if all is `spelled_out`.
    """
    k, lanes = scope.k, batch.at_a_time(scope.lanes(batch.prim))
    slices = scope.extents(batch.slices)
    work = batch.slices * (batch.height * batch.height * batch.width)
    if batch.parts:
        with _parts(scope, batch, slices, work) as block:
            yield block
        return
    with rows(k, "block", (slices + (lanes - 1)) / lanes, work) as number:
        buffer = k.local("tile", batch.prim, batch.elements * lanes)
        spelled_out = spelled_out and lanes == 1
        scope.passes.extend(SPELLED_OUT if spelled_out else ())
        tile = Tile(
            k, buffer, index(0), batch.height, batch.width, lanes, batch.parts_of_number,
            spelled_out,
        )  # fmt: skip
        first = number if lanes == 1 else k.let("first", number * lanes)
        count = index(1) if lanes == 1 else k.let("count", minimum(slices - first, lanes))
        yield Block(tile, first, slices - 1, count)


@contextmanager
def _parts(scope: Scope, batch: SliceBatch, slices: E, work: Extent) -> Iterator[Block]:
    """Open loops over parts, each with its memory, and over the slices of a part.

    All slices come in ascending order, so that the first fault is the one at the lowest position.
    """
    k = scope.k
    with rows(k, "part", index(batch.parts), work) as part:
        base = part * batch.elements
        tile = Tile(
            k, scope.scratch_memory, base, batch.height, batch.width, 1, batch.parts_of_number
        )
        start = k.let("start", slices * part / batch.parts)
        stop = k.let("stop", slices * (part + 1) / batch.parts)
        with k.loop("slice", stop, start=start) as first:
            yield Block(tile, first, slices - 1, index(1))


def _groups(shape: Shape, *, vector: bool) -> Groups:
    """Gather all axes before the matrix or vector into one."""
    axes = tuple(range(len(shape)))
    rank = len(shape) - (1 if vector else 2)
    return (axes[:rank], *((axis,) for axis in axes[rank:]))


def _line_groups(shape: Shape, lanes: int, *, vector: bool) -> Groups:
    """Gather the axes into slices, rows and columns, or take short rows as one sequence."""
    axes = tuple(range(len(shape)))
    rank = len(shape) - (1 if vector else 2)
    _, width = _extents(shape, vector=vector)
    split = -1 if upper(width) >= lanes else rank
    return axes[:rank], axes[rank:split], axes[split:]


def _extents(shape: Shape, *, vector: bool) -> tuple[Extent, Extent]:
    """Return the rows and columns of a slice; a vector is one row."""
    return (1, shape[-1]) if vector else (shape[-2], shape[-1])
