"""Block types whose codes index a table of levels: non-uniform levels, floats, or ternary values.

iq4_nl  iq4_xs  mxfp4  nvfp4  tq1_0  tq2_0
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx.ir.block_type import Block, Number, Scales, declare_block

_IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""Levels of iq4: closer to each other where weights are dense."""

FP4 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""Twice the floats of four bits (E2M1)."""


@declare_block(
    "iq4_nl", 20, elements=32, size=18, runs=2,
    scales=lambda block: [(block.half(0), None)] * 2,
)  # fmt: skip
def _iq4_nl(block: Block, place: Number) -> Sequence[Number]:
    both = block.byte(2 + place)
    return block.level(both & 15, _IQ4), block.level(both >> 4, _IQ4)


def _iq4_xs_scales(block: Block) -> Scales:
    d = block.half(0)

    def scale(part: int) -> Number:
        low = (block.byte(4 + part // 2) >> (4 * (part % 2))) & 15
        high = (block.byte(2 + part // 4) >> (2 * (part % 4))) & 3
        return d * block.number((low | (high << 4)) - 32)

    scales = [scale(part) for part in range(8)]
    return [(scales[run // 2], None) for run in range(16)]


@declare_block("iq4_xs", 23, elements=256, size=136, runs=16, scales=_iq4_xs_scales, header=8)
def _iq4_xs(block: Block, place: Number) -> Sequence[Number]:
    both = [block.byte(8 + 16 * part + place) for part in range(8)]
    codes = [both[run // 2] >> 4 if run % 2 else both[run // 2] & 15 for run in range(16)]
    return [block.level(code, _IQ4) for code in codes]


def _mxfp4_scales(block: Block) -> Scales:
    """A power of two, halved for the doubled floats; the two smallest are subnormal."""
    exponent = block.byte(0)
    normal = ((exponent >> 1) + 127) >> 7
    small = (1 - normal) * 0x00200000 * ((exponent & 1) + 1)
    scale = block.float_of(((exponent - 1) * normal << 23) | small)
    return [(scale, None)] * 2


@declare_block(
    "mxfp4", 39, elements=32, size=17, runs=2, scales=_mxfp4_scales, halves=(), header=1,
)  # fmt: skip
def _mxfp4(block: Block, place: Number) -> Sequence[Number]:
    both = block.byte(1 + place)
    return block.level(both & 15, FP4), block.level(both >> 4, FP4)


def _nvfp4_scales(block: Block) -> Scales:
    """Unsigned floats of eight bits (E4M3), halved for the doubled floats; 127 encodes 0."""

    def scale(part: int) -> Number:
        byte = block.byte(part)
        exponent = (byte >> 3) & 15
        normal = (exponent + 15) >> 4
        known = ((byte ^ 127) + 255) >> 8
        fixed = ((byte & 7) + 8 * normal) << (exponent - normal)
        return block.number(fixed * known) * 2.0**-10

    scales = [scale(part) for part in range(4)]
    return [(scales[run // 2], None) for run in range(8)]


@declare_block("nvfp4", 40, elements=64, size=36, runs=8, scales=_nvfp4_scales, halves=())
def _nvfp4(block: Block, place: Number) -> Sequence[Number]:
    both = [block.byte(4 + 8 * part + place) for part in range(4)]
    codes = [both[run // 2] >> 4 if run % 2 else both[run // 2] & 15 for run in range(8)]
    return [block.level(code, FP4) for code in codes]


def _third(byte: Number, power: Number) -> Number:
    """Return a digit in -1..1 of a byte that holds five of base three."""
    return ((((byte * power) & 255) * 3) >> 8) - 1


@declare_block(
    "tq1_0", 34, elements=256, size=54, runs=16, halves=(52,),
    scales=lambda block: [(block.half(52), None)] * 16,
)  # fmt: skip
def _tq1_0(block: Block, place: Number) -> Sequence[Number]:
    bytes = [block.byte(16 * part + place) for part in range(3)]
    digits = [_third(bytes[run % 2], 3 ** (run // 2)) for run in range(10)]
    digits += [_third(bytes[2], 3**run) for run in range(5)]
    at = block.integer(place)
    last = block.byte(48 + place % 4)
    powers = (at & 0) | 0x1B090301  # 1, 3, 9 and 27, a byte each
    return [*digits, _third(last, (powers >> ((at >> 2) << 3)) & 255)]


@declare_block(
    "tq2_0", 35, elements=256, size=66, runs=16, halves=(64,),
    scales=lambda block: [(block.half(64), None)] * 16,
)  # fmt: skip
def _tq2_0(block: Block, place: Number) -> Sequence[Number]:
    return [
        ((block.byte(32 * (run // 8) + 16 * (run % 2) + place) >> (2 * (run % 8 // 2))) & 3) - 1
        for run in range(16)
    ]
