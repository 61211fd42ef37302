"""Blocks of packed weights as words of four codes, for instructions that multiply four bytes.

Words of a panel's rows are interleaved, `[panel][word][row]`: a vector holds the same four bytes
of as many rows as it has lanes. Formulas that mask, shift and join bytes give four codes at once,
on whole words; of others the codes are computed one by one and put together.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rlx.codegen.kernels.packed.blocks import PackedBlock
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, Operand, const, lookup_bytes
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.dataclass import dataclass
from rlx.ir.block_type import ROUNDED, BlockType
from rlx.ir.ops.packed_int8 import BYTES

_EACH = 0x01010101
_SPREAD = 0x00204081
"""What moves bits 0, 1, 2 and 3 to the lowest bits of four bytes."""
_SIGNS = 0x80808080
_HALF = 128
_SINGLE_CODES = (-_HALF, 255)
"""What is added to the bytes of codes that were computed one by one, and the bits of these."""


@dataclass(frozen=True, slots=True)
class Place:
    """Byte `4 * word + byte + ahead` of a block."""

    word: E
    byte: int = 0
    ahead: int = 0

    def __add__(self, bytes: int) -> Place:
        return replace(self, ahead=self.ahead + bytes)

    __radd__ = __add__

    def __mod__(self, count: int) -> int:
        if count != BYTES:
            raise TypeError(f"a place is known modulo {BYTES} only")
        return (self.byte + self.ahead) % count


@dataclass(frozen=True, slots=True)
class Word:
    """Four codes of every row: unsigned bytes, with what is added to each."""

    bytes: E
    mask: int = 255
    """Bits that a byte may have."""
    bias: int = 0

    def __and__(self, mask: int) -> Word:
        return Word(self.bytes & mask * _EACH, self.mask & mask)

    def __rshift__(self, count: int) -> Word:
        moved, kept = Word(_right(self.bytes, count)), self.mask >> count
        return replace(moved, mask=kept) if self.mask == kept << count else moved & kept

    def __lshift__(self, count: int) -> Word:
        kept = self if self.mask << count <= 255 else self & (255 >> count)
        return Word(kept.bytes << count, kept.mask << count)

    def __or__(self, other: Word) -> Word:
        return Word(self.bytes | other.bytes, self.mask | other.mask)

    def __sub__(self, count: int) -> Word:
        return replace(self, bias=self.bias - count)


def _right(bytes: E, count: int) -> E:
    return bytes >> count if count else bytes


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive elements of a block that share a scale, here and in `x`."""

    first: int
    length: int
    scale: E
    offset: E | None


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """Address of a segment, before its scale is computed."""

    first: int
    length: int
    has_offset: bool


@dataclass(frozen=True, slots=True)
class WordBlock(PackedBlock):
    """A block of each of `lanes` rows, in words; the first are at `base`."""

    loaded: dict[int, E] | None = None
    """Words of scales by their number, once they are loaded."""

    @property
    def lead(self) -> int:
        """Bytes before the block, so that its codes begin with a word."""
        return -self.kind.header % BYTES

    @property
    def multiplies_by_lanes(self) -> bool:
        """True if a product with one word takes it from a lane of a vector, as `sdot` does."""
        return self.memory.prim is Prim.I32

    def segments(self) -> list[Segment]:
        """Compute the scales, each once for as many runs as share it."""
        found: list[Segment] = []
        before: tuple[E, E | None] | None = None
        length = self.kind.length
        scales = self.kind.scales(replace(self, loaded={}))
        for run, (scale, offset) in enumerate(scales):
            same = before is not None and before[0] is scale and before[1] is offset
            if same and run * length % ROUNDED:
                found[-1] = replace(found[-1], length=found[-1].length + length)
                continue
            before = scale, offset
            shared = None if offset is None else self.k.let("offset", offset)
            found.append(Segment(run * length, length, self.k.let("scale", scale), shared))
        return found

    def packed_codes(self, word: E, words: list[E]) -> Iterator[E]:
        """Yield word `word` of the codes of every run, less their bias.

        Bytes of words stored as i32 come out signed, as `sdot` takes them.
        """
        moved = is_moved(self.kind, self.memory)
        for found in self._unsigned_codes(word, words):
            codes = found.bytes ^ _SIGNS if moved else found.bytes
            yield codes.bitcast(Prim.I32) if self.memory.prim is Prim.I32 else codes

    def _unsigned_codes(self, word: E, words: list[E]) -> Iterator[Word]:
        if has_whole_words(self.kind):
            yield from whole_words(self, word)
            return
        places = [self.kind.codes_at(self, Place(word, byte), words) for byte in range(BYTES)]
        for codes in zip(*places, strict=True):
            parts = [((code + _HALF) & 255) << 8 * i for i, code in enumerate(codes)]
            joined = functools.reduce(operator.or_, parts).bitcast(Prim.U32)
            yield Word(self.k.let("codes", joined))

    # What formulas of single codes, and of scales, ask for

    def integer(self, place: E | Place) -> E:
        if isinstance(place, Place):
            return (place.word * BYTES + (place.byte + place.ahead)).cast(Prim.I32)
        return PackedBlock.integer(self, place)

    def _load(self, at: Operand | Place) -> E:
        """Return a byte of every row."""
        word, byte = self.word_at(at)
        return _right(word, 8 * byte).cast(Prim.U8)

    def _bytes(self, at: int, prim: Prim) -> E:
        """Return a field, of one word where it does not span two."""
        word, byte = self.word_at(at)
        if byte + prim.size > BYTES:
            return PackedBlock._bytes(self, at, prim)
        return _right(word, 8 * byte).cast(prim)

    def word_at(self, at: Operand | Place) -> tuple[E, int]:
        """Return the word that holds a byte, and which of its bytes that is."""
        if isinstance(at, Place):
            number, byte = divmod(at.byte + at.ahead + self.lead, BYTES)
            place = at.word + number
        else:
            assert isinstance(at, int)
            number, byte = divmod(at + self.lead, BYTES)
            place = const(number, Prim.I64)
            if self.loaded is not None:
                if number not in self.loaded:
                    self.loaded[number] = self._word(place)
                return self.loaded[number], byte
        return self._word(place), byte

    def _word(self, place: E) -> E:
        loaded = self.k.load(self.memory, self.base + place * self.lanes, self.lanes)
        return self.k.let("word", loaded.bitcast(Prim.U32))


@dataclass(frozen=True, slots=True)
class _WholeWords:
    """The block of a formula that is evaluated on words; anything else it asks for is an error."""

    block: WordBlock

    def byte(self, at: int | Place) -> E | Word:
        if not isinstance(at, Place):
            return self.block.byte(at)
        word, byte = self.block.word_at(at)
        if byte:
            raise TypeError("codes span words")
        return Word(word)

    def signed(self, at: Place) -> Word:
        found = self.byte(at)
        if not isinstance(found, Word):
            raise TypeError("a single code")
        return Word(found.bytes ^ _SIGNS, bias=-_HALF)

    def bit(self, integer: E, place: Place) -> Word:
        four = (integer >> (place.word * BYTES).cast(Prim.I32)) & 15
        return Word(((four * _SPREAD) & _EACH).bitcast(Prim.U32), mask=1)

    def level(self, code: Word, levels: Sequence[int]) -> Word:
        least = min(levels)
        return Word(lookup_bytes([value - least for value in levels], code.bytes), bias=least)

    def __getattr__(self, name: str) -> Any:
        raise TypeError(f"{name} is of one code")


def whole_words(block: WordBlock, word: E) -> list[Word]:
    """Return word `word` of the codes of every run; a TypeError where the formula has no words."""
    if block.kind.codebook is not None:
        raise TypeError("codes are looked up")
    whole: Any = _WholeWords(block)
    codes = block.kind.codes_at(whole, Place(word), [])
    if not all(isinstance(code, Word) for code in codes):
        raise TypeError("codes are no words")
    return list(codes)


@functools.cache
def spans_of(kind: BlockType) -> tuple[SegmentPlace, ...]:
    """Return the addresses of the segments of a block type, without code for their scales."""
    segments = _scratch_block(kind).segments()
    return tuple(SegmentPlace(s.first, s.length, s.offset is not None) for s in segments)


def _scratch_block(kind: BlockType) -> WordBlock:
    """Return a block whose formulas are evaluated for what they return, not for their code."""
    scratch = Buffer("blocks", Prim.U32)
    return WordBlock(KernelBuilder("scratch"), scratch, kind, const(0, Prim.I64), 1)


@functools.cache
def _bias_and_mask(kind: BlockType) -> tuple[int, int] | None:
    """Return what is added to the bytes of whole words, and the bits that these may have.

    None if a formula gives single codes.
    """
    try:
        words = whole_words(_scratch_block(kind), const(0, Prim.I64))
    except TypeError:
        return None
    (bias,) = {word.bias for word in words}
    return bias, max(word.mask for word in words)


def has_whole_words(kind: BlockType) -> bool:
    """True if the formula of a block type gives four codes at once."""
    return _bias_and_mask(kind) is not None


def is_moved(kind: BlockType, memory: Buffer) -> bool:
    """True if all of a type's codes are less by 128 there, for some would be no signed bytes."""
    _, mask = _bias_and_mask(kind) or _SINGLE_CODES
    return memory.prim is Prim.I32 and mask >= _HALF


def bias_of(kind: BlockType, memory: Buffer) -> int:
    """Return what is added to the bytes of a type's words, as `packed_codes` yields them."""
    bias, _ = _bias_and_mask(kind) or _SINGLE_CODES
    return bias + _HALF if is_moved(kind, memory) else bias
