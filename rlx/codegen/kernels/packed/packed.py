"""Products with weights in blocks, and their decoding.

Few rows are multiplied by each block as it is read, once, and the codes are multiplied before their
scale:

    sum over l of x[l] * (scale * code[l] + offset)
        = scale * (sum of x[l] * code[l]) + offset * (sum of x[l])

Many rows are multiplied by decoded weights: some blocks of a panel of rows at a time, into a
buffer that stays in the cache, against which tiles of rows run in registers.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.extents import matrix_groups, row_groups
from rlx.codegen.kernels.packed.blocks import PackedBlock
from rlx.codegen.kernels.packed.tiles import Multiply, Panels, panel_rows, store_row
from rlx.codegen.kernels.parallel import is_large, weights_loop
from rlx.codegen.kernels.register_tile import RegisterTile
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.expr import E, const, fma, index, minimum
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.block_type import BlockType, block_type
from rlx.ir.lowering import Streamed, Tile
from rlx.ir.shape import product, upper

_UNROLLED = 32
"""Codes of a block up to which its loop is written out."""

_AHEAD = 8192
"""Bytes between what is multiplied and what memory is asked for: what comes in meanwhile."""

_LINE = 64
"""Bytes of a line of memory."""

_STRIP_PADDING = 16
"""Elements between the rows of a copied strip, against cache conflicts."""


@kernel("dequantize_blocks")
def dequantize_blocks(scope: Scope, blocks: Reader, *rest: Reader | Writer, scheme: str) -> None:
    """Decode row by row, one element after the other."""
    k, kind = scope.k, block_type(scheme)
    out, book = out_and_book(rest)
    axes = tuple(range(len(out.shape) - 1))
    target = out.grouped((axes, (len(axes),)))
    count = blocks_of_row(kind, blocks)
    parallel = LoopKind.PARALLEL if is_large(product(out.shape)) else LoopKind.SERIAL
    with k.loop("row", target.extent(0), kind=parallel) as row, k.loop("block", count) as number:
        base = k.let("base", (row * count + number) * kind.size)
        block = PackedBlock(k, memory_of(blocks), kind, base, 1, book)
        runs, words = block.runs(), block.words()
        with k.loop("place", kind.length) as place:
            for at, value in block.weights(runs, place, words):
                target.write(row, number * kind.elements + at, value=value)


@kernel("dequant_matmul")
def dequant_matmul(
    scope: Scope, x: Reader, blocks: Reader, *rest: Reader | Writer, scheme: str, transposed: bool
) -> None:
    """Plain rows of blocks: one element of the result after the other."""
    if transposed:
        raise InternalError("dequant_matmul: plain rows of blocks are not transposed")
    k, kind = scope.k, block_type(scheme)
    out, book = out_and_book(rest)
    batched = len(blocks.shape) > 2
    groups = matrix_groups if batched else row_groups
    source, target = x.grouped(groups(x.shape)), out.grouped(groups(out.shape))
    columns, count = target.extent(2), blocks_of_row(kind, blocks)
    parallel = weights_loop(k, product((*out.shape, x.shape[-1])))
    with k.loop("item", target.extent(0) * columns, kind=parallel) as item:
        matrix = item / columns if batched else index(0)
        left, right = source.at(matrix), target.at(matrix)
        first = item * (count * kind.size)
        with k.loop("row", right.extent(0)) as row:
            rows = PanelRows(k, left, row, 1, 1, book)
            totals = rows.totals(kind, memory_of(blocks), first, index(count))
            right.write(row, item % columns, value=totals[0])


@kernel("dequant_matmul", lowering=Streamed)
def dequant_matmul_streamed(
    scope: Scope,
    x: Reader,
    blocks: Reader,
    *rest: Reader | Writer,
    lowering: Streamed,
    scheme: str,
    transposed: bool,
) -> None:
    """All rows of `x`, few of them, are multiplied by the blocks of a panel as they are read."""
    del transposed
    k, kind, lanes = scope.k, block_type(scheme), lowering.lanes
    out, book = out_and_book(rest)
    source, target = x.grouped(row_groups(x.shape)), out.grouped(row_groups(out.shape))
    left, right = source.at(index(0)), target.at(index(0))
    columns, height = upper(out.shape[-1]), upper(product(out.shape[:-1]))
    count = blocks_of_row(kind, x)
    parallel = weights_loop(k, product((*out.shape, x.shape[-1])))
    with k.loop("panel", -(-columns // lanes), kind=parallel) as panel:
        first = k.let("first", panel * (count * kind.size * lanes))
        rows = PanelRows(k, left, index(0), height, lanes, book)
        totals = rows.totals(kind, memory_of(blocks), first, index(count))
        for row, total in enumerate(totals):
            store_row(k, right, index(row), panel * lanes, total, columns)


@dataclass(frozen=True, slots=True)
class PanelRows:
    """Rows of `x` by the blocks of as many weight rows as there are lanes."""

    k: KernelBuilder
    x: GroupedReader
    first: E
    count: int
    lanes: int
    book: Buffer | None

    def totals(self, kind: BlockType, memory: Buffer, first: E, blocks: E) -> list[Mutable]:
        """Sum the products with all blocks of a panel; return one total per row."""
        k = self.k
        zero = const(0.0, Prim.F32, self.lanes)
        totals = [k.mutable("total", zero) for _ in range(self.count)]
        with k.loop("block", blocks) as number:
            base = k.let("base", first + number * (kind.size * self.lanes))
            if self.lanes > 1:
                ask_ahead(k, memory, base, kind.size * self.lanes)
            block = PackedBlock(k, memory, kind, base, self.lanes, self.book)
            self._add(block, number, totals)
        return totals

    def _add(self, block: PackedBlock, number: E, totals: list[Mutable]) -> None:
        k, kind = self.k, block.kind
        start = k.let("start", number * kind.elements)
        runs, words = block.runs(), block.words()
        zero = const(0.0, Prim.F32, self.lanes)
        sums = [[k.mutable("sum", zero) for _ in runs] for _ in totals]
        unrolled = kind.length * kind.runs <= _UNROLLED
        loop = LoopKind.UNROLL if unrolled else LoopKind.SERIAL
        with k.loop("place", kind.length, kind=loop) as place:
            for at, code in enumerate(block.codes(place, words)):
                weight = k.let("weight", code)
                for row, of_row in enumerate(sums):
                    x = self.x.read_real(self.first + row, start + place + runs[at].first)
                    of_row[at].set(fma(x, weight, of_row[at]))
        for row, total in enumerate(totals):
            for run, sum in zip(runs, sums[row], strict=True):
                total.set(fma(run.scale, sum, total))
                if run.offset is not None:
                    plain = self._sum(self.first + row, start + run.first, kind.length)
                    total.set(fma(run.offset, plain, total))

    def _sum(self, row: E, start: E, length: int) -> E:
        """Sum a run of a row of `x`."""
        k, lanes = self.k, min(self.lanes, length)
        parts = [
            self.x.read_vector(row, start + at, lanes=lanes)
            if lanes > 1
            else self.x.read_real(row, start + at)
            for at in range(0, length, lanes)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return k.let("plain", total.fold(BinaryOp.ADD) if lanes > 1 else total)


@kernel("dequant_matmul", lowering=Tile)
def dequant_matmul_in_tiles(
    scope: Scope,
    x: Reader,
    blocks: Reader,
    *rest: Reader | Writer,
    lowering: Tile,
    scheme: str,
    transposed: bool,
) -> None:
    """Some blocks of a few panels are decoded, and multiply many rows of `x` in register tiles."""
    del transposed
    k, kind = scope.k, block_type(scheme)
    out, book = out_and_book(rest)
    source, target = x.grouped(row_groups(x.shape)), out.grouped(row_groups(out.shape))
    left, right = source.at(index(0)), target.at(index(0))
    columns, count = upper(out.shape[-1]), blocks_of_row(kind, x)
    multiplied = product((*out.shape, x.shape[-1]))
    with panel_rows(k, lowering, right.extent(0), columns, multiplied) as (panel, start, stop):
        panels = Panels(
            k, lowering, kind, memory_of(blocks), book, columns, count, kind.size, panel
        )
        TiledProduct(left, panels).compute(right, start, stop)


@dataclass(frozen=True, slots=True)
class TiledProduct:
    """Rows of `x` by the rows of weights in a few panels, which are decoded."""

    x: GroupedReader
    panels: Panels

    def compute(self, out: GroupedWriter, start: E, stop: E) -> None:
        k, shape = self.panels.k, self.panels.shape
        weights = k.local("weights", Prim.F32, self._depth * shape.columns)
        strip = k.local("strip", Prim.F32, shape.rows * self._stride)

        def decoded(block: E, count: E) -> Multiply:
            self._decode(weights, block, count)
            elements = k.let("elements", count * self.panels.kind.elements)

            def add(waiting: Buffer, row: E, at: E) -> None:
                self._copy(strip, row, stop, block * self.panels.kind.elements, elements)
                self._multiply(strip, weights, waiting, at, elements)

            return add

        self.panels.multiply(out, start, stop, decoded)

    @property
    def _depth(self) -> int:
        return self.panels.at_once * self.panels.kind.elements

    @property
    def _stride(self) -> int:
        return self._depth + _STRIP_PADDING

    def _decode(self, weights: Buffer, block: E, count: E) -> None:
        """Decode `count` blocks from `block` on, of every panel."""
        panels, k = self.panels, self.panels.k
        shape, kind = panels.shape, panels.kind
        with k.loop("number", count) as number:
            for vector in range(panels.vectors):
                first = panels.base(vector, block + number)
                packed = PackedBlock(k, panels.memory, kind, first, shape.lanes, panels.book)
                runs, words = packed.runs(), packed.words()
                with k.loop("place", kind.length) as place:
                    for at, value in packed.weights(runs, place, words):
                        row = number * kind.elements + at
                        k.store(weights, row * shape.columns + vector * shape.lanes, value)

    def _copy(self, strip: Buffer, row: E, stop: E, start: E, count: E) -> None:
        """Copy the rows of a tile side by side; the last row replaces missing ones."""
        k = self.panels.k
        with k.loop("i", self.panels.shape.rows) as i:
            source = k.let("source", minimum(row + i, stop - 1))
            with k.loop("p", count, kind=LoopKind.SIMD) as p:
                k.store(strip, i * self._stride + p, self.x.read_real(source, start + p))

    def _multiply(self, strip: Buffer, weights: Buffer, waiting: Buffer, at: E, count: E) -> None:
        k, shape = self.panels.k, self.panels.shape
        tile = RegisterTile.of(k, "tile", shape.rows, shape.columns, shape.lanes, Prim.F32)
        tile.load(lambda i, j: k.load(waiting, at + i * shape.columns + j, shape.lanes))
        with k.loop("p", count) as p:
            tile.accumulate(
                lambda i: k.load(strip, i * self._stride + p),
                lambda j: k.load(weights, p * shape.columns + j, shape.lanes),
            )
        tile.store(lambda i, j, sums: k.store(waiting, at + i * shape.columns + j, sums))


def ask_ahead(k: KernelBuilder, memory: Buffer, base: E, size: int) -> None:
    """Prefetch as many elements as a block has, some way after it.

    What processors foresee ends with a page, and is no order in which runs of a block take turns.
    """
    line = _LINE // memory.prim.size
    ahead = max(size, _AHEAD // memory.prim.size)
    for element in range(0, size, line):
        k.prefetch(memory, base + (ahead + element))


def blocks_of_row(kind: BlockType, operand: Reader) -> int:
    """Return the blocks of a row, from rows of blocks or of activations."""
    extent = operand.shape[-1]
    if not isinstance(extent, int):
        raise InternalError("rows of blocks have a static number of bytes")
    return extent // (kind.size if operand.dtype.is_int else kind.elements)


def out_and_book(rest: tuple[Reader | Writer, ...]) -> tuple[Writer, Buffer | None]:
    """Return where the result goes, and the codebook if there is one."""
    *books, out = rest
    assert isinstance(out, Writer)
    return out, memory_of(books[0]) if books and isinstance(books[0], Reader) else None


def memory_of(blocks: Reader) -> Buffer:
    if blocks.memory is None:
        raise InternalError("packed blocks must be in memory")
    return blocks.memory
