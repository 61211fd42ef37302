"""Matrix products in register tiles, against panels of columns: packed, or as they lie.

A tile is `rows` rows by one panel of columns, kept in registers while K runs:

    for p in K:  for every row i of the tile:  tile[i][:] += a[row + i][p] * panel[p][:]

Each step loads one panel row (a few vectors) and one scalar of `a` per tile row, so a tile of
12 x 32 floats does 24 vector multiply-adds for 2 vector loads: it runs at the speed of the
multipliers. What follows the product (bias, activation, residual) is computed on the tile
before it is stored.

The rows of a tile meet a group of panels one after the other: they stay in the first-level
cache, the group in the second, and whole stretches of the result's rows are written at a time.
Rows that would drive each other out of the cache, and columns of a transposed `a`, are copied
side by side first. Then a long K runs in blocks, and the sums wait in memory between them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.parallel import product_loop
from rlx.codegen.kernels.products.split import Split, matrix_groups, row_groups, split_product
from rlx.codegen.kernels.register_tile import (
    Accumulate,
    RegisterTile,
    multiply_add,
    multiply_add_bf16,
    multiply_add_bytes,
    multiply_add_unsigned_bytes,
)
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, index, maximum, minimum
from rlx.codegen.loops.nodes import Buffer, Const, LoopKind, Prim
from rlx.codegen.loops.scalar import is_library_function
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.layout import panels_of
from rlx.ir.lowering import Tile
from rlx.ir.shape import Extent, product, upper

_AHEAD = 8
"""Panel rows that are asked for before they are needed."""

_AHEAD_IN_PLACE = 32
"""The same for rows of `b` where they lie, far apart: no hardware foresees them."""

_SMALL_PANEL = 16 * 1024
"""Bytes of a panel that the first-level cache holds: nothing needs to be asked for."""

_LINE = 64

_FEW_VECTORS = 8
"""Vectors of a tile up to which a step costs little more than the loop around it, and what follows
the product is spelled out."""

_STEPS = 4
"""Steps of such a tile that are spelled out."""

_LIGHT = 8
"""Nodes of a body that are worth spelling out for every vector."""


@kernel("matmul", lowering=Tile)
def matmul_in_tiles(scope: Scope, a: Reader, b: Reader, out: Writer, *, lowering: Tile) -> None:
    _product(scope, a, _Panels.of(scope, b, lowering.columns), out, lowering, transposed=False)


@kernel("matmul_bytes", lowering=Tile)
def matmul_bytes_in_tiles(
    scope: Scope, a: Reader, b: Reader, out: Writer, *, lowering: Tile
) -> None:
    """Elements are words of four bytes; all else is as for floats."""
    panels = _Panels.of(scope, b, lowering.columns)
    add = multiply_add_unsigned_bytes if b.prim is Prim.U32 else multiply_add_bytes
    _product(scope, a, panels, out, lowering, transposed=False, add=add, sums=Prim.I32)


@kernel("matmul_bf16", lowering=Tile)
def matmul_bf16_in_tiles(
    scope: Scope, a: Reader, b: Reader, out: Writer, *, lowering: Tile
) -> None:
    """Elements are words of two bf16, and sums are f32; all else is as for floats."""
    panels = _Panels.of(scope, b, lowering.columns)
    _product(
        scope, a, panels, out, lowering, transposed=False, add=multiply_add_bf16, sums=Prim.F32
    )


@kernel("matmul_transposed", lowering=Tile)
def matmul_transposed_in_tiles(
    scope: Scope, a: Reader, b: Reader, out: Writer, *, lowering: Tile, left: bool, right: bool
) -> None:
    if right:
        raise InternalError("matmul_transposed: tiles read b as it is")
    _product(scope, a, _Panels.of(scope, b, lowering.columns), out, lowering, transposed=left)


def _product(
    scope: Scope,
    a: Reader,
    panels: _Panels,
    out: Writer,
    tile: Tile,
    *,
    transposed: bool,
    add: Accumulate = multiply_add,
    sums: Prim | None = None,
) -> None:
    """Cut the product into items, and compute each."""
    k, batched = scope.k, panels.batched
    groups = matrix_groups if batched else row_groups
    left, target = a.grouped(groups(a.shape)), out.grouped(groups(out.shape))
    height = out.shape[-2] if batched else product(out.shape[:-1])
    inner = a.shape[-2 if transposed else -1]
    split = split_product(
        upper(product(out.shape[:-2])) if batched else 1,
        upper(height),
        upper(inner),
        panels.most,
        tile.rows,
        tile.columns,
        panels.memory.prim.size,
        transposed,
    )
    kind = product_loop(product((*out.shape, inner)))
    with k.loop("item", target.extent(0) * (split.blocks * split.groups), kind=kind) as item:
        batch, block, group = _coordinates(k, item, split, batched=batched)
        work = _Item(
            k,
            left.at(batch if batched and len(a.shape) > 2 else index(0)),
            panels,
            batch,
            target.at(batch),
            tile,
            split,
            transposed,
            height,
            a.prim,
            sums or panels.memory.prim,
            add,
        )
        work.compute(work.rows_of(block), work.panels_of(group))


def _coordinates(k: KernelBuilder, item: E, split: Split, *, batched: bool) -> tuple[E, E, E]:
    """Return the batch, block of rows and group of panels of an item."""
    if not batched and split.blocks == 1:
        return index(0), index(0), item
    number = item / split.groups
    batch = number / split.blocks if batched else index(0)
    block = k.let("block", number % split.blocks if batched else number)
    return batch, block, k.let("group", item % split.groups)


@dataclass(frozen=True, slots=True)
class _Panels:
    """The columns of `b` by panels: dense if packed or if there is one, else as rows of `b` lie."""

    memory: Buffer
    columns: int | E
    count: int | E
    most: int
    """Panels of the largest extent."""
    stride: int | E
    """Elements from a row of a panel to the next."""
    batched: bool
    dense: bool

    @classmethod
    def of(cls, scope: Scope, b: Reader, width: int) -> _Panels:
        dense = b.type.layout is not None or b.shape[-1] == width
        if b.memory is None:
            raise InternalError("b of a tiled product must be in memory")
        columns, count = scope.extents.number(b.shape[-1]), panels_of(b.shape[-1], width)
        stride = width if dense else columns
        number, batched = scope.extents.number(count), len(b.shape) > 2
        return cls(b.memory, columns, number, upper(count), stride, batched, dense)

    def start(self, matrix: E, panel: E, inner: E, width: int) -> E:
        """Return where a panel of one of the matrices starts."""
        if self.dense:
            return (matrix * self.count + panel) * (inner * width)
        return matrix * (inner * self.columns) + self.first(panel, width)

    def first(self, panel: E, width: int) -> E:
        """Return the first column a panel holds; the last panel may meet its neighbour."""
        if self.dense or self.are_multiple_of(width):
            return panel * width
        last = self.columns - width
        return minimum(panel * width, maximum(last, 0) if isinstance(last, E) else last)

    def are_multiple_of(self, number: int) -> bool:
        """True if the columns are known to be a multiple of `number`."""
        return isinstance(self.columns, int) and self.columns % number == 0


@dataclass(frozen=True, slots=True)
class _Strip:
    """Rows of `a` that meet a group of panels, and how one element of them is read."""

    row: E
    rows: int
    end: E | None
    """Rows from there on are not stored; None if all are."""


Range: TypeAlias = tuple[E, E]
Element: TypeAlias = Callable[[E, E], E]
"""Reads an element of a strip by its row in the strip and its place along K."""


@dataclass(frozen=True, slots=True)
class _Item:
    """A part of one matrix product: some rows of `a` by a group of panels."""

    k: KernelBuilder
    left: GroupedReader
    panels: _Panels
    matrix: E
    """Which matrix of a batch the panels are of."""
    target: GroupedWriter
    shape: Tile
    split: Split
    transposed: bool
    height: Extent
    element: Prim
    """What the elements of `a` are."""
    prim: Prim
    """What the sums are: of the type of the panels, unless these are words."""
    add: Accumulate

    @property
    def inner(self) -> E:
        return self.left.extent(0 if self.transposed else 1)

    # Which part

    def panels_of(self, group: E) -> Range:
        """Return where a group of panels starts and stops."""
        panels, groups = self.panels.count, self.split.groups
        if groups == 1:
            return index(0), index(panels)
        if isinstance(panels, int) and panels % groups == 0:
            first = self.k.let("first_panel", group * (panels // groups))
            return first, self.k.let("end_panel", first + panels // groups)
        first = self.k.let("first_panel", group * panels / groups)
        return first, self.k.let("end_panel", (group + 1) * panels / groups)

    def rows_of(self, block: E) -> Range:
        """Return where a block of rows starts and stops."""
        rows, blocks = self.shape.rows, self.split.blocks
        height = self.target.extent(0)
        if blocks == 1:
            return index(0), height
        tiles = (height + (rows - 1)) / rows
        first = self.k.let("first_row", block * tiles / blocks * rows)
        end = (block + 1) * tiles / blocks * rows
        return first, self.k.let("end_row", minimum(end, height))

    def compute(self, rows: Range, panels: Range) -> None:
        if self.split.whole:
            self._strips(rows, lambda strip: self._at_once(strip, panels))
        else:
            self._in_blocks(rows, panels)

    # The order of tiles

    def _strips(self, rows: Range, body: Callable[[_Strip], None]) -> None:
        """Go over the rows in strips as high as a tile; what is left is a lower one."""
        k, height = self.k, self.shape.rows
        first, end = rows
        tail = first + (end - first) / height * height
        if not isinstance(tail.node, Const):
            tail = k.let("tail_row", tail)
        if tail.node != first.node:
            with k.loop("row", tail, start=first, step=height) as row:
                body(_Strip(row, height, None))
        exact = isinstance(self.height, int)
        left = upper(self.height) % height if exact else height
        if left and self.split.blocks == 1 and exact:
            body(_Strip(tail, left, None))
        elif left:
            with k.if_(tail < end):
                body(_Strip(tail, left, None if exact else end))

    def _at_once(self, strip: _Strip, panels: Range) -> None:
        """Compute the tiles of a strip, each over all of K."""
        k = self.k
        element = self._element(strip, index(0), self.inner)
        with self._each(panels) as panel:
            tile = self._tile(strip)
            tile.zero()
            self._accumulate(element, panel, (index(0), self.inner), tile, self._steps(strip))
            if self._finishes_in_registers(strip):
                first = k.let("first_column", panel * self.shape.columns)
                out = self.target
                tile.store(lambda i, j, x: out.write_vector(strip.row + i, first + j, value=x))
            else:  # out of registers, so that what follows is a small loop
                done = k.local("done", self.prim, strip.rows * self.shape.columns)
                self._put(tile, done, index(0))
                self._finish(strip, panel, done, index(0))

    def _steps(self, strip: _Strip) -> int:
        """Return how many steps along all of K are spelled out: a number that divides them."""
        inner = self.inner.node
        known = isinstance(inner, Const) and inner.value % _STEPS == 0
        return _STEPS if known and self._has_few_vectors(strip) else 1

    def _has_few_vectors(self, strip: _Strip) -> bool:
        return strip.rows * self.shape.columns <= _FEW_VECTORS * self.shape.lanes

    def _finishes_in_registers(self, strip: _Strip) -> bool:
        """True if a tile is stored as a whole, and little follows the product."""
        nodes = [node for node in self.target.body.graph.nodes if node.operands]
        is_light = len(nodes) <= _LIGHT and not any(is_library_function(n.op.name) for n in nodes)
        is_whole = self.panels.are_multiple_of(self.shape.columns) and strip.end is None
        return is_light and is_whole and self._has_few_vectors(strip)

    def _in_blocks(self, rows: Range, panels: Range) -> None:
        """Compute the tiles of all strips over one block of K after the other."""
        k, split = self.k, self.split
        size = self.shape.rows * self.shape.columns
        k.comment("Sums of this item's tiles wait here between blocks of the inner extent.")
        waiting = k.local("waiting", self.prim, split.block * split.group * size)
        with k.loop("i", split.block * split.group * size, step=self.shape.lanes) as i:
            k.store(waiting, i, self._zero)

        def place(strip: _Strip, panel: E) -> E:
            number = (strip.row - rows[0]) / self.shape.rows * split.group
            return k.let("place", (number + (panel - panels[0])) * size)

        with k.loop("start", self.inner, step=split.depth) as start:
            stop = k.let("stop", minimum(start + split.depth, self.inner))

            def add(strip: _Strip) -> None:
                element = self._element(strip, start, stop)
                with self._each(panels) as panel:
                    at = place(strip, panel)
                    tile = self._tile(strip)
                    self._take(tile, waiting, at)
                    self._accumulate(element, panel, (start, stop), tile)
                    self._put(tile, waiting, at)

            self._strips(rows, add)

        def finish(strip: _Strip) -> None:
            with self._each(panels) as panel:
                self._finish(strip, panel, waiting, place(strip, panel))

        self._strips(rows, finish)

    # One tile

    def _element(self, strip: _Strip, start: E, stop: E) -> Element:
        """Return how the strip is read; copies its elements from `start` to `stop` if wanted."""
        k, rows = self.k, strip.rows

        def in_place(i: E, p: E) -> E:
            row = strip.row + i if strip.end is None else minimum(strip.row + i, strip.end - 1)
            return self.left.read_real(*((p, row) if self.transposed else (row, p)))

        if not self.split.copies:
            return in_place
        stride = self.split.depth + _LINE // self.prim.size
        k.comment("A strip: rows of the tile, copied side by side.")
        copy = k.local("strip", self.element, rows * stride)
        if self.transposed:
            with k.loop("p", stop, start=start) as p, k.loop("i", rows, kind=LoopKind.SIMD) as i:
                k.store(copy, (p - start) * rows + i, in_place(i, p))
            return lambda i, p: k.load(copy, (p - start) * rows + i)
        with k.loop("i", rows) as i, k.loop("p", stop - start, kind=LoopKind.SIMD) as p:
            k.store(copy, i * stride + p, in_place(i, start + p))
        return lambda i, p: k.load(copy, i * stride + (p - start))

    def _accumulate(
        self, element: Element, panel: E, steps: Range, tile: RegisterTile, at_once: int = 1
    ) -> None:
        """Add to a tile what some steps along K give, of which `at_once` are spelled out."""
        k, width, memory = self.k, self.shape.columns, self.panels.memory
        base = k.let("panel_start", self.panels.start(self.matrix, panel, self.inner, width))
        ahead = _AHEAD if self.panels.dense else _AHEAD_IN_PLACE
        with (
            k.loop("p", steps[1], start=steps[0], step=at_once) as start,
            k.loop("q", at_once, kind=LoopKind.UNROLL) as q,
        ):
            p = start + q
            self._ask_for(base + (p + ahead) * self.panels.stride)
            row = base + p * self.panels.stride
            tile.accumulate(
                lambda i: element(i, p), lambda j: k.load(memory, row + j, self.shape.lanes)
            )

    def _ask_for(self, at: E) -> None:
        """Fetch a row of a panel that streams through the cache."""
        width, size = self.shape.columns, self.prim.size
        if not self.panels.dense or self.split.depth * width * size > _SMALL_PANEL:
            step = max(1, _LINE // size)
            with self.k.loop("j", width, step=step, kind=LoopKind.UNROLL) as j:
                self.k.prefetch(self.panels.memory, at + j)

    def _finish(self, strip: _Strip, panel: E, sums: Buffer, at: E) -> None:
        """Compute what follows the product, and store."""
        k, width, lanes = self.k, self.shape.columns, self.shape.lanes
        first = k.let("first_column", panel * width)
        count = index(width)
        if not self.panels.are_multiple_of(width):
            count = k.let("columns", minimum(self.panels.columns - first, width))
            at = at if self.panels.dense else at + (first - self.panels.first(panel, width))
        stop = index(strip.rows)
        if strip.end is not None:
            stop = minimum(strip.end - strip.row, strip.rows)
        with k.loop("i", stop) as i:
            whole = count / lanes * lanes
            with k.loop("j", whole, step=lanes) as j:
                value = k.load(sums, at + i * width + j, lanes)
                self.target.write_vector(strip.row + i, first + j, value=value)
            if not self.panels.are_multiple_of(lanes):
                with k.loop("j", count, start=whole) as j:
                    value = k.load(sums, at + i * width + j)
                    self.target.write(strip.row + i, first + j, value=value)

    def _tile(self, strip: _Strip) -> RegisterTile:
        columns, lanes = self.shape.columns, self.shape.lanes
        return RegisterTile.of(self.k, "tile", strip.rows, columns, lanes, self.prim, add=self.add)

    def _take(self, tile: RegisterTile, sums: Buffer, at: E) -> None:
        """Read a tile from where its sums wait."""
        lanes, width = self.shape.lanes, self.shape.columns
        tile.load(lambda i, j: self.k.load(sums, at + i * width + j, lanes))

    def _put(self, tile: RegisterTile, sums: Buffer, at: E) -> None:
        """Write a tile to where its sums wait."""
        width = self.shape.columns
        tile.store(lambda i, j, value: self.k.store(sums, at + i * width + j, value))

    @property
    def _zero(self) -> E:
        return const(0, self.prim, self.shape.lanes)

    def _each(self, panels: Range) -> AbstractContextManager[E]:
        return self.k.loop("panel", panels[1], start=panels[0])
