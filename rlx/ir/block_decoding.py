"""Decoding of blocks with NumPy: the formulas of `block_types` on many blocks at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.ir.block_type import BlockType
from rlx.ir.codebooks import codebook

_BLOCKS_AT_ONCE = 1 << 14
"""Blocks decoded at a time, so that what is between bytes and floats stays in the cache."""


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Blocks as rows of bytes; every number is an array of one row per block."""

    rows: NDArray[np.uint8]

    def byte(self, at: Any) -> NDArray[np.int32]:
        return self._columns(self.rows, at).astype(np.int32)

    def signed(self, at: Any) -> NDArray[np.int32]:
        return self._columns(self.rows.view(np.int8), at).astype(np.int32)

    def half(self, at: int) -> NDArray[np.float32]:
        return self._field(at, 2).view("<f2").astype(np.float32)

    def single(self, at: int) -> NDArray[np.float32]:
        return self._field(at, 4).view("<f4").astype(np.float32)

    def number(self, integer: NDArray[np.int32]) -> NDArray[np.float32]:
        return integer.astype(np.float32)

    def integer(self, place: NDArray[np.int64]) -> NDArray[np.int32]:
        return place.astype(np.int32)

    def bit(self, integer: NDArray[np.int32], place: NDArray[np.int64]) -> NDArray[np.int32]:
        bit: NDArray[np.int32] = (integer >> self.integer(place)) & 1
        return bit

    def level(self, code: NDArray[np.int32], levels: Sequence[int]) -> NDArray[np.int32]:
        return np.array(levels, np.int32)[code]

    def half_of(self, bits: NDArray[np.int32]) -> NDArray[np.float32]:
        return bits.astype(np.uint16).view(np.float16).astype(np.float32)

    def float_of(self, bits: NDArray[np.int32]) -> NDArray[np.float32]:
        return bits.astype(np.int32).view(np.float32)

    def _columns(self, rows: NDArray[Any], at: Any) -> NDArray[Any]:
        return rows[:, np.atleast_1d(at)]

    def _field(self, at: int, size: int) -> NDArray[np.uint8]:
        return np.ascontiguousarray(self.rows[:, at : at + size])


def decode_blocks(packed: NDArray[np.uint8], kind: BlockType) -> NDArray[np.float32]:
    """Decode `[..., bytes]`, rows of whole blocks, to `[..., elements]`."""
    rows = packed.reshape(-1, kind.size)
    result = np.empty((len(rows), kind.elements), np.float32)
    with np.errstate(invalid="ignore", over="ignore"):  # a damaged scale is not finite
        for start in range(0, len(rows), _BLOCKS_AT_ONCE):
            part = slice(start, start + _BLOCKS_AT_ONCE)
            _decode(_Blocks(rows[part]), kind, result[part])
    columns = packed.shape[-1] // kind.size * kind.elements
    return result.reshape(*packed.shape[:-1], columns)


def _decode(blocks: _Blocks, kind: BlockType, result: NDArray[np.float32]) -> None:
    codes = kind.codes_at(blocks, np.arange(kind.length), _words(blocks, kind))
    for run, (code, (scale, offset)) in enumerate(zip(codes, kind.scales(blocks), strict=True)):
        value = scale * blocks.number(code)
        start = run * kind.length
        result[:, start : start + kind.length] = value if offset is None else value + offset


def _words(blocks: _Blocks, kind: BlockType) -> list[NDArray[np.int32]]:
    """Look up the words that the codes are made of."""
    if kind.codebook is None:
        return []
    book = codebook(kind.codebook)
    return [book[index] | (above << 16) for index, above in kind.lookups_of(blocks)]
