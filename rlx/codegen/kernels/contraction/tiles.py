"""The loops of a contraction in register tiles, for products and convolutions.

A tile is some rows (of a matrix, or positions of an image) by one panel of columns, kept in
registers while the folded axes run:

    for steps p:  for every row i of the tile:  tile[i][:] += x[row + i, p] * panel[p][:]

Each step loads one row of a panel (a few vectors) and one scalar per row of the tile, so a tile of
12 x 32 floats does 24 vector multiply-adds for 2 vector loads: it runs at the speed of the
multipliers. What is computed from the result (bias, activation, residual) is computed on the tile
before it is stored.

    for items:                         batch, block of rows, group of panels: shared by threads
        for strips of the block:       rows of a tile; they stay in the first-level cache
            [copy the rows]
            for panels of the group:   they stay in the second-level cache
                for tiles across:      positions along the fastest axis of an image
                    tile = 0;  for steps: ...;  store

Rows that would evict each other from the cache are copied first. Then a long folded axis is cut in
blocks, and the sums are kept in memory between them; panels that are unpacked are so for a block
at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from math import gcd
from typing import TypeAlias

from rlx.codegen.kernels.contraction.borders import Border
from rlx.codegen.kernels.contraction.matrix_unit import MatrixTile
from rlx.codegen.kernels.contraction.operands import (
    Copy,
    Panels,
    Rows,
    StoredRows,
    affine,
    copied,
)
from rlx.codegen.kernels.contraction.spans import (
    MOST_SUMMED,
    Axis,
    Number,
    Range,
    Span,
    count_of,
    each_tile,
    is_long_sum,
    items,
    overlapping,
    part_of,
    summed_apart,
)
from rlx.codegen.kernels.contraction.square_tile import SquareTile
from rlx.codegen.kernels.contraction.stores import Place, Store, columns_of
from rlx.codegen.kernels.extents import Extents
from rlx.codegen.kernels.register_tile import Accumulate, RegisterTile
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, index, minimum
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim, TileOp
from rlx.dataclass import dataclass
from rlx.ir.lowering import PANELS, ROWS, Schedule
from rlx.ir.shape import Extent, floor_divide, upper

Taps: TypeAlias = Sequence[tuple[int, int] | None] | None
"""For each step along the last folded axis, which rows of a tile it adds to; None for all."""

Add: TypeAlias = Callable[[E, Buffer, E], None]
"""Adds the products of a strip and of a panel to the sums that wait at a place."""

Strips: TypeAlias = Callable[[Span], Add]
"""Reads the rows of a strip."""

_FEW_VECTORS = 8
"""Vectors of a tile up to which a step costs little more than the loop around it."""

_FEW_TILES = 4
"""Tiles of a block that are worth an item of work."""

_UNROLLED = 4
"""Steps of such a tile that are unrolled."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """One contraction in register tiles."""

    k: KernelBuilder
    extents: Extents
    outer: Sequence[tuple[str, Extent]]
    """Axes of the result that items run along, by name."""
    down: Axis
    across: Axis
    """The axes of a tile's rows; the second is 1 for a matrix."""
    steps: Sequence[tuple[str, Extent]]
    """The folded axes, by name."""
    rows: Rows
    panels: Panels
    store: Store
    prim: Prim
    """What the sums are."""
    add: Accumulate
    schedule: Schedule
    rows_fastest: bool = True
    """True if a copy of rows has those of a step as neighbors, else the steps of a row."""
    borders: Mapping[int, Border] = field(default_factory=dict)
    """Of folded axes by number, the windows that may reach outside of the rows' operand."""
    rows_of: Callable[[Mapping[str, E]], Range] | None = None
    """Which rows an item has, given its place in each loop by name; None for those of a block."""
    steps_of: Callable[[Sequence[E]], Range] | None = None
    """Which steps along the last folded axis there are at indices along the outer axes."""
    stores_again: bool = False
    """True if tiles store all that they compute, also what another has stored."""
    unpack: Callable[[Item, Range, Range], Strips] | None = None
    """Unpacks some panels for a block of steps; None for those that memory holds as they are."""

    @property
    def lanes(self) -> int:
        return self.schedule.lanes

    @property
    def copy(self) -> Copy | None:
        """How the rows of a strip are copied; None if they are read in place."""
        schedule = self.schedule
        if schedule.left == "in_place":
            return None
        steps = schedule.depth or upper(self.steps[0][1])
        in_registers = schedule.left == "registers"
        return Copy(steps, in_registers or self.rows_fastest, in_registers)

    @property
    def sums_apart(self) -> bool:
        """True if the folded axes are long, so that parts of them are summed apart."""
        return is_long_sum(self.prim, tuple(extent for _, extent in self.steps))

    @property
    def blocks(self) -> Number:
        """Blocks of rows; where extents vary no more than have a few tiles.

        Each block unpacks the panels again: there it has as many tiles as it may.
        """
        blocks, tiles = self.schedule.blocks, self.strips
        if blocks == 1 or isinstance(tiles, int):
            return blocks
        most = -(-max(1, upper(tiles)) // blocks)
        few = most if self.unpack else min(_FEW_TILES, most)
        return minimum(self.extents(floor_divide(tiles + (few - 1), few)), blocks)

    @property
    def most_rows(self) -> int:
        """Rows of a block, at most."""
        return -(-max(1, upper(self.strips)) // self.schedule.blocks) * self.down.size

    @property
    def strips(self) -> Extent:
        """Tiles down the axis of rows."""
        return floor_divide(self.down.extent + (self.down.size - 1), self.down.size)

    def compute(self, kind: LoopKind) -> None:
        """Build the loop over all items."""
        schedule, number = self.schedule, self.extents.number
        counts: dict[str, Number] = {name: number(extent) for name, extent in self.outer}
        counts |= {ROWS: self.blocks, PANELS: schedule.groups}
        with items(self.k, [(name, counts[name]) for name in schedule.order], kind) as at:
            outer = [at[name] for name, _ in self.outer]
            panels = part_of(self.k, "panel", at[PANELS], schedule.groups, self.panels.count)
            rows = self._block(at[ROWS]) if self.rows_of is None else self.rows_of(at)
            Item(self, outer).compute(rows, panels)

    def _block(self, block: E) -> Range:
        """Return the rows of a block: as many whole tiles as of any other."""
        k, size = self.k, self.down.size
        height = self.extents.number(self.down.extent)
        blocks, tiles = self.blocks, self.extents.number(self.strips)
        if self.schedule.blocks == 1:
            return index(0), index(height)
        first, end = part_of(k, "tile", block, blocks, tiles)
        first, end = first * size, end * size
        if not isinstance(height, int) or height % size:
            end = minimum(end, height)
        first = k.let("first_row", first)
        return first, first + 1 if size == 1 and blocks == tiles else k.let("end_row", end)


@dataclass(frozen=True, slots=True)
class Item:
    """A block of rows by a group of panels, at an index along each outer axis."""

    all: Tiles
    outer: Sequence[E]

    def compute(self, rows: Range, panels: Range) -> None:
        if self.all.schedule.depth:
            self._in_blocks(rows, panels)
        else:
            self._strips(rows, lambda down: self._at_once(down, panels))

    def _strips(self, rows: Range, body: Callable[[Span], None]) -> None:
        each_tile(self.all.k, self.all.down, self.all.extents, rows, body)

    def _at_once(self, down: Span, panels: Range) -> None:
        """Compute the tiles of a strip, each over all steps."""
        every, k = self.all, self.all.k
        if every.schedule.unit != "vectors":
            self._by_matrix_unit(down, panels)
            return
        steps = [self._steps(number, down) for number in range(len(every.steps))]
        read = self._reads(down, steps[-1])

        def compute(panel: E, across: Span, taps: Taps) -> None:
            tile = self._tile(down, across)
            if every.sums_apart and taps is None:
                total = self._zeros("total", tile.rows * tile.columns)
                with summed_apart(k, steps, every.steps) as part:
                    tile.zero()
                    self._accumulate(read, down, across, panel, part, tile)
                    tile.store(self._add_to(total, index(0)))
                self._store(down, across, panel, total, index(0))
                return
            tile.zero()
            self._accumulate(read, down, across, panel, steps, tile, taps)
            self._finish(down, across, panel, tile)

        def each_panel(across: Span, taps: Taps) -> None:
            with k.loop("panel", panels[1], start=panels[0]) as panel:
                compute(panel, across, taps)

        if every.schedule.inner == "panels":
            self._each_across(each_panel)
            return
        with k.loop("panel", panels[1], start=panels[0]) as panel:
            self._each_across(lambda across, taps: compute(panel, across, taps))

    def _by_matrix_unit(self, down: Span, panels: Range) -> None:
        """Compute the tiles of a strip by a matrix unit; the result has one axis of rows."""
        every, k, prim = self.all, self.all.k, self.all.prim
        whole, across = [(index(0), index(upper(n))) for _, n in every.steps], Span.of(index(0), 1)
        rows = self._reads(down, whole[-1])
        assert isinstance(rows, StoredRows)
        outer = self.outer if rows is every.rows else ()
        first = down.start if rows is every.rows else index(0)
        axes, strides = every.panels, rows.steps
        tile = self._unit_tile(down.size, rows.memory.prim)
        start = k.let("at", affine(rows.origin, (*outer, first), (*rows.outer, rows.down)))
        sums = k.local("sums", prim, down.size * axes.width)
        with tile.configured(), k.loop("panel", panels[1], start=panels[0]) as panel:
            base = k.let("panel_start", axes.start(self.outer, panel))
            tile.zero()
            with ExitStack() as loops:
                at = [
                    loops.enter_context(k.loop(name, upper(extent)))
                    for name, extent in every.steps[:-1]
                ]
                left = k.let("source", affine(start, at, strides[:-1]))
                right = k.let("panel_row", affine(base, at, axes.steps[:-1]))
                tile.add((rows.memory, left), rows.down, (axes.memory, right), axes.steps[-1])
            tile.store(sums)
            self._store(down, across, panel, sums, index(0))

    def _unit_tile(self, rows: int, words: Prim) -> MatrixTile | SquareTile:
        """Return a tile of some rows of a panel, for all steps along the last axis."""
        every = self.all
        k, columns, steps = every.k, every.panels.width, upper(every.steps[-1][1])
        if every.schedule.unit == "squares":
            return SquareTile(k, rows, columns, steps)
        unsigned = words is Prim.U32
        dot = TileOp.DOT_UNSIGNED_SIGNED if unsigned else TileOp.DOT_SIGNED_UNSIGNED
        return MatrixTile(k, rows, columns, steps, dot)

    def _steps(self, number: int, down: Span) -> Range:
        """Return the steps along a folded axis that have elements."""
        every, border = self.all, self.all.borders.get(number)
        if every.steps_of is not None and number == len(every.steps) - 1:
            return every.steps_of(self.outer)
        indices = (*self.outer, down.start)
        if border is not None and border.axis < len(indices):
            return border.taps_at(every.k, indices[border.axis])
        return index(0), every.extents(every.steps[number][1])

    def _each_across(self, body: Callable[[Span, Taps], None]) -> None:
        """Build `body` for the tiles of a row, and for those at its ends apart."""
        every, k, axis = self.all, self.all.k, self.all.across
        border = every.borders.get(len(every.steps) - 1)
        if border is None:
            whole = index(0), every.extents(axis.extent)
            each_tile(k, axis, every.extents, whole, lambda across: body(across, None))
            return
        for part in border.segments(upper(axis.extent), axis.size):
            if part.is_inside:
                with k.loop(axis.name, part.stop, start=part.start, step=part.size) as at:
                    again = every.stores_again
                    body(overlapping(k, at, part.size, part.start, part.stop, again=again), None)
            else:
                rows = (border.rows(part.start, part.size, tap) for tap in range(border.taps))
                body(Span.of(index(part.start), part.size), list(rows))

    def _in_blocks(self, rows: Range, panels: Range) -> None:
        """Compute the tiles of all strips over one block of the folded axis after the other."""
        every, k = self.all, self.all.k
        most, size = _most_panels(every), every.down.size * every.panels.width
        room = every.most_rows // every.down.size * most * size
        count = count_of(rows)
        kept: Number = room
        if count is None:  # maybe far fewer rows than there may be
            tiles = (rows[1] - rows[0] + (every.down.size - 1)) / every.down.size
            kept = k.let("kept", tiles * (most * size))
        k.comment("Sums of this item's tiles, kept between blocks of the folded axis.")
        waiting = self._zeros("waiting", room, kept)

        def place(down: Span, panel: E) -> E:
            number = (down.start - rows[0]) / every.down.size
            if most > 1:
                number = number * most + (panel - panels[0])
            return k.let("place", number * size)

        def add_block(start: E, stop: E) -> None:
            steps = start, stop
            strips = every.unpack(self, panels, steps) if every.unpack else self.strips(steps)

            def add(down: Span) -> None:
                add_to = strips(down)
                with k.loop("panel", panels[1], start=panels[0]) as panel:
                    add_to(panel, waiting, place(down, panel))

            self._strips(rows, add)

        steps, sums = (index(0), every.extents(every.steps[-1][1])), waiting
        if every.sums_apart and not self._are_blocks_apart:
            sums = self._zeros("total", room, kept)
            with summed_apart(k, [steps], every.steps) as (part,):
                self._each_block(part, add_block)
                with k.loop("i", kept, step=every.lanes) as i:
                    self._add_to(sums, i)(index(0), index(0), k.load(waiting, i, every.lanes))
                    k.store(waiting, i, const(0, every.prim, every.lanes))
        else:
            self._each_block(steps, add_block)

        def finish(down: Span) -> None:
            with k.loop("panel", panels[1], start=panels[0]) as panel:
                self._store(down, Span.of(index(0), 1), panel, sums, place(down, panel))

        self._strips(rows, finish)

    @property
    def _are_blocks_apart(self) -> bool:
        """True if the sums of a block of steps are added to those before, not continued."""
        return self.all.prim.is_float and self.all.schedule.left != "registers"

    def _zeros(self, name: str, count: int, used: Number | None = None) -> Buffer:
        """Return sums in memory, of which all or those that are used are 0."""
        k, prim, lanes = self.all.k, self.all.prim, self.all.lanes
        sums = k.local(name, prim, count)
        with k.loop("i", count if used is None else used, step=lanes) as i:
            k.store(sums, i, const(0, prim, lanes))
        return sums

    def strips(self, steps: Range) -> Strips:
        """Return the function that accumulates the products of a block of steps."""

        def strip(down: Span) -> Add:
            read, across = self._reads(down, steps), Span.of(index(0), 1)

            def add(panel: E, waiting: Buffer, at: E) -> None:
                tile = self._tile(down, across)
                if self._are_blocks_apart:
                    tile.zero()
                else:
                    tile.load(self._load(waiting, at))
                self._accumulate(read, down, across, panel, [steps], tile)
                put = self._add_to if self._are_blocks_apart else self._put
                tile.store(put(waiting, at))

            return add

        return strip

    def _each_block(self, steps: Range, body: Callable[[E, E], None]) -> None:
        """Go over blocks of steps; those that are copied to registers are of one size, or 1."""
        every, k, depth = self.all, self.all.k, self.all.schedule.depth
        (start, stop), count = steps, count_of(steps)
        is_even = count is not None and count % depth == 0
        if every.schedule.left != "registers":
            with k.loop("start", stop, start=start, step=depth) as first:
                end = first + depth
                body(first, end if is_even else k.let("stop", minimum(end, stop)))
            return
        whole = stop if is_even else k.let("whole", start + (stop - start) / depth * depth)
        with k.loop("p", whole, start=start, step=depth) as p:
            body(p, p + depth)
        if not is_even:
            with k.loop("p", stop, start=whole) as p:
                body(p, p + 1)

    # One tile

    def _reads(self, down: Span, steps: Range) -> Rows:
        """Return the rows of a strip: a copy of them, if that is chosen."""
        every, copy = self.all, self.all.copy
        if copy is None:
            return every.rows
        return copied(every.k, every.rows, self.outer, down, every.across, steps, copy)

    def _accumulate(
        self,
        rows: Rows,
        down: Span,
        across: Span,
        panel: E,
        steps: Sequence[Range],
        tile: RegisterTile,
        taps: Taps = None,
    ) -> None:
        """Add the products of ranges of steps to a tile; with `taps` to some of its rows each."""
        every, k, panels = self.all, self.all.k, self.all.panels
        at_once = self._unrolled(tile, steps[-1])
        if rows is every.rows:
            read = rows.tile(self.outer, down, across, panels.first(panel))
        else:
            read = rows.tile((), replace(down, start=index(0)), across, index(0))
        base = k.let("panel_start", panels.start(self.outer, panel))
        with ExitStack() as loops:
            *outer, (name, _) = every.steps
            found = [
                loops.enter_context(k.loop(each, stop, start=start))
                for (each, _), (start, stop) in zip(outer, steps[:-1], strict=True)
            ]

            start, stop = steps[-1]
            if taps is None:
                start = loops.enter_context(k.loop(name, stop, start=start, step=at_once))
            row = k.let("panel_row", affine(base, [*found, start], panels.steps))
            in_registers = every.schedule.left == "registers"
            left = read([index(0)] if in_registers else [*found, start])

            def add(further: E, some: tuple[int, int] | None = None) -> None:
                at = further * panels.steps[-1]
                panels.prefetch(row + at)
                vector = lambda j: k.load(panels.memory, row + (at + j), every.lanes)  # noqa: E731
                tile.accumulate(left(further), vector, rows=some)

            for number, some in enumerate(taps or ()):
                if some is not None:
                    add(index(number), some)
            if taps is None:
                with k.loop("q", at_once, kind=LoopKind.UNROLL) as further:
                    add(further)

    def _unrolled(self, tile: RegisterTile, steps: Range) -> int:
        """Return how many steps are unrolled: a number that divides them."""
        start, stop = steps
        depth, unroll = self.all.schedule.depth, self.all.schedule.unroll
        if self.all.schedule.left == "registers" and stop.node == (start + depth).node:
            return depth
        unrolled = unroll or (_UNROLLED if self._has_few_vectors(tile) else 1)
        count, extent = count_of(steps), self.all.steps[-1][1]
        if count is None and self.all.sums_apart and self.all.steps_of is None:
            # All parts of a long axis but the last are equally long.
            count = gcd(extent, depth or MOST_SUMMED) if isinstance(extent, int) else None
        return unrolled if count is not None and count % unrolled == 0 else 1

    def _has_few_vectors(self, tile: RegisterTile) -> bool:
        return tile.rows * tile.columns <= _FEW_VECTORS * tile.lanes

    def _finish(self, down: Span, across: Span, panel: E, tile: RegisterTile) -> None:
        """Store a tile: out of registers, or from a copy, so that the code is a small loop."""
        every, k = self.all, self.all.k
        whole = isinstance(down.stop, int) and every.panels.are_multiple_of(tile.columns)
        if whole and self._has_few_vectors(tile) and every.across.extent == 1:
            place = self._place(down, across, panel)
            if every.store.store_registers(place, tile):
                return
        done = k.local("done", every.prim, tile.rows * tile.columns)
        tile.store(self._put(done, index(0)))
        self._store(down, across, panel, done, index(0))

    def _store(self, down: Span, across: Span, panel: E, sums: Buffer, at: E) -> None:
        panels, place = self.all.panels, self._place(down, across, panel)
        if not panels.is_packed and not panels.are_multiple_of(panels.width):
            at = at + (place.columns[0] - panels.first(panel))
        self.all.store.store(place, sums, at, panels.width, self.all.lanes)

    def _place(self, down: Span, across: Span, panel: E) -> Place:
        panels = self.all.panels
        if self.all.stores_again:
            columns = self.all.k.let("first_column", panels.first(panel)), index(panels.width)
        else:
            columns = columns_of(self.all.k, panel, panels.width, panels.columns)
        return Place(self.outer, down, across, columns)

    def _tile(self, down: Span, across: Span) -> RegisterTile:
        every, rows = self.all, down.size * across.size
        width = every.panels.width
        return RegisterTile.of(every.k, "tile", rows, width, every.lanes, every.prim, add=every.add)

    def _load(self, sums: Buffer, at: E) -> Callable[[E, E], E]:
        k, lanes, width = self.all.k, self.all.lanes, self.all.panels.width
        return lambda i, j: k.load(sums, at + i * width + j, lanes)

    def _add_to(self, sums: Buffer, at: E) -> Callable[[E, E, E], None]:
        before, put = self._load(sums, at), self._put(sums, at)
        return lambda i, j, value: put(i, j, before(i, j) + value)

    def _put(self, sums: Buffer, at: E) -> Callable[[E, E, E], None]:
        k, width = self.all.k, self.all.panels.width
        return lambda i, j, value: k.store(sums, at + i * width + j, value)


def _most_panels(tiles: Tiles) -> int:
    """Return the panels of a group, at most."""
    return -(-tiles.panels.most // tiles.schedule.groups)
