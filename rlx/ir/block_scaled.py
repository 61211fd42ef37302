"""Block types of weights that are stored as integer codes with separate scales.

    int8/32  int8a/32  int4/32  fp8e4m3  fp8e5m2  nvfp4/16

A pass lays codes, scales and zero points of params together as rows of such blocks; what scales a
whole column or tensor stays outside. The number is how many rows of the matrix share a scale.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from rlx.ir.block_codes import FP4
from rlx.ir.block_type import (
    BLOCK_FAMILIES,
    SCALED_BLOCKS,
    Block,
    BlockType,
    Codes,
    Number,
    Scales,
)

_SCALE, _BOTH = 4, 8
"""Bytes of a scale, and of scale and zero point."""

FP8_BLOCK = 32
"""Codes of a block without scale: any number would do."""


def _scales_in_front(block: Block, *, runs: int) -> Scales:
    return [(block.single(0), None)] * runs


def _ones(block: Block, *, runs: int) -> Scales:
    return [(block.number((block.byte(0) & 0) | 1), None)] * runs


def float8(block: Block, byte: Number, *, wide: bool) -> Number:
    """Return the float of eight bits (E4M3, or `wide`: E5M2), by way of f16."""
    if wide:
        return block.half_of(byte << 8)
    magnitude = byte & 127
    nan = ((magnitude + 1) >> 7) * 0x7E00
    bits = ((byte >> 7) << 15) | (magnitude << 7) | nan
    return block.half_of(bits) * 256.0


def _int8(size: int) -> BlockType:
    def codes(block: Block, place: Number) -> Sequence[Number]:
        return [block.signed(_SCALE + place)]

    return _family(f"int8/{size}", size, _SCALE + size, 1, codes)


def _int8_with_zero(size: int) -> BlockType:
    def codes(block: Block, place: Number) -> Sequence[Number]:
        return [block.number(block.signed(_BOTH + place)) - block.single(_SCALE)]

    return _family(f"int8a/{size}", size, _BOTH + size, 1, codes)


def _int4(size: int) -> BlockType:
    """The first half of the codes in low nibbles."""

    def codes(block: Block, place: Number) -> Sequence[Number]:
        both, zero = block.byte(_BOTH + place), block.single(_SCALE)
        return [block.number(both & 15) - zero, block.number(both >> 4) - zero]

    return _family(f"int4/{size}", size, _BOTH + size // 2, 2, codes)


def _fp8(name: str, *, wide: bool) -> BlockType:
    def codes(block: Block, place: Number) -> Sequence[Number]:
        return [float8(block, block.byte(place), wide=wide)]

    scales = functools.partial(_ones, runs=1)
    return BlockType(name, SCALED_BLOCKS, FP8_BLOCK, FP8_BLOCK, 1, scales, codes, ())


def _nvfp4(size: int) -> BlockType:
    """Floats of four bits; the scale is one of eight, whose NaN counts as 0."""

    def scales(block: Block) -> Scales:
        byte = block.byte(0)
        known = byte * (1 - (((byte & 127) + 1) >> 7))
        return [(float8(block, known, wide=False) * 0.5, None)] * 2

    def codes(block: Block, place: Number) -> Sequence[Number]:
        both = block.byte(1 + place)
        return block.level(both & 15, FP4), block.level(both >> 4, FP4)

    return BlockType(f"nvfp4/{size}", SCALED_BLOCKS, size, 1 + size // 2, 2, scales, codes, ())


def _family(name: str, elements: int, size: int, runs: int, codes: Codes) -> BlockType:
    scales = functools.partial(_scales_in_front, runs=runs)
    return BlockType(name, SCALED_BLOCKS, elements, size, runs, scales, codes, ())


BLOCK_FAMILIES |= {
    "int8": _int8,
    "int8a": _int8_with_zero,
    "int4": _int4,
    "fp8e4m3": lambda _: _fp8("fp8e4m3", wide=False),
    "fp8e5m2": lambda _: _fp8("fp8e5m2", wide=True),
    "nvfp4": _nvfp4,
}
