"""Matrix products against packed panels: register tiles, one stream over each panel.

A tile is `rows` rows by one panel of columns, kept in registers while K runs:

    for p in K:  for every row i of the tile:  tile[i][:] += a[row + i][p] * panel[p][:]

Each step loads one panel row (a few vectors) and one scalar of `a` per tile row, so a tile of
12 x 32 floats does 24 vector multiply-adds for 2 vector loads: it runs at the speed of the
multipliers. What follows the product (bias, activation, residual) is computed on the tile
before it is stored.

The rows of a tile meet a group of panels one after the other: they stay in the first-level
cache, the group in the second, and whole stretches of the result's rows are written at a time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.parallel import is_large, product_loop
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, fma, index, minimum, select
from rlx.codegen.loops.nodes import Buffer, LoopKind
from rlx.errors import InternalError
from rlx.ir.shape import Extent, Shape, product, upper

_GROUP_BYTES = 512 * 1024
"""Bytes of panels that stay in the second-level cache while the rows of `a` pass by."""

_WORK_ITEMS = 8
"""Parallel iterations wanted at least, so that a few threads share a product evenly."""


@kernel("pack_panels")
def pack_panels(scope: Scope, b: Reader, packed: Writer, *, panel: int, transposed: bool) -> None:
    k = scope.k
    rank = len(b.shape) - 2
    source = b.grouped(_matrix_groups(b.shape))
    target = packed.grouped((tuple(range(rank + 1)), (rank + 1,), (rank + 2,)))
    columns = _static(b.shape[-2 if transposed else -1])
    panels = -(-columns // panel)

    def element(item: E, row: E, column: E) -> E:
        return source.read_real(item, *((column, row) if transposed else (row, column)))

    kind = LoopKind.PARALLEL if is_large(product(b.shape)) else LoopKind.SERIAL
    with k.loop("block", target.extent(0), kind=kind) as block:
        first = k.let("first", block % panels * panel)
        with k.loop("row", target.extent(1)) as row, k.loop("j", panel) as j:
            column = first + j
            value = element(block / panels, row, minimum(column, columns - 1))
            if columns % panel:
                value = select(column < columns, value, const(0, b.prim))
            target.write(block, row, j, value=value)


@kernel("matmul_packed")
def matmul_packed(
    scope: Scope,
    a: Reader,
    packed: Reader,
    out: Writer,
    *,
    columns: int,
    rows: int,
    lanes: int,
    transposed: bool,
) -> None:
    k = scope.k
    work = _Product.of(k, a, packed, out, columns, lanes, transposed)
    height = work.target.extent(1)
    split = _Split.of(work, rows)
    blocks = (height + (split.block_rows - 1)) / split.block_rows
    kind = product_loop(product((*out.shape, work.inner)))
    with k.loop("item", work.target.extent(0) * blocks * split.groups, kind=kind) as item:
        panels = work.group_of(item % split.groups, split.group)
        batch = item / split.groups / blocks
        first = k.let("first_row", item / split.groups % blocks * split.block_rows)
        end = k.let("end_row", minimum(first + split.block_rows, height))
        tail = k.let("tail_row", first + (end - first) / rows * rows)
        with k.loop("row", tail, start=first, step=rows) as row, work.each(panels) as panel:
            work.tile(batch, panel, row, rows)
        tail_rows = _tail_rows(work.height, rows)
        if tail_rows:
            with k.if_(tail < end), work.each(panels) as panel:
                work.tile(batch, panel, tail, tail_rows, _guard(work.height, end))


def _tail_rows(height: Extent, rows: int) -> int:
    """Rows of the last tile: exact where the height is static, else a whole tile."""
    return height % rows if isinstance(height, int) else rows


def _guard(height: Extent, end: E) -> E | None:
    """Return the bound to check rows against; an exact tail needs none."""
    return None if isinstance(height, int) else end


@dataclass(frozen=True, slots=True)
class _Split:
    """How a product is cut into parallel items: blocks of rows by groups of panels."""

    block_rows: int
    group: int
    groups: int

    @classmethod
    def of(cls, product: _Product, rows: int) -> _Split:
        panel_bytes = upper(product.inner) * product.panel * product.weights.prim.size
        most = max(1, min(product.panels, _GROUP_BYTES // (panel_bytes + 1)))
        group = -(-product.panels // -(-product.panels // most))
        groups = -(-product.panels // group)
        tiles = -(-upper(product.height) // rows)
        blocks = min(tiles, -(-_WORK_ITEMS // groups))
        return cls(max(1, -(-tiles // max(1, blocks))) * rows, group, groups)


@dataclass(frozen=True, slots=True)
class _Product:
    """The operands of one product, viewed as (batch, row, column); no batch if b is shared."""

    k: KernelBuilder
    left: GroupedReader
    weights: Buffer
    target: GroupedWriter
    height: Extent
    columns: int
    panels: int
    panel: int
    inner: Extent
    lanes: int
    transposed: bool
    a_batched: bool
    weights_batched: bool

    @classmethod
    def of(
        cls,
        k: KernelBuilder,
        a: Reader,
        packed: Reader,
        out: Writer,
        columns: int,
        lanes: int,
        transposed: bool,
    ) -> _Product:
        if packed.memory is None:
            raise InternalError("matmul_packed: the packed operand must lie in memory")
        batched = len(packed.shape) > 3
        groups = _matrix_groups if batched else _row_groups
        return cls(
            k,
            a.grouped(groups(a.shape)),
            packed.memory,
            out.grouped(groups(out.shape)),
            height=out.shape[-2] if batched else product(out.shape[:-1]),
            columns=columns,
            panels=_static(packed.shape[-3]),
            panel=_static(packed.shape[-1]),
            inner=packed.shape[-2],
            lanes=lanes,
            transposed=transposed,
            a_batched=batched and len(a.shape) > 2,
            weights_batched=batched,
        )

    def group_of(self, number: E, size: int) -> tuple[E, E]:
        """Return where a group of panels starts and stops."""
        first = self.k.let("first_panel", number * size)
        return first, self.k.let("end_panel", minimum(first + size, self.panels))

    def each(self, panels: tuple[E, E]) -> AbstractContextManager[E]:
        first, end = panels
        return self.k.loop("panel", end, start=first)

    def tile(self, batch: E, panel: E, row: E, rows: int, end: E | None = None) -> None:
        """Compute `rows` rows from `row`. With `end`, rows from there on are not stored."""
        k, width = self.k, self.panel
        sums = k.local("tile", self.weights.prim, rows * width)
        zero = const(0.0, self.weights.prim, self.lanes)
        with self._rows(rows) as i, self._vectors() as j:
            k.store(sums, i * width + j, zero)
        inner = self.left.extent(1 if self.transposed else 2)
        item = batch if self.weights_batched else index(0)
        start = k.let("panel_start", (item * self.panels + panel) * (inner * width))
        left = self.left.at(batch if self.a_batched else index(0))
        with k.loop("p", inner) as p, self._rows(rows) as i:
            at = minimum(row + i, end - 1) if end is not None else row + i
            x = k.let("x", left.read_real(*((p, at) if self.transposed else (at, p))))
            with self._vectors() as j:
                b = k.load(self.weights, start + p * width + j, self.lanes)
                total = fma(x, b, k.load(sums, i * width + j, self.lanes))
                k.store(sums, i * width + j, total)
        self._store(batch, panel, row, rows, sums, end)

    def _store(self, batch: E, panel: E, row: E, rows: int, sums: Buffer, end: E | None) -> None:
        """Finish the tile: what follows the product, then memory.

        The sums are copied out of registers first, so that what follows is a small loop.
        """
        k, width, lanes = self.k, self.panel, self.lanes
        done = k.local("done", self.weights.prim, rows * width)
        with self._rows(rows) as i, self._vectors() as j:
            k.store(done, i * width + j, k.load(sums, i * width + j, lanes))
        first = k.let("first_column", panel * width)
        count = k.let("columns", minimum(self.columns - first, width))
        target = self.target.at(batch)
        stop = index(rows) if end is None else minimum(end - row, rows)
        with k.loop("i", stop) as i:
            whole = count / lanes * lanes
            with k.loop("j", whole, step=lanes) as j:
                value = k.load(done, i * width + j, lanes)
                target.write_vector(row + i, first + j, value=value)
            if self.columns % lanes:
                with k.loop("j", count, start=whole) as j:
                    target.write(row + i, first + j, value=k.load(done, i * width + j))

    def _rows(self, rows: int) -> AbstractContextManager[E]:
        return self.k.loop("i", rows, kind=LoopKind.UNROLL)

    def _vectors(self) -> AbstractContextManager[E]:
        return self.k.loop("j", self.panel, step=self.lanes, kind=LoopKind.UNROLL)


def _matrix_groups(shape: Shape) -> tuple[tuple[int, ...], ...]:
    """Group the axes of `[..., rows, columns]` as (batch, row, column)."""
    rank = len(shape) - 2
    return (tuple(range(rank)), (rank,), (rank + 1,))


def _row_groups(shape: Shape) -> tuple[tuple[int, ...], ...]:
    """Group the axes as (nothing, all rows, column): one matrix meets all rows."""
    rank = len(shape) - 1
    return ((), tuple(range(rank)), (rank,))


def _static(extent: Extent) -> int:
    if not isinstance(extent, int):
        raise InternalError(f"packed products need static panels, not {extent}")
    return extent
