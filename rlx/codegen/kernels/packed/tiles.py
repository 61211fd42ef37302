"""Register tiles against weights that are unpacked some blocks at a time, whatever they become.

Blocks of the rows of weights in a few panels are unpacked into buffers that stay in the cache,
and tiles of rows run against these; the sums of all tiles wait meanwhile, in a buffer too:

    waiting = 0
    for some blocks at a time:
        unpack them
        for every tile of rows:  waiting[tile] += rows of the tile by what was unpacked
    out = waiting
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TypeAlias

from rlx.codegen.kernels.access import GroupedWriter
from rlx.codegen.kernels.parallel import product_loop
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, Operand, const, minimum
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.dataclass import dataclass
from rlx.ir.block_type import BlockType
from rlx.ir.lowering import Tile
from rlx.ir.shape import Extent

_DEPTH = 256
"""Elements of K that are unpacked at a time: 32 KiB of f32 for 32 columns."""

BLOCK_ROWS = 132
"""MC: rows of A per dequantized block."""

Multiply: TypeAlias = Callable[[Buffer, E, E], None]
"""Adds the products of the tile of rows from one on to the sums that wait at a place."""

Unpack: TypeAlias = Callable[[E, E], Multiply]
"""Unpacks so many blocks from one on; returns what multiplies them."""


@dataclass(frozen=True, slots=True)
class Panels:
    """Rows of weights in blocks, some panels of as many rows as a vector has lanes."""

    k: KernelBuilder
    shape: Tile
    kind: BlockType
    memory: Buffer
    book: Buffer | None
    columns: int
    """All rows of the weights, which are the columns of the result."""
    blocks: int
    """Of a row."""
    size: int
    """Elements of memory that a block of one row takes."""
    panel: E
    """The number of the tile's panels, counted by tiles."""
    first: Operand = 0
    """Where the weights start."""

    @property
    def at_once(self) -> int:
        """How many blocks are unpacked at a time."""
        return min(self.blocks, max(1, _DEPTH // self.kind.elements))

    @property
    def vectors(self) -> int:
        return self.shape.columns // self.shape.lanes

    def base(self, vector: int, block: E) -> E:
        """Return the address of a block of one of the tile's vectors of columns.

        The last panel replaces missing ones.
        """
        lanes, last = self.shape.lanes, -(-self.columns // self.shape.lanes) - 1
        panel = minimum(self.panel * self.vectors + vector, last)
        place = panel * (self.blocks * self.size * lanes) + block * (self.size * lanes)
        return self.k.let("base", place + self.first)

    def multiply(self, out: GroupedWriter, start: E, stop: E, unpack: Unpack) -> None:
        """Compute rows of the result: add up tiles over all of K, then store them."""
        k, shape = self.k, self.shape
        waiting = k.local("waiting", Prim.F32, BLOCK_ROWS * shape.columns)
        with k.loop("i", BLOCK_ROWS * shape.columns, step=shape.lanes) as i:
            k.store(waiting, i, const(0.0, Prim.F32, shape.lanes))
        with k.loop("block", self.blocks, step=self.at_once) as block:
            count = k.let("count", minimum(self.blocks - block, self.at_once))
            add = unpack(block, count)
            with k.loop("row", stop, start=start, step=shape.rows) as row:
                add(waiting, row, (row - start) * shape.columns)
        with k.loop("row", stop, start=start) as row:
            for j in range(0, shape.columns, shape.lanes):
                sums = k.load(waiting, (row - start) * shape.columns + j, shape.lanes)
                first = self.panel * shape.columns + j
                missing = j > 0 and self.columns % shape.columns > 0
                with k.if_(first < self.columns) if missing else nullcontext():
                    store_row(k, out, row, first, sums, self.columns)


@contextmanager
def panel_rows(
    k: KernelBuilder, shape: Tile, height: E, columns: int, multiplied: Extent
) -> Iterator[tuple[E, E, E]]:
    """Open a parallel loop over the panels of `columns`, for some rows at a time.

    Yields the panel, the first row and the row after the last; `multiplied` is the work of all.
    """
    panels = -(-columns // shape.columns)
    block_rows = _rows_of_block(shape)
    row_blocks = (height + (block_rows - 1)) / block_rows
    with k.loop("item", row_blocks * panels, kind=product_loop(multiplied)) as item:
        start = k.let("first_row", item / panels * block_rows)
        stop = k.let("end_row", minimum(start + block_rows, height))
        yield item % panels, start, stop


def last_of_block(k: KernelBuilder, shape: Tile, start: E, height: E) -> E:
    """Return the row after the last that may use what is unpacked for `start`."""
    return k.let("most", minimum(start + _rows_of_block(shape), height))


def _rows_of_block(shape: Tile) -> int:
    """Return how many rows' sums may wait: whole tiles, as the last one is added as a whole."""
    return BLOCK_ROWS // shape.rows * shape.rows


def store_row(
    k: KernelBuilder, out: GroupedWriter, row: E, first: E, value: E, columns: int
) -> None:
    """Store a vector of a row's results from a column on, but for those past the last."""
    lanes = value.type.lanes
    if columns % lanes == 0:
        out.write_vector(row, first, value=value)
        return
    done = k.local("done", Prim.F32, lanes)
    k.store(done, 0, value)
    with k.loop("j", minimum(columns - first, lanes)) as j:
        out.write(row, first + j, value=k.load(done, j))
