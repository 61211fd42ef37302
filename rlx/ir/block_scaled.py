"""Block types of weights that are stored as integer codes with separate scales.

    int8/32  int8a/32  int4/32  uint4/32  uint4a/32  fp8e4m3  fp8e5m2  nvfp4/16

A pass lays codes, scales and zero points of params together as rows of such blocks; what scales a
whole column or tensor stays outside. The number is how many rows of the matrix share a scale.
For products with rows of eight bits, blocks of 16, or of a multiple of 32, are read as integers:
there a zero point is an offset, which costs digits where codes mean zero.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from rlx.ir.block_codes import FP4
from rlx.ir.block_type import (
    BLOCK_FAMILIES,
    ROUNDED,
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

    name = f"int8/{size}"
    integers = functools.partial(_as_integers, name, size, bits=8, zero=False)
    return _family(name, size, _SCALE + size, 1, codes, integers)


def _int8_with_zero(size: int) -> BlockType:
    def codes(block: Block, place: Number) -> Sequence[Number]:
        return [block.number(block.signed(_BOTH + place)) - block.single(_SCALE)]

    name = f"int8a/{size}"
    integers = functools.partial(_as_integers, name, size, bits=8, zero=True)
    return _family(name, size, _BOTH + size, 1, codes, integers)


def _int4(size: int, family: str = "int4") -> BlockType:
    """The first half of the codes in low nibbles."""

    def codes(block: Block, place: Number) -> Sequence[Number]:
        both, zero = block.byte(_BOTH + place), block.single(_SCALE)
        return [block.number(both & 15) - zero, block.number(both >> 4) - zero]

    name = f"{family}/{size}"
    integers = functools.partial(_as_integers, name, size, bits=4, zero=True)
    return _family(name, size, _BOTH + size // 2, 2, codes, integers)


def _uint4(size: int) -> BlockType:
    """As int4, with 8 for the zero point of all."""

    def codes(block: Block, place: Number) -> Sequence[Number]:
        both = block.byte(_SCALE + place)
        return [(both & 15) - 8, (both >> 4) - 8]

    name = f"uint4/{size}"
    integers = functools.partial(_as_integers, name, size, bits=4, zero=False)
    return _family(name, size, _SCALE + size // 2, 2, codes, integers)


def _as_integers(name: str, size: int, *, bits: int, zero: bool) -> BlockType | None:
    """Return the type of the same bytes whose codes are integers, in runs of at most 32.

    Two blocks of 16 are one, since rows of eight bits have a scale for 32 elements.
    """
    blocks = 2 if size == ROUNDED // 2 else 1
    if size * blocks % ROUNDED:
        return None
    per_byte, header = 8 // bits, _BOTH if zero else _SCALE
    length = min(ROUNDED, size // per_byte)
    each, runs = header + size // per_byte, size // length
    per_part = runs // per_byte

    def scales(block: Block) -> Scales:
        found: list[tuple[Number, Number | None]] = []
        for start in range(0, blocks * each, each):
            scale = block.single(start)
            offset = -(scale * block.single(start + _SCALE)) if zero else None
            found += [(scale, offset)] * runs
        return found

    def codes(block: Block, place: Number) -> Sequence[Number]:
        found: list[Number] = []
        for start in range(header, blocks * each, each):
            places = [start + length * part + place for part in range(per_part)]
            if bits == 8:
                found += [block.signed(at) for at in places]
                continue
            both = [block.byte(at) for at in places]
            nibbles = [byte & 15 for byte in both] + [byte >> 4 for byte in both]
            found += nibbles if zero else [code - 8 for code in nibbles]
        return found

    return BlockType(
        name, SCALED_BLOCKS, blocks * size, blocks * each, blocks * runs, scales, codes, (),
        front=header,
    )  # fmt: skip


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


def _family(
    name: str, elements: int, size: int, runs: int, codes: Codes,
    integers: Callable[[], BlockType | None],
) -> BlockType:  # fmt: skip
    scales = functools.partial(_scales_in_front, runs=runs)
    return BlockType(
        name, SCALED_BLOCKS, elements, size, runs, scales, codes, (), integers=integers
    )


BLOCK_FAMILIES |= {
    "int8": _int8,
    "int8a": _int8_with_zero,
    "int4": _int4,
    "uint4": _uint4,
    "uint4a": functools.partial(_int4, family="uint4a"),
    "fp8e4m3": lambda _: _fp8("fp8e4m3", wide=False),
    "fp8e5m2": lambda _: _fp8("fp8e5m2", wide=True),
    "nvfp4": _nvfp4,
}
