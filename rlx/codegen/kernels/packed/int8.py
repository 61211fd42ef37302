"""Products of packed weights with rows of eight bits, and the rounding of these.

A weight is `scale * (byte + bias) + offset`, an element of `x` is `unit * code`; over elements that
share both scales, the sum of their products is

    scale * unit * (bias * (sum of code) + sum of byte * code) + offset * unit * (sum of code)

so that bytes are multiplied as integers, four products to an instruction, and summed without
rounding. The sums of codes are made once, with the codes.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.extents import row_groups
from rlx.codegen.kernels.packed.packed import ask_ahead, memory_of
from rlx.codegen.kernels.packed.tiles import Multiply, Panels, panel_rows, store_row
from rlx.codegen.kernels.packed.words import (
    Span,
    WordBlock,
    bias_of,
    has_whole_words,
    spans_of,
)
from rlx.codegen.kernels.parallel import rows, weights_loop
from rlx.codegen.kernels.register_tile import RegisterTile
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.expr import E, const, dot_bytes, fma, index, maximum, minimum, select
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind, Prim, UnaryOp
from rlx.dataclass import dataclass
from rlx.ir.block_type import BlockType, block_type
from rlx.ir.lowering import Streamed, Tile
from rlx.ir.ops.packed_int8 import BYTES, LARGEST, LEAST, ROUNDED, SUMMED, words_of_block
from rlx.ir.shape import product, upper

_LANES = 8
"""Elements that are rounded at a time."""

_MAGNITUDE = 0x7FFFFFFF
"""Bits of a float but for its sign; as integers they are ordered, with NaN last."""


@kernel("quantize_rows")
def quantize_rows(scope: Scope, x: Reader, words: Writer, scales: Writer, sums: Writer) -> None:
    k, rank = scope.k, len(x.shape) - 1
    groups = (tuple(range(rank)), (rank,))
    source = x.grouped(groups)
    to_words, to_scales, to_sums = (out.grouped(groups) for out in (words, scales, sums))
    with (
        rows(k, "row", source.extent(0), product(x.shape)) as row,
        k.loop("block", to_scales.extent(1)) as block,
    ):
        parts = [
            k.let("x", source.read_vector(row, block * ROUNDED + at, lanes=_LANES))
            for at in range(0, ROUNDED, _LANES)
        ]
        bits = [part.bitcast(Prim.I32) & _MAGNITUDE for part in parts]
        most = functools.reduce(maximum, bits).fold(BinaryOp.MAX).bitcast(Prim.F32)
        largest = k.let("largest", most)
        known = largest > LEAST
        inverse = k.let("inverse", select(known, LARGEST / select(known, largest, 1.0), 0.0))
        unit = k.let("unit", largest * (1.0 / LARGEST))
        to_scales.write(row, block, value=unit)
        codes = [_rounded(k, part * inverse) for part in parts]
        for half in range(ROUNDED // SUMMED):
            mine = codes[half * SUMMED // _LANES : (half + 1) * SUMMED // _LANES]
            total = functools.reduce(operator.add, mine).fold(BinaryOp.ADD)
            to_sums.write(row, block * (ROUNDED // SUMMED) + half, value=total)
        kept = k.local("codes", Prim.I32, ROUNDED)
        for number, part in enumerate(codes):
            k.store(kept, number * _LANES, part)
        with k.loop("w", ROUNDED // BYTES) as w:
            bytes = [(k.load(kept, w * BYTES + i) & 255) << 8 * i for i in range(BYTES)]
            word = functools.reduce(operator.or_, bytes)
            to_words.write(row, block * (ROUNDED // BYTES) + w, value=word)


def _rounded(k: KernelBuilder, value: E) -> E:
    """Return the nearest integers; what is no number becomes 0."""
    finite = abs(value) <= 2 * LARGEST
    whole = select(finite, value, 0.0).unary(UnaryOp.ROUND_EVEN)
    return k.let("code", whole.cast(Prim.I32))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of eight bits: words of four codes, scales, and sums."""

    words: GroupedReader
    scales: GroupedReader
    sums: GroupedReader

    @classmethod
    def of(cls, words: Reader, scales: Reader, sums: Reader) -> _Rows:
        readers = (
            each.grouped(row_groups(each.shape)).at(index(0)) for each in (words, scales, sums)
        )
        return cls(*readers)

    def unit(self, row: E, place: E) -> E:
        """Return the scale of the element at a place."""
        return self.scales.read_real(row, place / ROUNDED)

    def sum(self, row: E, place: E, length: int) -> E:
        """Return the sum of the codes of some elements."""
        first = place / SUMMED
        parts = [self.sums.read_real(row, first + i) for i in range(length // SUMMED)]
        return functools.reduce(operator.add, parts)


def _rest(rest: tuple[Reader | Writer, ...]) -> tuple[GroupedWriter, Writer, Buffer | None]:
    """Return where the result goes, row by row, and the codebook if there is one."""
    *books, out = rest
    assert isinstance(out, Writer)
    book = memory_of(books[0]) if books and isinstance(books[0], Reader) else None
    return out.grouped(row_groups(out.shape)).at(index(0)), out, book


def _blocks_of(words: Reader, kind: BlockType) -> int:
    return upper(words.shape[-1]) * BYTES // kind.elements


@kernel("dequant_matmul_words", lowering=Streamed)
def dequant_matmul_words_streamed(
    scope: Scope,
    words: Reader,
    scales: Reader,
    sums: Reader,
    blocks: Reader,
    *rest: Reader | Writer,
    lowering: Streamed,
    scheme: str,
    transposed: bool,
) -> None:
    """All rows, few of them, are multiplied by the words of a panel as they are read."""
    del transposed
    k, kind, lanes = scope.k, block_type(scheme), lowering.lanes
    target, out, book = _rest(rest)
    given = _Rows.of(words, scales, sums)
    columns, height = upper(out.shape[-1]), upper(product(out.shape[:-1]))
    count, size = _blocks_of(words, kind), words_of_block(scheme) * lanes
    parallel = weights_loop(k, product((*out.shape, count * kind.elements)))
    with k.loop("panel", -(-columns // lanes), kind=parallel) as panel:
        first = k.let("first", panel * (count * size))
        totals = [k.mutable("total", const(0.0, Prim.F32, lanes)) for _ in range(height)]
        with k.loop("block", count) as number:
            base = k.let("base", first + number * size)
            ask_ahead(k, memory_of(blocks), base, size)
            block = WordBlock(k, memory_of(blocks), kind, base, lanes, book)
            _add_block(k, block, given, number, totals)
        for row, total in enumerate(totals):
            store_row(k, target, index(row), panel * lanes, total, columns)


def _add_block(
    k: KernelBuilder, block: WordBlock, given: _Rows, number: E, totals: list[Mutable]
) -> None:
    """Add the products with a block of a panel to the totals of all rows.

    Scales are computed after the sums of products: both at once are more than registers hold.
    """
    kind, zero = block.kind, const(0, Prim.I32, block.lanes)
    start = k.let("start", number * kind.elements)
    spans, looked_up, bias = spans_of(kind), block.words(), bias_of(kind, block.memory)
    sums = [
        [k.let("sum", given.sum(index(row), start + s.first, s.length)) for s in spans]
        if bias or spans[0].has_offset
        else []
        for row in range(len(totals))
    ]
    dots = [
        [
            k.mutable("dots", (s[i] * bias).splat(block.lanes) if bias else zero)
            for i in range(len(spans))
        ]
        for s in sums
    ]
    per_run = kind.length // BYTES
    loop = LoopKind.UNROLL if has_whole_words(kind) else LoopKind.SERIAL
    with k.loop("w", per_run, kind=loop) as w:
        for run, codes in enumerate(block.packed_codes(w, looked_up)):
            at = _span_of(spans, run * kind.length)
            bytes = k.let("bytes", codes)
            for row, of_row in enumerate(dots):
                place = start / BYTES + (run * per_run + w)
                word = given.words.read_real(index(row), place)
                of_row[at].set(dot_bytes(bytes, word, of_row[at]))
    for number_of, segment in enumerate(block.segments()):
        for row, total in enumerate(totals):
            unit = k.let("unit", given.unit(index(row), start + segment.first))
            total.set(fma(segment.scale * unit, dots[row][number_of].cast(Prim.F32), total))
            if segment.offset is not None:
                plain = sums[row][number_of].cast(Prim.F32) * unit
                total.set(fma(segment.offset, plain, total))


def _span_of(spans: Sequence[Span], element: int) -> int:
    return next(i for i, s in enumerate(spans) if s.first <= element < s.first + s.length)


@kernel("dequant_matmul_words", lowering=Tile)
def dequant_matmul_words_in_tiles(
    scope: Scope,
    words: Reader,
    scales: Reader,
    sums: Reader,
    blocks: Reader,
    *rest: Reader | Writer,
    lowering: Tile,
    scheme: str,
    transposed: bool,
) -> None:
    """Codes of some blocks of a few panels are unpacked, and multiply many rows in tiles."""
    del transposed
    k, kind = scope.k, block_type(scheme)
    target, out, book = _rest(rest)
    given, columns, count = (
        _Rows.of(words, scales, sums),
        upper(out.shape[-1]),
        _blocks_of(words, kind),
    )
    multiplied = product((*out.shape, count * kind.elements))
    with panel_rows(k, lowering, target.extent(0), columns, multiplied) as (panel, start, stop):
        size = words_of_block(scheme)
        panels = Panels(k, lowering, kind, memory_of(blocks), book, columns, count, size, panel)
        _TiledProduct(given, panels).compute(target, start, stop)


@dataclass(frozen=True, slots=True)
class _TiledProduct:
    """Rows of eight bits by the rows of weights in a few panels, which are unpacked to codes.

    Segments of all blocks are alike, so that one loop over them holds the tile: written out for
    each segment of a block it would be more instructions than processors keep decoded.
    """

    given: _Rows
    panels: Panels

    def compute(self, out: GroupedWriter, start: E, stop: E) -> None:
        panels, k = self.panels, self.panels.k
        columns, kind = panels.shape.columns, panels.kind
        depth, (first, *others) = panels.at_once * kind.elements, spans_of(kind)
        assert all(span.length == first.length for span in others)
        codes = k.local("codes", panels.memory.prim, depth // BYTES * columns)
        segments = depth // first.length * columns
        scales = k.local("scales", Prim.F32, segments)
        offsets = k.local("offsets", Prim.F32, segments) if first.has_offset else None
        strip = _Strip.of(k, panels.shape.rows, depth)

        def unpacked(block: E, count: E) -> Multiply:
            self._unpack(codes, scales, offsets, block, count)
            before = k.let("before", block * kind.elements)
            elements = k.let("elements", count * kind.elements)

            def add(waiting: Buffer, row: E, at: E) -> None:
                strip.copy(self.given, row, stop, before, elements)
                tiles = _Tiles(panels, strip, codes, scales, offsets, waiting, first.length)
                with k.loop("segment", elements / first.length) as segment:
                    tiles.add(at, segment)

            return add

        panels.multiply(out, start, stop, unpacked)

    def _unpack(
        self, codes: Buffer, scales: Buffer, offsets: Buffer | None, first: E, count: E
    ) -> None:
        """Unpack blocks to codes, scales and offsets, column by column."""
        panels, k = self.panels, self.panels.k
        shape, kind = panels.shape, panels.kind
        with k.loop("number", count) as number:
            for vector in range(panels.vectors):
                base = panels.base(vector, first + number)
                block = WordBlock(k, panels.memory, kind, base, shape.lanes, panels.book)
                segments, looked_up = block.segments(), block.words()
                per_run = kind.length // BYTES
                with k.loop("w", per_run) as w:
                    for run, found in enumerate(block.packed_codes(w, looked_up)):
                        place = number * (kind.elements // BYTES) + (run * per_run + w)
                        k.store(codes, place * shape.columns + vector * shape.lanes, found)
                for at, segment in enumerate(segments):
                    place = (number * len(segments) + at) * shape.columns + vector * shape.lanes
                    k.store(scales, place, segment.scale)
                    if offsets is not None and segment.offset is not None:
                        k.store(offsets, place, segment.offset)


@dataclass(frozen=True, slots=True)
class _Strip:
    """A few rows of eight bits, copied side by side, over some blocks of K."""

    k: KernelBuilder
    rows: int
    depth: int
    words: Buffer
    units: Buffer
    sums: Buffer

    @classmethod
    def of(cls, k: KernelBuilder, rows: int, depth: int) -> _Strip:
        words, sums = (
            k.local(name, Prim.I32, rows * depth // each)
            for name, each in (("strip", BYTES), ("strip_sums", SUMMED))
        )
        units = k.local("strip_units", Prim.F32, rows * depth // ROUNDED)
        return cls(k, rows, depth, words, units, sums)

    def copy(self, given: _Rows, row: E, stop: E, start: E, count: E) -> None:
        """Copy `count` elements from one on; the last row replaces missing ones."""
        k = self.k
        parts = (
            (self.words, given.words, BYTES),
            (self.units, given.scales, ROUNDED),
            (self.sums, given.sums, SUMMED),
        )
        with k.loop("i", self.rows) as i:
            source = k.let("source", minimum(row + i, stop - 1))
            for to, reader, each in parts:
                with k.loop("p", count / each, kind=LoopKind.SIMD) as p:
                    k.store(
                        to, i * (self.depth // each) + p, reader.read_real(source, start / each + p)
                    )

    def word(self, i: E, at: E) -> E:
        return self.k.load(self.words, i * (self.depth // BYTES) + at)

    def unit(self, i: E, segment: E, length: int) -> E:
        """Return the scale of a row's segment."""
        return self.k.load(self.units, i * (self.depth // ROUNDED) + segment * length / ROUNDED)

    def sum(self, i: E, segment: E, length: int) -> E:
        """Return the sum of the codes of a row's segment."""
        first = i * (self.depth // SUMMED) + segment * (length // SUMMED)
        parts = [self.k.load(self.sums, first + part) for part in range(length // SUMMED)]
        return functools.reduce(operator.add, parts)


@dataclass(frozen=True, slots=True)
class _Tiles:
    """What segments of unpacked codes add to a tile of results."""

    panels: Panels
    strip: _Strip
    codes: Buffer
    scales: Buffer
    offsets: Buffer | None
    waiting: Buffer
    length: int

    def add(self, at: E, segment: E) -> None:
        """Add the products with segment `segment` to the sums that wait at a place."""
        k, shape, strip, length = self.panels.k, self.panels.shape, self.strip, self.length
        lanes, columns, words = shape.lanes, shape.columns, length // BYTES
        tile = RegisterTile.of(
            k, "tile", shape.rows, columns, lanes, Prim.I32, add=lambda x, y, t: dot_bytes(y, x, t)
        )
        bias = bias_of(self.panels.kind, self.panels.memory)
        if bias:
            tile.load(lambda i, _: (strip.sum(i, segment, length) * bias).splat(lanes))
        else:
            tile.zero()
        with k.loop("p", words, kind=LoopKind.UNROLL) as p:
            tile.accumulate(
                lambda i: strip.word(i, segment * words + p),
                lambda j: k.load(self.codes, (segment * words + p) * columns + j, lanes),
            )

        def add(i: E, j: E, dots: E) -> None:
            unit = k.let("unit", strip.unit(i, segment, length))
            total = k.load(self.waiting, at + i * columns + j, lanes)
            scale = k.load(self.scales, segment * columns + j, lanes)
            total = fma(scale * unit, dots.cast(Prim.F32), total)
            if self.offsets is not None:
                plain = k.let("plain", strip.sum(i, segment, length).cast(Prim.F32) * unit)
                total = fma(k.load(self.offsets, segment * columns + j, lanes), plain, total)
            k.store(self.waiting, at + i * columns + j, total)

        tile.store(add)
