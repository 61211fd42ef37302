"""Rope tables have the frequencies of transformers for every kind of scaling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlx.errors import FormatError, UnsupportedError
from rlx.gguf import GgufFile, read
from rlx.language.config import DecoderConfig
from rlx.language.rope import rope_tables
from tests.gguf.files import f32, gguf_file
from tests.language.tiny import HEAD_DIM, HEADS, HIDDEN, VOCABULARY, metadata

ORIGINAL, CONTEXT = 64, 48
YARN = {
    "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": ORIGINAL,
}  # fmt: skip


def file_of(path: Path, factors: Any = None, **more: Any) -> GgufFile:
    tensors = {"token_embd.weight": f32(np.zeros((VOCABULARY, HIDDEN)))}
    if factors is not None:
        tensors["rope_freqs.weight"] = f32(factors)
    path.write_bytes(gguf_file(metadata("llama", **more), tensors))
    return read(path)


def transformers_rope(parameters: dict[str, Any]) -> tuple[Any, float]:
    """Return inverse frequencies and what cosines are multiplied by."""
    transformers: Any = pytest.importorskip("transformers")
    rope = pytest.importorskip("transformers.modeling_rope_utils")
    config = transformers.LlamaConfig(
        hidden_size=HIDDEN, num_attention_heads=HEADS, head_dim=HEAD_DIM,
        max_position_embeddings=4 * ORIGINAL,
        rope_parameters={"rope_theta": 10000.0, **parameters},
    )  # fmt: skip
    found, magnitude = rope.ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, "cpu")
    return found.numpy(), magnitude


def check(file: GgufFile, frequencies: Any, magnitude: float) -> None:
    angles = np.arange(CONTEXT)[:, None] * frequencies.astype(np.float64)
    cosines, sines = rope_tables(DecoderConfig.of(file), CONTEXT, file)
    np.testing.assert_allclose(cosines, np.cos(angles) * magnitude, atol=2e-5)
    np.testing.assert_allclose(sines, np.sin(angles) * magnitude, atol=2e-5)


def test_linear_scaling(tmp_path: Path) -> None:
    expected = transformers_rope({"rope_type": "linear", "factor": 4.0})
    more = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    check(file_of(tmp_path / "m.gguf", **more), *expected)


def test_yarn(tmp_path: Path) -> None:
    expected = transformers_rope(
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL}
    )
    assert expected[1] > 1.1
    check(file_of(tmp_path / "m.gguf", **YARN), *expected)


def test_llama3_scaling_lies_in_a_tensor(tmp_path: Path) -> None:
    plain, _ = transformers_rope({"rope_type": "linear", "factor": 1.0})
    expected = transformers_rope(
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": ORIGINAL}
    )  # fmt: skip
    factors = plain / expected[0]
    assert 1 < factors.max() <= 8.001
    check(file_of(tmp_path / "m.gguf", factors), *expected)


def test_other_scalings_are_refused(tmp_path: Path) -> None:
    more = {"rope.scaling.type": "longrope", "rope.scaling.factor": 2.0}
    with pytest.raises(UnsupportedError, match="'longrope' is not supported"):
        DecoderConfig.of(file_of(tmp_path / "m.gguf", **more))


@pytest.mark.parametrize(("key", "value"), [("factor", 0.0), ("original_context_length", 0)])
def test_impossible_scalings_are_named(tmp_path: Path, key: str, value: Any) -> None:
    more = YARN | {f"rope.scaling.{key}": value}
    with pytest.raises(FormatError, match=f"rope.scaling.{key}"):
        DecoderConfig.of(file_of(tmp_path / "m.gguf", **more))
