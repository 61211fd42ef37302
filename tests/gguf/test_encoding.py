"""Encoders: bytes of the `gguf` package where it has an encoder, and errors within bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.errors import InputError, ShapeError, UnsupportedError
from rlx.gguf import encode
from rlx.ir.block_decoding import decode_blocks
from rlx.ir.block_types import BLOCK_TYPES

BOUNDS = {
    "q8_0": 0.01, "q5_1": 0.05, "q5_0": 0.055, "q4_1": 0.10, "q4_0": 0.11, "q8_k": 0.01,
    "q6_k": 0.025, "q5_k": 0.05, "q4_k": 0.10, "q3_k": 0.20, "q2_k": 0.40,
}  # fmt: skip
"""Relative errors of normal weights."""
OF_GGUF = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "tq1_0", "tq2_0", "mxfp4")
"""Types that the `gguf` package encodes."""
ENCODED = [*BOUNDS, "tq1_0", "tq2_0", "mxfp4"]


@pytest.mark.parametrize("name", BOUNDS)
def test_errors_stay_within_their_bounds(name: str) -> None:
    x = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)
    y = decode_blocks(encode(x, name), BLOCK_TYPES[name])
    error = np.sqrt(np.mean((x - y) ** 2) / np.mean(x**2))
    assert error < BOUNDS[name]


@pytest.mark.parametrize("name", OF_GGUF)
def test_blocks_are_the_bytes_of_the_gguf_package(name: str) -> None:
    gguf: Any = pytest.importorskip("gguf")
    x = np.random.default_rng(1).standard_normal((200, 256)).astype(np.float32)
    x[0] = 0.0
    x[1] = np.repeat([1.0, -1.0], 128)
    theirs = gguf.quantize(x, gguf.GGMLQuantizationType(BLOCK_TYPES[name].number))
    np.testing.assert_array_equal(encode(x, name), theirs)


@pytest.mark.parametrize("name", ENCODED)
def test_zeros_are_coded_exactly(name: str) -> None:
    zeros = np.zeros((2, 256), np.float32)
    assert not decode_blocks(encode(zeros, name), BLOCK_TYPES[name]).any()


def test_types_without_an_encoder_are_named() -> None:
    with pytest.raises(UnsupportedError, match="cannot be encoded as iq2_s, only decoded"):
        encode(np.zeros((2, 256), np.float32), "iq2_s")


def test_rows_must_be_whole_blocks() -> None:
    with pytest.raises(ShapeError, match="whole blocks of 32"):
        encode(np.zeros((2, 33), np.float32), "q4_0")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_must_be_finite(bad: float) -> None:
    with pytest.raises(InputError, match="not finite"):
        encode(np.full((1, 32), bad, np.float32), "q8_0")


def test_a_scale_beyond_f16_is_refused() -> None:
    with pytest.raises(InputError, match="beyond the largest f16"):
        encode(np.full((1, 32), 1e30, np.float32), "q8_0")
