"""Codes of packed weights as floats that are made of bits, for vectors of 16 lanes.

The code in some bits of a word is masked where it is, put into the fraction of a power of two, and
that power is subtracted, which is exact:

    (word & 0xF0) | bits of 2^19  =  bits of 2^19 + code
    2^19 + code - 2^19            =  code

A bias of the code is part of what is subtracted. AVX-512 masks and joins in one instruction, so
that a code takes two; a mask or a shift, the bias and a conversion are three.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rlx.codegen.kernels.packed.blocks import PackedBlock
from rlx.codegen.kernels.packed.words import bias_of, has_whole_words
from rlx.codegen.loops.expr import E, Operand
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.dataclass import dataclass
from rlx.ir.block_type import BlockType

_FRACTION = 23
"""Bits of the fraction of an f32."""
_EXPONENT = 127
"""Of 1, as the bits of an f32 have it."""
_LANES = 16


@dataclass(frozen=True, slots=True)
class Bits:
    """A code of every row: `((word & mask) >> at) + bias`."""

    word: E
    mask: int = 255
    at: int = 0
    bias: int = 0

    def __and__(self, mask: int) -> Bits:
        return replace(self, mask=self.mask & (mask << self.at))

    def __rshift__(self, count: int) -> Bits:
        at = self.at + count
        return replace(self, mask=self.mask >> at << at, at=at)

    def __lshift__(self, count: int) -> Bits:
        least = self._moved_to(max(self.at, count))
        return replace(least, at=least.at - count)

    def __or__(self, other: Bits) -> Bits:
        word, moved = self.word & self.mask, other._moved_to(self.at)
        return Bits(word | (moved.word & moved.mask), self.mask | moved.mask, self.at)

    def __sub__(self, count: int) -> Bits:
        return replace(self, bias=self.bias - count)

    def _moved_to(self, at: int) -> Bits:
        """Return the same code with its lowest bit at another place."""
        up = at - self.at
        if up >= 0:
            return Bits(self.word << up if up else self.word, self.mask << up, at, self.bias)
        return Bits(self.word >> -up, self.mask >> -up, at, self.bias)

    def integer(self) -> E:
        """Return the code as an integer."""
        masked = self.word & self.mask
        return (masked >> self.at if self.at else masked) + self.bias

    def number(self) -> E:
        """Return the code as f32."""
        power = _FRACTION - self.at
        bits = (self.word & self.mask) | ((_EXPONENT + power) << _FRACTION)
        return bits.bitcast(Prim.F32) - float((1 << power) - self.bias)


@dataclass(frozen=True, slots=True)
class BitBlock(PackedBlock):
    """A block of a type whose formula masks, shifts and joins bits."""

    def codes(self, place: E, words: list[E]) -> Iterator[E]:
        """Return the codes at a place of every run, as f32."""
        formula: Any = _Formula(self)
        for code in self.kind.codes_at(formula, place, words):
            yield code.number() if isinstance(code, Bits) else code.cast(Prim.F32)


@dataclass(frozen=True, slots=True)
class _Formula:
    """What the formula of the codes asks a block for."""

    block: BitBlock

    def byte(self, at: Operand) -> Bits:
        return Bits(self.block.byte(at))

    def signed(self, at: Operand) -> E:
        return self.block.signed(at)

    def bit(self, code: Bits, place: E) -> Bits:
        return Bits(self.block.bit(code.integer(), place), mask=1)

    def level(self, code: Bits, levels: Sequence[int]) -> E:
        return self.block.level(code.integer(), levels)

    def integer(self, place: E) -> E:
        return self.block.integer(place)


@functools.cache
def takes_bits(kind: BlockType, lanes: int) -> bool:
    """True if a product with one row is faster by bits: where codes of small blocks are biased.

    Codes that need no bias are as fast as integers, codes of six bits faster, and several rows
    share what a code takes.
    """
    is_small = lanes == _LANES and kind.runs == 2 and has_whole_words(kind)
    return is_small and bias_of(kind, Buffer("", Prim.U8)) != 0
