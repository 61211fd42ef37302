"""Packing of a matrix into the column panels that `tiles.py` reads.

A block of rows at a time is spread over all panels, so that few pages are open at once. A
transposed matrix is turned in registers: squares of as many rows and columns as a vector has
lanes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import assert_never

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.products.pack_channels import pack_channels, pack_points
from rlx.codegen.kernels.registry import Scope, kernel, open_extents
from rlx.codegen.kernels.transposes import turned
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, Operand, const, index, minimum
from rlx.codegen.loops.nodes import LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.ir.layout import ChannelPanels, Layout, Panels, WinogradPanels
from rlx.ir.lowering import RegisterTranspose
from rlx.ir.shape import product, upper

_BLOCK_ROWS = 32
"""Rows spread over the panels at a time: their pages stay in the first-level TLB."""


@kernel("pack_panels")
@kernel("pack_panels", lowering=RegisterTranspose)
def pack_panels(
    scope: Scope, b: Reader, packed: Writer, *, layout: Layout, transposed: bool,
    lowering: RegisterTranspose | None = None,
) -> None:  # fmt: skip
    lanes = 1 if lowering is None else lowering.lanes
    match layout:
        case Panels():
            pack_columns(scope, b, packed, layout.width, transposed=transposed, lanes=lanes)
        case ChannelPanels():
            pack_channels(scope, b, packed, layout, lanes)
        case WinogradPanels():
            pack_points(scope, b, packed, layout)
        case _:
            assert_never(layout)


def pack_columns(
    scope: Scope, b: Reader, packed: Writer, width: int, *, transposed: bool, lanes: int
) -> None:
    """Write the columns of matrices, or of their transposes, panel by panel."""
    k = scope.k
    rank = len(b.shape) - 2
    batch = tuple(range(rank))
    columns = scope.extents.number(b.shape[-2 if transposed else -1])
    source = b.grouped((batch, (rank,), (rank + 1,)))
    target = packed.grouped((batch, (rank,), (rank + 1,), (rank + 2,)))
    height = target.extent(2)
    blocks = (height + (_BLOCK_ROWS - 1)) / _BLOCK_ROWS
    kind = LoopKind.PARALLEL if scope.is_large(product(b.shape)) else LoopKind.SERIAL
    with k.loop("block", target.extent(0) * blocks, kind=kind) as block:
        item = block / blocks
        first = k.let("first_row", block % blocks * _BLOCK_ROWS)
        end = k.let("end_row", minimum(first + _BLOCK_ROWS, height))
        rows = _Rows(
            k,
            source.at(item),
            target.at(item),
            first,
            end,
            columns,
            width,
            b.prim,
            transposed,
            lanes,
        )
        rows.spread(turns=lanes > 1 and upper(target.extent_of(2)) >= lanes)


@open_extents("pack_panels")
def _matrices(shape: tuple[int, ...], *, layout: Layout, **_: object) -> Mapping[str, int] | None:
    if not isinstance(layout, Panels):
        return None
    *batch, rows, columns = shape
    return {"batch": math.prod(batch), "rows": rows, "columns": columns}


@dataclass(frozen=True, slots=True)
class _Rows:
    """Some rows of the packed matrix, and where they come from and go."""

    k: KernelBuilder
    source: GroupedReader
    target: GroupedWriter
    first: E
    end: E
    columns: int | E
    panel: int
    prim: Prim
    transposed: bool
    lanes: int

    def spread(self, *, turns: bool) -> None:
        """Copy the rows into all panels, the last one filled up with zeros."""
        k = self.k
        panels, rest = self.columns // self.panel, self.columns % self.panel
        if not isinstance(panels, int) or panels:
            with k.loop("panel", panels) as panel:
                done = self._turn(panel) if turns else self.first
                with k.loop("row", self.end, start=done) as row:
                    self._copy(panel, row, self.panel)
        if isinstance(rest, E):
            rest = k.let("rest", rest)
            with k.if_(rest > 0):
                self._fill_up(panels, rest)
        elif rest:
            self._fill_up(panels, rest)

    def _fill_up(self, panel: Operand, rest: Operand) -> None:
        """Copy the `rest` columns of the last panel, and zeros after them."""
        k, last = self.k, index(panel)
        with k.loop("row", self.end, start=self.first) as row:
            self._copy(last, row, rest)
            with k.loop("j", self.panel, start=rest) as j:
                self.target.write(last, row, j, value=const(0, self.prim))

    def _copy(self, panel: E, row: E, count: Operand) -> None:
        with self.k.loop("j", count, kind=LoopKind.SIMD) as j:
            column = panel * self.panel + j
            at = (column, row) if self.transposed else (row, column)
            self.target.write(panel, row, j, value=self.source.read_real(*at))

    def _turn(self, panel: E) -> E:
        """Transpose squares of `lanes` rows; return the first row that is left."""
        k, lanes = self.k, self.lanes
        whole = k.let("whole", self.first + (self.end - self.first) / lanes * lanes)
        with (
            k.loop("row", whole, start=self.first, step=lanes) as row,
            k.loop("j", self.panel, step=lanes) as j,
        ):
            lines = [
                k.let("line", self._line(panel * self.panel + j + lane, row))
                for lane in range(lanes)
            ]
            for lane, values in enumerate(turned(k, lines)):
                self.target.write_vector(panel, row + lane, j, value=values)
        return whole

    def _line(self, column: E, row: Operand) -> E:
        return self.source.read_vector(column, index(row), lanes=self.lanes)
