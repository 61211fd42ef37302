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

from rlx.codegen.kernels.access import GroupedReader, Reader, Writer
from rlx.codegen.kernels.contraction.spans import Range, Span
from rlx.codegen.kernels.contraction.tiles import Add, Item, Strips
from rlx.codegen.kernels.extents import row_groups, vector_groups
from rlx.codegen.kernels.memory import given
from rlx.codegen.kernels.packed.packed import ask_ahead, out_and_book
from rlx.codegen.kernels.packed.tiles import PackedPanels, store_row
from rlx.codegen.kernels.packed.words import (
    SegmentPlace,
    WordBlock,
    bias_of,
    has_whole_words,
    spans_of,
)
from rlx.codegen.kernels.parallel import product_loop, rows, weights_loop
from rlx.codegen.kernels.register_tile import RegisterTile
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.expr import E, const, dot_bytes, fma, index, maximum, select
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind, Prim, UnaryOp
from rlx.dataclass import dataclass
from rlx.ir.block_type import ROUNDED, integer_blocks
from rlx.ir.lowering import Schedule
from rlx.ir.ops.packed_int8 import BYTES, LARGEST, LEAST, SUMMED, words_of_block
from rlx.ir.shape import product, upper

_LANES = 8
"""Elements that are rounded at a time."""

_MAGNITUDE = 0x7FFFFFFF
"""Bits of a float but for its sign; as integers they are ordered, with NaN last."""


@kernel("quantize_rows")
def quantize_rows(
    scope: Scope, x: Reader, words: Writer, scales: Writer, sums: Writer, values: Writer
) -> None:
    k, groups = scope.k, vector_groups(x.shape)
    source = x.grouped(groups)
    to_words, to_scales, to_sums, to_values = (
        out.grouped(groups) for out in (words, scales, sums, values)
    )
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
        totals = []
        for half in range(ROUNDED // SUMMED):
            mine = codes[half * SUMMED // _LANES : (half + 1) * SUMMED // _LANES]
            totals.append(k.let("total", functools.reduce(operator.add, mine).fold(BinaryOp.ADD)))
            to_sums.write(row, block * (ROUNDED // SUMMED) + half, value=totals[-1])
        whole = functools.reduce(operator.add, totals).cast(Prim.F32)
        to_values.write(row, block, value=whole * unit)
        kept = k.local("codes", Prim.I32, ROUNDED)
        for number, part in enumerate(codes):
            k.store(kept, number * _LANES, part)
        with k.loop("w", ROUNDED // BYTES) as w:
            bytes = [(k.load(kept, w * BYTES + i) & 255) << 8 * i for i in range(BYTES)]
            word = functools.reduce(operator.or_, bytes)
            to_words.write(row, block * (ROUNDED // BYTES) + w, value=word)


def _rounded(k: KernelBuilder, value: E) -> E:
    """Return the nearest integers; 0 for NaN."""
    finite = abs(value) <= 2 * LARGEST
    whole = select(finite, value, 0.0).unary(UnaryOp.ROUND_EVEN)
    return k.let("code", whole.cast(Prim.I32))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of eight bits: words of four codes, scales, sums, and scaled sums."""

    words: GroupedReader
    scales: GroupedReader
    sums: GroupedReader
    values: GroupedReader

    @classmethod
    def of(cls, *readers: Reader) -> _Rows:
        return cls(*(each.grouped(row_groups(each.shape)).at(index(0)) for each in readers))

    def sum(self, row: E, place: E, length: int) -> E:
        """Return the sum of the codes of some elements."""
        first = place / SUMMED
        parts = [self.sums.read_real(row, first + i) for i in range(length // SUMMED)]
        return functools.reduce(operator.add, parts)


@kernel("dequant_matmul_words", lowering=Schedule)
def dequant_matmul_words(
    scope: Scope,
    words: Reader,
    scales: Reader,
    sums: Reader,
    values: Reader,
    blocks: Reader,
    *rest: Reader | Writer,
    lowering: Schedule,
    scheme: str,
    **_: object,
) -> None:
    """Few rows are multiplied by words as these are read, many by codes that are unpacked first."""
    k, kind, lanes = scope.k, integer_blocks(scheme), lowering.lanes
    out, book = out_and_book(rest)
    target = out.grouped(row_groups(out.shape)).at(index(0))
    codes = _Rows.of(words, scales, sums, values)
    columns, count = upper(out.shape[-1]), upper(words.shape[-1]) * BYTES // kind.elements
    memory, size = given(blocks), words_of_block(scheme)
    work = product((*out.shape, count * kind.elements))
    if lowering.depth:
        packed = PackedPanels(k, lanes, kind, memory, book, columns, count, size)
        unpack = functools.partial(_unpack, packed, codes)
        packed.tiles(scope, codes.words, product(out.shape[:-1]), target, lowering, unpack).compute(
            product_loop(work)
        )
        return
    with k.loop("panel", -(-columns // lanes), kind=weights_loop(k, work)) as panel:
        first = k.let("first", panel * (count * size * lanes))
        zero = const(0.0, Prim.F32, lanes)
        totals = [k.mutable("total", zero) for _ in range(lowering.rows)]
        with k.loop("block", count) as number:
            base = k.let("base", first + number * (size * lanes))
            ask_ahead(k, memory, base, size * lanes)
            block = WordBlock(k, memory, kind, base, lanes, book)
            _add_block(k, block, codes, number, totals)
        for row, total in enumerate(totals):
            store_row(k, target, index(row), panel * lanes, total, columns)


def _elements(
    k: KernelBuilder, reader: GroupedReader, row: E, first: E, count: int, lanes: int
) -> list[E]:
    """Return `count` elements of a row, which are read in vectors of `lanes`."""
    if lanes == 1 or count % lanes:
        return [reader.read_real(row, first + i) for i in range(count)]
    vectors = [
        k.let("vector", reader.read_vector(row, first + i, lanes=lanes))
        for i in range(0, count, lanes)
    ]
    return [vector.lane(lane) for vector in vectors for lane in range(lanes)]


def _adds_values(span: SegmentPlace) -> bool:
    """True if what segments add to all of their products is an offset times a value."""
    return span.has_offset and span.length == ROUNDED


def _adds_sums(span: SegmentPlace, bias: int) -> bool:
    """True if it takes the sum of the codes of their rows."""
    return bias != 0 or (span.has_offset and not _adds_values(span))


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
        if _adds_sums(spans[0], bias)
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
    at_once = block.lanes if block.multiplies_by_lanes else 1
    lanes = at_once if per_run % at_once == 0 else 1
    with k.loop("w", per_run, step=lanes, kind=loop) as w:
        runs = range(kind.elements // kind.length)
        places = [start / BYTES + (run * per_run + w) for run in runs]
        words = [
            [_elements(k, given.words, index(row), at, lanes, lanes) for row in range(len(dots))]
            for at in places
        ]
        for lane in range(lanes):
            for run, codes in enumerate(block.packed_codes(w + lane, looked_up)):
                at = _span_of(spans, run * kind.length)
                bytes = k.let("bytes", codes)
                for word, of_row in zip(words[run], dots, strict=True):
                    of_row[at].set(dot_bytes(bytes, word[lane], of_row[at]))
    rounded = kind.elements // ROUNDED
    units, values = (
        [_elements(k, each, index(row), number * rounded, rounded, at_once) for row in of_rows]
        for each, of_rows in (
            (given.scales, range(len(totals))),
            (given.values, range(len(totals) * _adds_values(spans[0]))),
        )
    )
    for number_of, segment in enumerate(block.segments()):
        for row, total in enumerate(totals):
            unit = units[row][segment.first // ROUNDED]
            total.set(fma(segment.scale * unit, dots[row][number_of].cast(Prim.F32), total))
            if segment.offset is not None:
                value = (
                    values[row][number_of] if values else sums[row][number_of].cast(Prim.F32) * unit
                )
                total.set(fma(segment.offset, value, total))


def _span_of(spans: Sequence[SegmentPlace], element: int) -> int:
    return next(i for i, s in enumerate(spans) if s.first <= element < s.first + s.length)


def _unpack(packed: PackedPanels, given: _Rows, item: Item, panels: Range, steps: Range) -> Strips:
    """Unpack some blocks of a panel to codes, scales and offsets, column by column.

    SegmentPlace of all blocks are alike, so that one loop over them holds the tile: written out for
    each segment of a block it would be more instructions than processors keep decoded.
    """
    k, kind, columns = packed.k, packed.kind, item.all.panels.width
    depth, (span, *others) = item.all.schedule.depth, spans_of(kind)
    assert all(other.length == span.length for other in others)
    codes = k.local("codes", packed.memory.prim, depth // BYTES * columns)
    segments = depth // span.length * columns
    scales = k.local("scales", Prim.F32, segments)
    offsets = k.local("offsets", Prim.F32, segments) if span.has_offset else None

    def unpack(number: E, column: int, base: E) -> None:
        block = WordBlock(k, packed.memory, kind, base, packed.lanes, packed.book)
        segments, looked_up = block.segments(), block.words()
        per_run = kind.length // BYTES
        with k.loop("w", per_run) as w:
            for run, found in enumerate(block.packed_codes(w, looked_up)):
                place = number * (kind.elements // BYTES) + (run * per_run + w)
                k.store(codes, place * columns + column, found)
        for at, segment in enumerate(segments):
            place = (number * len(segments) + at) * columns + column
            k.store(scales, place, segment.scale)
            if offsets is not None and segment.offset is not None:
                k.store(offsets, place, segment.offset)

    packed.each_block(item, panels, steps, unpack)
    elements, strip = (
        k.let("elements", steps[1] - steps[0]),
        _Strip.of(k, item.all.down.size, depth),
    )

    def read(down: Span) -> Add:
        parts = [strip.words, strip.units]
        parts += [strip.values] if _adds_values(span) else []
        parts += [strip.sums] if _adds_sums(span, bias_of(kind, packed.memory)) else []
        strip.copy(given, down, steps[0], elements, parts)

        def add(_: E, waiting: Buffer, at: E) -> None:
            tiles = _Tiles(packed, strip, codes, scales, offsets, waiting, span.length, columns)
            with k.loop("segment", elements / span.length) as segment:
                tiles.add(at, segment)

        return add

    return read


@dataclass(frozen=True, slots=True)
class _Strip:
    """A few rows of eight bits, copied side by side, over some blocks of K."""

    k: KernelBuilder
    rows: int
    depth: int
    words: Buffer
    units: Buffer
    sums: Buffer
    values: Buffer

    @classmethod
    def of(cls, k: KernelBuilder, rows: int, depth: int) -> _Strip:
        words, sums = (
            k.local(name, Prim.I32, rows * depth // each)
            for name, each in (("strip", BYTES), ("strip_sums", SUMMED))
        )
        units, values = (
            k.local(name, Prim.F32, rows * depth // ROUNDED)
            for name in ("strip_units", "strip_values")
        )
        return cls(k, rows, depth, words, units, sums, values)

    def copy(self, given: _Rows, down: Span, start: E, count: E, parts: list[Buffer]) -> None:
        """Copy `count` elements from one on, and what is asked for of them."""
        k = self.k
        sources = (
            (self.words, given.words, BYTES),
            (self.units, given.scales, ROUNDED),
            (self.values, given.values, ROUNDED),
            (self.sums, given.sums, SUMMED),
        )
        with k.loop("i", self.rows) as i:
            source = k.let("source", down.read(i))
            for to, reader, each in sources:
                if to not in parts:
                    continue
                with k.loop("p", count / each, kind=LoopKind.SIMD) as p:
                    k.store(
                        to, i * (self.depth // each) + p, reader.read_real(source, start / each + p)
                    )

    def word(self, i: E, at: E) -> E:
        return self.k.load(self.words, i * (self.depth // BYTES) + at)

    def rounded(self, each: Buffer, i: E, segment: E, length: int) -> E:
        """Return the scale of a row's segment, or its value."""
        return self.k.load(each, i * (self.depth // ROUNDED) + segment * length / ROUNDED)

    def sum(self, i: E, segment: E, length: int) -> E:
        """Return the sum of the codes of a row's segment."""
        first = i * (self.depth // SUMMED) + segment * (length // SUMMED)
        parts = [self.k.load(self.sums, first + part) for part in range(length // SUMMED)]
        return functools.reduce(operator.add, parts)


@dataclass(frozen=True, slots=True)
class _Tiles:
    """What segments of unpacked codes add to a tile of results."""

    packed: PackedPanels
    strip: _Strip
    codes: Buffer
    scales: Buffer
    offsets: Buffer | None
    waiting: Buffer
    length: int
    columns: int

    def add(self, at: E, segment: E) -> None:
        """Add the products with segment `segment` to partial sums in memory."""
        packed, strip, length = self.packed, self.strip, self.length
        k, lanes, columns, words = packed.k, packed.lanes, self.columns, length // BYTES
        tile = RegisterTile.of(
            k, "tile", strip.rows, columns, lanes, Prim.I32, add=lambda x, y, t: dot_bytes(y, x, t)
        )
        bias = bias_of(packed.kind, packed.memory)
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
            unit = k.let("unit", strip.rounded(strip.units, i, segment, length))
            total = k.load(self.waiting, at + i * columns + j, lanes)
            scale = k.load(self.scales, segment * columns + j, lanes)
            total = fma(scale * unit, dots.cast(Prim.F32), total)
            if self.offsets is not None:
                offset = k.load(self.offsets, segment * columns + j, lanes)
                value = (
                    strip.rounded(strip.values, i, segment, length)
                    if length == ROUNDED
                    else strip.sum(i, segment, length).cast(Prim.F32) * unit
                )
                total = fma(offset, k.let("value", value), total)
            k.store(self.waiting, at + i * columns + j, total)

        tile.store(add)
