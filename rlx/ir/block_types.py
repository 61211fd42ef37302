"""Every block type of ggml's: those of codes and scales here, IQ, TQ and FP4 in `block_codes`.

See `rlx.ir.block_type` for what a type states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rlx.ir import block_codes as block_codes
from rlx.ir import block_groups as block_groups
from rlx.ir import block_scaled as block_scaled
from rlx.ir.block_type import BLOCK_TYPES as BLOCK_TYPES
from rlx.ir.block_type import Block, Number, Scales, declare_block
from rlx.ir.block_type import BlockType as BlockType
from rlx.ir.block_type import block_type as block_type

# Blocks of 32: low nibbles hold elements 0..15, high nibbles 16..31


def _one_scale(runs: int) -> Callable[[Block], Scales]:
    return lambda block: [(block.half(0), None)] * runs


def _scale_and_minimum(block: Block) -> Scales:
    return [(block.half(0), block.half(2))] * 2


@declare_block("q4_0", 2, elements=32, size=18, runs=2, scales=_one_scale(2))
def _q4_0(block: Block, place: Number) -> Sequence[Number]:
    both = block.byte(2 + place)
    return (both & 15) - 8, (both >> 4) - 8


@declare_block("q4_1", 3, elements=32, size=20, runs=2, scales=_scale_and_minimum, halves=(0, 2))
def _q4_1(block: Block, place: Number) -> Sequence[Number]:
    both = block.byte(4 + place)
    return both & 15, both >> 4


def _fifth_bits(block: Block, at: int, place: Number) -> tuple[Number, Number]:
    """Return the fifth bits, as 0 or 16, of the elements at a place of both runs."""
    low = block.byte(at) | (block.byte(at + 1) << 8)
    high = block.byte(at + 2) | (block.byte(at + 3) << 8)
    return block.bit(low, place) << 4, block.bit(high, place) << 4


@declare_block("q5_0", 6, elements=32, size=22, runs=2, scales=_one_scale(2))
def _q5_0(block: Block, place: Number) -> Sequence[Number]:
    low, high = _fifth_bits(block, 2, place)
    both = block.byte(6 + place)
    return ((both & 15) | low) - 16, ((both >> 4) | high) - 16


@declare_block("q5_1", 7, elements=32, size=24, runs=2, scales=_scale_and_minimum, halves=(0, 2))
def _q5_1(block: Block, place: Number) -> Sequence[Number]:
    low, high = _fifth_bits(block, 4, place)
    both = block.byte(8 + place)
    return (both & 15) | low, (both >> 4) | high


@declare_block("q8_0", 8, elements=32, size=34, runs=4, scales=_one_scale(4))
def _q8_0(block: Block, place: Number) -> Sequence[Number]:
    return [block.signed(2 + 8 * run + place) for run in range(4)]


# Blocks of 256, whose runs have small integers as scales


def _q2_k_scales(block: Block) -> Scales:
    d, negative = block.half(80), -block.half(82)
    both = [block.byte(run) for run in range(16)]
    return [(d * block.number(b & 15), negative * block.number(b >> 4)) for b in both]


def _pairs(block: Block, at: int, place: Number) -> Sequence[Number]:
    """Return two bits of every run of 16, from 64 bytes."""
    return [
        (block.byte(at + 32 * (run // 8) + 16 * (run % 2) + place) >> (2 * (run % 8 // 2))) & 3
        for run in range(16)
    ]


@declare_block("q2_k", 10, elements=256, size=84, runs=16, scales=_q2_k_scales, halves=(80, 82))
def _q2_k(block: Block, place: Number) -> Sequence[Number]:
    return _pairs(block, 16, place)


def _q3_k_scales(block: Block) -> Scales:
    d = block.half(108)

    def scale(run: int) -> Number:
        low = (block.byte(96 + run % 8) >> (4 * (run // 8))) & 15
        high = (block.byte(104 + run % 4) >> (2 * (run // 4))) & 3
        return d * block.number((low | (high << 4)) - 32)

    return [(scale(run), None) for run in range(16)]


@declare_block("q3_k", 11, elements=256, size=110, runs=16, scales=_q3_k_scales, halves=(108,))
def _q3_k(block: Block, place: Number) -> Sequence[Number]:
    masks = [block.byte(place), block.byte(16 + place)]
    return [
        (low | (((masks[run % 2] >> (run // 2)) & 1) << 2)) - 4
        for run, low in enumerate(_pairs(block, 32, place))
    ]


def _six_bit_scales(block: Block) -> Scales:
    """Eight scales and minima of six bits, in twelve bytes."""
    d, negative = block.half(0), -block.half(2)
    c = [block.byte(4 + i) for i in range(12)]
    scales = [c[j] & 63 for j in range(4)]
    scales += [(c[j + 4] & 15) | ((c[j - 4] >> 6) << 4) for j in range(4, 8)]
    minima = [c[j + 4] & 63 for j in range(4)]
    minima += [(c[j + 4] >> 4) | ((c[j] >> 6) << 4) for j in range(4, 8)]
    return [
        (d * block.number(s), negative * block.number(m))
        for s, m in zip(scales, minima, strict=True)
    ]


def _nibbles(block: Block, at: int, place: Number) -> Sequence[Number]:
    """Return four bits of every run of 32, from 128 bytes."""
    both = [block.byte(at + 32 * pair + place) for pair in range(4)]
    return [(both[run // 2] >> 4) if run % 2 else (both[run // 2] & 15) for run in range(8)]


@declare_block("q4_k", 12, elements=256, size=144, runs=8, scales=_six_bit_scales, halves=(0, 2))
def _q4_k(block: Block, place: Number) -> Sequence[Number]:
    return _nibbles(block, 16, place)


@declare_block("q5_k", 13, elements=256, size=176, runs=8, scales=_six_bit_scales, halves=(0, 2))
def _q5_k(block: Block, place: Number) -> Sequence[Number]:
    high = block.byte(16 + place)
    return [low | (((high >> run) & 1) << 4) for run, low in enumerate(_nibbles(block, 48, place))]


def _q6_k_scales(block: Block) -> Scales:
    d = block.half(208)
    return [(d * block.number(block.signed(192 + run)), None) for run in range(16)]


@declare_block("q6_k", 14, elements=256, size=210, runs=16, scales=_q6_k_scales, halves=(208,))
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


@declare_block("q8_k", 15, elements=256, size=292, runs=8, scales=_q8_k_scales, halves=())
def _q8_k(block: Block, place: Number) -> Sequence[Number]:
    return [block.signed(4 + 32 * run + place) for run in range(8)]
