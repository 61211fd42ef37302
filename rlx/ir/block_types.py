"""Block types: how groups of 32 or 256 weights lie in a few bytes (specification 06, section 8).

A block type states its formula once, over an abstract block. NumPy evaluates it on arrays of
blocks, for the reference interpreter and for files; kernels on the bytes of one block, or of as
many as a vector has lanes. A block is cut into runs of consecutive elements which share a scale:

    element[run * length + place] = scale[run] * code[run](place) + offset[run]

All types of ggml's that are made of codes and scales have this form, with the parentheses that
give equal bits. Multi-byte fields are little-endian.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from rlx.errors import DTypeError

Number: TypeAlias = Any
"""An integer or float of whoever evaluates a formula: an array, or an expression of a kernel."""


class Block(Protocol):
    """The bytes of a block. Integers are 32 bits wide; positions are numbers or such integers."""

    def byte(self, at: Number) -> Number:
        """Return the byte at a position, in 0..255."""

    def signed(self, at: Number) -> Number:
        """Return the byte at a position, in -128..127."""

    def half(self, at: int) -> Number:
        """Return the f16 that starts at a position, as f32."""

    def single(self, at: int) -> Number:
        """Return the f32 that starts at a position."""

    def number(self, integer: Number) -> Number:
        """Return an integer as f32."""

    def integer(self, place: Number) -> Number:
        """Return a place as an integer of 32 bits."""


Scales: TypeAlias = Sequence[tuple[Number, Number | None]]
"""Scale and offset of every run; None for no offset."""


@dataclass(frozen=True, slots=True)
class BlockType:
    """A block of `elements` weights in `size` bytes."""

    name: str
    number: int
    """What GGUF files call the type."""
    elements: int
    size: int
    runs: int
    scales: Callable[[Block], Scales]
    codes: Callable[[Block, Number], Sequence[Number]]
    """The integers at place `place` of every run."""
    halves: tuple[int, ...]
    """Where f16 fields lie, and for `q8_k`, none."""

    @property
    def length(self) -> int:
        """Elements of a run."""
        return self.elements // self.runs

    def row_bytes(self, columns: int) -> int:
        """Return the bytes of a row of so many elements, which must be whole blocks."""
        return columns // self.elements * self.size


BLOCK_TYPES: dict[str, BlockType] = {}
"""Every block type by name. Filled at import, read-only afterwards."""


def block_type(name: str) -> BlockType:
    """Return a block type by name; a DTypeError names the known ones."""
    found = BLOCK_TYPES.get(name)
    if found is None:
        raise DTypeError(
            f"unknown block type {name!r}", remedy=f"use one of: {' '.join(BLOCK_TYPES)}"
        )
    return found


Codes: TypeAlias = Callable[[Block, Number], Sequence[Number]]


def _declare(
    name: str,
    number: int,
    *,
    elements: int,
    size: int,
    runs: int,
    scales: Callable[[Block], Scales],
    halves: tuple[int, ...] = (0,),
) -> Callable[[Codes], Codes]:
    """Declare a block type by the function that gives its codes."""

    def declare(codes: Codes) -> Codes:
        BLOCK_TYPES[name] = BlockType(name, number, elements, size, runs, scales, codes, halves)
        return codes

    return declare


# Blocks of 32: low nibbles hold elements 0..15, high nibbles 16..31


def _one_scale(runs: int) -> Callable[[Block], Scales]:
    return lambda block: [(block.half(0), None)] * runs


def _scale_and_minimum(block: Block) -> Scales:
    return [(block.half(0), block.half(2))] * 2


@_declare("q4_0", 2, elements=32, size=18, runs=2, scales=_one_scale(2))
def _q4_0(block: Block, place: Number) -> Sequence[Number]:
    both = block.byte(2 + place)
    return (both & 15) - 8, (both >> 4) - 8


@_declare("q4_1", 3, elements=32, size=20, runs=2, scales=_scale_and_minimum, halves=(0, 2))
def _q4_1(block: Block, place: Number) -> Sequence[Number]:
    both = block.byte(4 + place)
    return both & 15, both >> 4


def _fifth_bits(block: Block, at: int, place: Number) -> tuple[Number, Number]:
    """Return the fifth bits, as 0 or 16, of the elements at a place of both runs."""
    low = block.byte(at) | (block.byte(at + 1) << 8)
    high = block.byte(at + 2) | (block.byte(at + 3) << 8)
    bit = block.integer(place)
    return ((low >> bit) & 1) << 4, ((high >> bit) & 1) << 4


@_declare("q5_0", 6, elements=32, size=22, runs=2, scales=_one_scale(2))
def _q5_0(block: Block, place: Number) -> Sequence[Number]:
    low, high = _fifth_bits(block, 2, place)
    both = block.byte(6 + place)
    return ((both & 15) | low) - 16, ((both >> 4) | high) - 16


@_declare("q5_1", 7, elements=32, size=24, runs=2, scales=_scale_and_minimum, halves=(0, 2))
def _q5_1(block: Block, place: Number) -> Sequence[Number]:
    low, high = _fifth_bits(block, 4, place)
    both = block.byte(8 + place)
    return (both & 15) | low, (both >> 4) | high


@_declare("q8_0", 8, elements=32, size=34, runs=4, scales=_one_scale(4))
def _q8_0(block: Block, place: Number) -> Sequence[Number]:
    return [block.signed(2 + 8 * run + place) for run in range(4)]


# Blocks of 256, whose runs have small integers as scales


def _q2_k_scales(block: Block) -> Scales:
    d, dmin = block.half(80), block.half(82)
    both = [block.byte(run) for run in range(16)]
    return [(d * block.number(b & 15), -(dmin * block.number(b >> 4))) for b in both]


def _pairs(block: Block, at: int, place: Number) -> Sequence[Number]:
    """Return two bits of every run of 16, from 64 bytes."""
    return [
        (block.byte(at + 32 * (run // 8) + 16 * (run % 2) + place) >> (2 * (run % 8 // 2))) & 3
        for run in range(16)
    ]


@_declare("q2_k", 10, elements=256, size=84, runs=16, scales=_q2_k_scales, halves=(80, 82))
def _q2_k(block: Block, place: Number) -> Sequence[Number]:
    return _pairs(block, 16, place)


def _q3_k_scales(block: Block) -> Scales:
    d = block.half(108)

    def scale(run: int) -> Number:
        low = (block.byte(96 + run % 8) >> (4 * (run // 8))) & 15
        high = (block.byte(104 + run % 4) >> (2 * (run // 4))) & 3
        return d * block.number((low | (high << 4)) - 32)

    return [(scale(run), None) for run in range(16)]


@_declare("q3_k", 11, elements=256, size=110, runs=16, scales=_q3_k_scales, halves=(108,))
def _q3_k(block: Block, place: Number) -> Sequence[Number]:
    masks = [block.byte(place), block.byte(16 + place)]
    return [
        (low | (((masks[run % 2] >> (run // 2)) & 1) << 2)) - 4
        for run, low in enumerate(_pairs(block, 32, place))
    ]


def _six_bit_scales(block: Block) -> Scales:
    """Eight scales and minima of six bits, in twelve bytes."""
    d, dmin = block.half(0), block.half(2)
    c = [block.byte(4 + i) for i in range(12)]
    scales = [c[j] & 63 for j in range(4)]
    scales += [(c[j + 4] & 15) | ((c[j - 4] >> 6) << 4) for j in range(4, 8)]
    minima = [c[j + 4] & 63 for j in range(4)]
    minima += [(c[j + 4] >> 4) | ((c[j] >> 6) << 4) for j in range(4, 8)]
    return [
        (d * block.number(s), -(dmin * block.number(m)))
        for s, m in zip(scales, minima, strict=True)
    ]


def _nibbles(block: Block, at: int, place: Number) -> Sequence[Number]:
    """Return four bits of every run of 32, from 128 bytes."""
    both = [block.byte(at + 32 * pair + place) for pair in range(4)]
    return [(both[run // 2] >> 4) if run % 2 else (both[run // 2] & 15) for run in range(8)]


@_declare("q4_k", 12, elements=256, size=144, runs=8, scales=_six_bit_scales, halves=(0, 2))
def _q4_k(block: Block, place: Number) -> Sequence[Number]:
    return _nibbles(block, 16, place)


@_declare("q5_k", 13, elements=256, size=176, runs=8, scales=_six_bit_scales, halves=(0, 2))
def _q5_k(block: Block, place: Number) -> Sequence[Number]:
    high = block.byte(16 + place)
    return [low | (((high >> run) & 1) << 4) for run, low in enumerate(_nibbles(block, 48, place))]


def _q6_k_scales(block: Block) -> Scales:
    d = block.half(208)
    return [(d * block.number(block.signed(192 + run)), None) for run in range(16)]


@_declare("q6_k", 14, elements=256, size=210, runs=16, scales=_q6_k_scales, halves=(208,))
def _q6_k(block: Block, place: Number) -> Sequence[Number]:
    def code(run: int) -> Number:
        half, group, odd = run // 8, run % 8 // 2, run % 2
        low = block.byte(64 * half + 32 * (group % 2) + 16 * odd + place)
        low = (low >> 4) if group >= 2 else (low & 15)
        high = (block.byte(128 + 32 * half + 16 * odd + place) >> (2 * group)) & 3
        return (low | (high << 4)) - 32

    return [code(run) for run in range(16)]


def _q8_k_scales(block: Block) -> Scales:
    return [(block.single(0), None)] * 8


@_declare("q8_k", 15, elements=256, size=292, runs=8, scales=_q8_k_scales, halves=())
def _q8_k(block: Block, place: Number) -> Sequence[Number]:
    return [block.signed(4 + 32 * run + place) for run in range(8)]
