"""Block types decode to known values and to those of the `gguf` package."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.errors import DTypeError
from rlx.ir.block_decoding import decode_blocks
from rlx.ir.block_types import BLOCK_TYPES, block_type

GOLDENS = {
    "q4_0": ((-3, 2, -3, -3, 0), -21, -518),
    "q4_1": ((15.5, 4.5, 9.5, 10.5, 12.5), 261, 4247),
    "q5_0": ((9, -2, 14, 14, 1), 15, 112),
    "q5_1": ((19.5, 24.5, 19.5, 3.5, 5.5), 521, 8165),
    "q8_0": ((85, 122, -91, -85, -48), -176, -8080),
    "q2_k": ((33, 0, 7.5, 4.5, 4.5), 2059, 243130),
    "q3_k": ((81, -108, 2, -28, 42), 958, 177145),
    "q4_k": ((315.5, -25.5, 423, 36.5, 48.5), 54440, 7572840),
    "q5_k": ((811.5, -25.5, 1047, 96.5, 108.5), 116216, 16027448),
    "q6_k": ((-1431, 1696, -351, -40, -60), 4612, 784420),
    "q8_k": ((-24.25, -15, 7.75, 21.25, 30.5), -32, 11360),
}


def golden_block(name: str) -> NDArray[np.uint8]:
    """Bytes `37 i + 11`, with 1 and 0.5 as scales."""
    kind = BLOCK_TYPES[name]
    block = ((37 * np.arange(kind.size) + 11) % 256).astype(np.uint8)
    for at, value in zip(kind.halves, (1.0, 0.5), strict=False):
        block[at : at + 2] = np.array([value], "<f2").view(np.uint8)
    if not kind.halves:
        block[:4] = np.array([0.25], "<f4").view(np.uint8)
    return block


def random_blocks(name: str, count: int, seed: int) -> NDArray[np.uint8]:
    """Random bytes with finite scales."""
    kind, rng = BLOCK_TYPES[name], np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (count, kind.size), dtype=np.uint8)
    for at in kind.halves:
        scales = rng.standard_normal((count, 1)).astype("<f2")
        blocks[:, at : at + 2] = scales.view(np.uint8)
    if name == "iq1_m":
        blocks[:, 55] &= 0xBF  # the scale's exponent
    elif name == "q8_k":
        blocks[:, :4] = rng.standard_normal((count, 1)).astype("<f4").view(np.uint8)
    return blocks


@pytest.mark.parametrize("name", GOLDENS)
def test_golden_blocks_decode_exactly(name: str) -> None:
    values, total, weighted = GOLDENS[name]
    y = decode_blocks(golden_block(name), BLOCK_TYPES[name]).astype(np.float64)
    n = len(y)
    assert tuple(y[[0, 1, n // 2, n - 2, n - 1]]) == values
    assert y.sum() == total
    assert (y * np.arange(1, n + 1)).sum() == weighted


@pytest.mark.parametrize("name", [name for name in BLOCK_TYPES if name != "q8_k"])
def test_random_blocks_decode_as_the_gguf_package_does(name: str) -> None:
    gguf: Any = pytest.importorskip("gguf")
    blocks = random_blocks(name, 300, seed=1)
    theirs = gguf.dequantize(blocks, gguf.GGMLQuantizationType(BLOCK_TYPES[name].number))
    ours = decode_blocks(blocks, BLOCK_TYPES[name])
    np.testing.assert_array_equal(ours.view(np.uint32), theirs.view(np.uint32))


def test_q6_k_scales_are_signed() -> None:
    block = np.zeros(210, np.uint8)
    block[192:208] = 0xFF  # scales of -1
    block[208:210] = np.array([1.0], "<f2").view(np.uint8)
    assert (decode_blocks(block, BLOCK_TYPES["q6_k"]) == 32.0).all()  # -1 * (0 - 32)


def test_q2_k_scales_come_first() -> None:
    block = np.concatenate([np.ones(16), np.full(64, 255), np.zeros(4)]).astype(np.uint8)
    block[80:82] = np.array([1.0], "<f2").view(np.uint8)
    assert (decode_blocks(block, BLOCK_TYPES["q2_k"]) == 3.0).all()


def test_rows_keep_their_axes() -> None:
    blocks = random_blocks("q4_1", 12, seed=2)
    rows = decode_blocks(blocks.reshape(2, 3, 40), BLOCK_TYPES["q4_1"])
    assert rows.shape == (2, 3, 64)
    np.testing.assert_array_equal(rows.reshape(12, 32), decode_blocks(blocks, BLOCK_TYPES["q4_1"]))


def test_an_unknown_block_type_is_refused() -> None:
    with pytest.raises(DTypeError, match="unknown block type 'q4_7'"):
        block_type("q4_7")
