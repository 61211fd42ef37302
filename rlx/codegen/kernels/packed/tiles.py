"""Panels of packed weights: where their blocks are, and the tiles that unpack some at a time."""

from __future__ import annotations

from collections.abc import Callable

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter
from rlx.codegen.kernels.contraction.operands import ComputedRows, Panels, affine
from rlx.codegen.kernels.contraction.spans import Axis, Range
from rlx.codegen.kernels.contraction.stores import ColumnStore
from rlx.codegen.kernels.contraction.tiles import Item, Strips, Tiles
from rlx.codegen.kernels.register_tile import multiply_add
from rlx.codegen.kernels.registry import Scope
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, minimum
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.dataclass import dataclass
from rlx.ir.block_type import BlockType
from rlx.ir.lowering import Schedule
from rlx.ir.shape import Extent


@dataclass(frozen=True, slots=True)
class PackedPanels:
    """Rows of weights in blocks, in panels of as many rows as a vector has lanes."""

    k: KernelBuilder
    lanes: int
    kind: BlockType
    memory: Buffer
    book: Buffer | None
    columns: int
    """All rows of the weights, which are the columns of the result."""
    blocks: int
    """Of a row."""
    size: int
    """Elements of memory that a block of one row takes."""
    matrix: int = 0
    """Elements of memory of each of several matrices; 0 for one matrix."""

    def tiles(
        self,
        scope: Scope,
        x: GroupedReader,
        height: Extent,
        out: GroupedWriter,
        schedule: Schedule,
        unpack: Callable[[Item, Range, Range], Strips],
    ) -> Tiles:
        """Return the tiles of rows of `x` by what `unpack` makes of some blocks of a panel."""
        width, steps = schedule.columns, self.blocks * self.kind.elements
        count = -(-self.columns // width)
        panels = Panels(
            self.k, self.memory, width, self.columns, count, (), 0, (width,), most=count
        )
        return Tiles(
            self.k,
            scope.extents,
            [],
            Axis("row", height, schedule.rows, repeats=True),
            Axis("column"),
            [("p", steps)],
            ComputedRows(x, Prim.F32, False, 0),
            panels,
            ColumnStore(self.k, out, (int(self.matrix > 0),)),
            Prim.F32,
            multiply_add,
            schedule,
            rows_fastest=False,
            unpack=unpack,
        )

    def each_block(
        self, item: Item, panels: Range, steps: Range, body: Callable[[E, int, E], None]
    ) -> None:
        """Loop over blocks of an item's panel: `body` takes number, first column and address.

        The last vector of columns replaces missing ones.
        """
        k, vectors = self.k, item.all.panels.width // self.lanes
        first, elements = k.let("block", steps[0] / self.kind.elements), self.kind.elements
        last = -(-self.columns // self.lanes) - 1
        with k.loop("number", k.let("count", (steps[1] - steps[0]) / elements)) as number:
            for vector in range(vectors):
                panel = minimum(panels[0] * vectors + vector, last)
                place = panel * (self.blocks * self.size * self.lanes)
                at = place + (first + number) * (self.size * self.lanes)
                base = affine(at, item.outer, [self.matrix] * len(item.outer))
                body(number, vector * self.lanes, k.let("base", base))


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
