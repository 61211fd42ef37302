"""Products with weights in blocks, and their decoding.

Few rows are multiplied by each block as it is read, once, and the codes are multiplied before their
scale:

    sum over l of x[l] * (scale * code[l] + offset)
        = scale * (sum of x[l] * code[l]) + offset * (sum of x[l])

Many rows are multiplied by decoded weights: some blocks of a panel of rows at a time, into a
buffer that stays in the cache, against which tiles of rows run in registers.
"""

from __future__ import annotations

from dataclasses import replace

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.contraction.spans import Range
from rlx.codegen.kernels.contraction.tiles import Item, Strips, Tiles
from rlx.codegen.kernels.extents import matrix_groups, row_groups, vector_groups
from rlx.codegen.kernels.memory import given
from rlx.codegen.kernels.packed.bits import BitBlock, takes_bits
from rlx.codegen.kernels.packed.blocks import PackedBlock
from rlx.codegen.kernels.packed.tiles import PackedPanels, store_row
from rlx.codegen.kernels.parallel import is_large, product_loop, weights_loop
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.expr import E, const, fma, index
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.block_type import BlockType, block_type
from rlx.ir.lowering import Schedule
from rlx.ir.shape import Extent, product, upper

_UNROLLED = 32
"""Codes of a block up to which its loop is written out."""

_CHAINS = 4
"""Sums that are made side by side, at least: one waits for its last addition."""

_AHEAD = 8192
"""Bytes between what is multiplied and what memory is asked for: what comes in meanwhile."""

_LINE = 64
"""Bytes of a line of memory."""


@kernel("dequantize_blocks")
def dequantize_blocks(scope: Scope, blocks: Reader, *rest: Reader | Writer, scheme: str) -> None:
    """Decode row by row, one element after the other."""
    k, kind = scope.k, block_type(scheme)
    out, book = out_and_book(rest)
    target = out.grouped(vector_groups(out.shape))
    count = blocks_of_row(kind, blocks)
    parallel = LoopKind.PARALLEL if is_large(product(out.shape)) else LoopKind.SERIAL
    with k.loop("row", target.extent(0), kind=parallel) as row, k.loop("block", count) as number:
        base = k.let("base", (row * count + number) * kind.size)
        block = PackedBlock(k, given(blocks), kind, base, 1, book)
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
    packed = PackedPanels(k, 1, kind, given(blocks), book, 1, count, kind.size)
    parallel = weights_loop(k, product((*out.shape, x.shape[-1])))
    with k.loop("item", target.extent(0) * columns, kind=parallel) as item:
        matrix = item / columns if batched else index(0)
        left, right = source.at(matrix), target.at(matrix)
        first = item * (count * kind.size)
        with k.loop("row", right.extent(0)) as row:
            (total,) = PanelRows(packed, left, row, 1).totals(first)
            right.write(row, item % columns, value=total)


@kernel("dequant_matmul", lowering=Schedule)
def dequant_matmul_by_schedule(
    scope: Scope,
    x: Reader,
    blocks: Reader,
    *rest: Reader | Writer,
    lowering: Schedule,
    scheme: str,
    **_: object,
) -> None:
    """Few rows of `x` are multiplied by each block as it is read, many by blocks decoded first."""
    k, kind, lanes = scope.k, block_type(scheme), lowering.lanes
    out, book = out_and_book(rest)
    left = x.grouped(row_groups(x.shape)).at(index(0))
    right = out.grouped(row_groups(out.shape)).at(index(0))
    columns, count = upper(out.shape[-1]), blocks_of_row(kind, x)
    work = product((*out.shape, x.shape[-1]))
    packed = PackedPanels(k, lanes, kind, given(blocks), book, columns, count, kind.size)
    if lowering.depth:
        tiles = decode_in_tiles(scope, packed, left, product(x.shape[:-1]), right, lowering)
        tiles.compute(product_loop(work))
        return
    with k.loop("panel", -(-columns // lanes), kind=weights_loop(k, work)) as panel:
        first = k.let("first", panel * (count * kind.size * lanes))
        totals = PanelRows(packed, left, index(0), lowering.rows).totals(first)
        for row, total in enumerate(totals):
            store_row(k, right, index(row), panel * lanes, total, columns)


@dataclass(frozen=True, slots=True)
class PanelRows:
    """Rows of `x` by the blocks of as many weight rows as there are lanes."""

    packed: PackedPanels
    x: GroupedReader
    first: E
    count: int

    def totals(self, first: E) -> list[Mutable]:
        """Sum the products with all blocks of a panel; return one total per row."""
        packed, k, lanes = self.packed, self.packed.k, self.packed.lanes
        totals = [k.mutable("total", const(0.0, Prim.F32, lanes)) for _ in range(self.count)]
        by_bits = self.count == 1 and takes_bits(packed.kind, lanes)
        decoder = BitBlock if by_bits else PackedBlock
        with k.loop("block", index(packed.blocks)) as number:
            base = k.let("base", first + number * (packed.size * lanes))
            if lanes > 1:
                ask_ahead(k, packed.memory, base, packed.size * lanes)
            block = decoder(k, packed.memory, packed.kind, base, lanes, packed.book)
            self._add(block, number, totals)
        return totals

    def _add(self, block: PackedBlock, number: E, totals: list[Mutable]) -> None:
        k, kind = block.k, block.kind
        start = k.let("start", number * kind.elements)
        runs, words = block.runs(), block.words()
        zero = const(0.0, Prim.F32, block.lanes)
        chains = 2 if len(runs) * len(totals) < _CHAINS and kind.length % 2 == 0 else 1
        sums = [[[k.mutable("sum", zero) for _ in range(chains)] for _ in runs] for _ in totals]
        unrolled = kind.length * kind.runs <= _UNROLLED
        loop = LoopKind.UNROLL if unrolled else LoopKind.SERIAL
        with k.loop("place", kind.length, step=chains, kind=loop) as first:
            for chain in range(chains):
                place = first + chain
                for at, code in enumerate(block.codes(place, words)):
                    weight = k.let("weight", code)
                    for row, of_row in enumerate(sums):
                        x = self.x.read_real(self.first + row, start + place + runs[at].first)
                        of_row[at][chain].set(fma(x, weight, of_row[at][chain]))
        for row, total in enumerate(totals):
            for run, parts in zip(runs, sums[row], strict=True):
                sum = parts[0] if chains == 1 else parts[0] + parts[1]
                total.set(fma(run.scale, sum, total))
                if run.offset is not None:
                    plain = self._sum(self.first + row, start + run.first, kind.length)
                    total.set(fma(run.offset, plain, total))

    def _sum(self, row: E, start: E, length: int) -> E:
        """Sum a run of a row of `x`."""
        k, lanes = self.packed.k, min(self.packed.lanes, length)
        places = range(0, length, lanes)
        parts = [self.x.read_vector(row, start + at, lanes=lanes) for at in places]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return k.let("plain", total.fold(BinaryOp.ADD) if lanes > 1 else total)


def decode_in_tiles(
    scope: Scope,
    packed: PackedPanels,
    x: GroupedReader,
    height: Extent,
    out: GroupedWriter,
    schedule: Schedule,
) -> Tiles:
    """Return the tiles of rows of `x` by panels that are decoded, some blocks at a time."""
    k, width = scope.k, schedule.columns
    later = schedule.depth // packed.kind.elements * packed.size * packed.lanes

    def unpack(item: Item, panels: Range, steps: Range) -> Strips:
        weights = k.local("weights", Prim.F32, schedule.depth * width)

        def decode(number: E, column: int, base: E) -> None:
            ask_ahead(k, packed.memory, base, packed.size * packed.lanes, later)
            block = PackedBlock(k, packed.memory, packed.kind, base, packed.lanes, packed.book)
            runs, words = block.runs(), block.words()
            with k.loop("place", packed.kind.length) as place:
                for at, value in block.weights(runs, place, words):
                    row = number * packed.kind.elements + at
                    k.store(weights, row * width + column, value)

        packed.each_block(item, panels, steps, decode)
        origin, outer = steps[0] * -width, (0,) * len(item.outer)
        decoded = replace(item.all.panels, memory=weights, origin=origin, outer=outer)
        return replace(item, all=replace(item.all, panels=decoded)).strips(steps)

    return packed.tiles(scope, x, height, out, schedule, unpack)


def ask_ahead(k: KernelBuilder, memory: Buffer, base: E, size: int, ahead: int = _AHEAD) -> None:
    """Prefetch the elements of a later block, as many bytes ahead or more.

    What processors foresee ends with a page, and is no order in which runs of a block take turns.
    """
    line = _LINE // memory.prim.size
    ahead = max(size, ahead // memory.prim.size)
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
    return out, given(books[0]) if books and isinstance(books[0], Reader) else None
