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
from tests.transformers_library import import_transformers

ORIGINAL, CONTEXT = 64, 48
YARN: dict[str, Any] = {
    "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": ORIGINAL,
}  # fmt: skip


def file_of(path: Path, factors: dict[str, Any] | None = None, **more: Any) -> GgufFile:
    tensors = {"token_embd.weight": f32(np.zeros((VOCABULARY, HIDDEN)))}
    tensors |= {f"{name}.weight": f32(value) for name, value in (factors or {}).items()}
    path.write_bytes(gguf_file(metadata("llama", **more), tensors))
    return read(path)


def transformers_rope(parameters: dict[str, Any], seq_len: int | None = None) -> tuple[Any, float]:
    """Return inverse frequencies and what cosines are multiplied by."""
    transformers = import_transformers()
    rope = pytest.importorskip("transformers.modeling_rope_utils")
    config = transformers.LlamaConfig(
        hidden_size=HIDDEN, num_attention_heads=HEADS, head_dim=HEAD_DIM,
        max_position_embeddings=4 * ORIGINAL,
        rope_parameters={"rope_theta": 10000.0, **parameters},
    )  # fmt: skip
    found, magnitude = rope.ROPE_INIT_FUNCTIONS[parameters["rope_type"]](
        config, "cpu", seq_len=seq_len
    )
    return found.numpy(), magnitude


def check(file: GgufFile, frequencies: Any, magnitude: float) -> None:
    angles = np.arange(CONTEXT)[:, None] * frequencies.astype(np.float64)
    cosines, sines = rope_tables(DecoderConfig.of(file), CONTEXT, file)
    np.testing.assert_allclose(cosines, np.cos(angles) * magnitude, atol=2e-5)
    np.testing.assert_allclose(sines, np.sin(angles) * magnitude, atol=2e-5)


def test_linear_scaling(tmp_path: Path) -> None:
    expected = transformers_rope({"rope_type": "linear", "factor": 4.0})
    more: dict[str, Any] = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    check(file_of(tmp_path / "m.gguf", **more), *expected)


def test_yarn(tmp_path: Path) -> None:
    expected = transformers_rope(
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL}
    )
    assert expected[1] > 1.1
    check(file_of(tmp_path / "m.gguf", **YARN), *expected)


def test_llama3_scaling_is_read_from_a_tensor(tmp_path: Path) -> None:
    plain, _ = transformers_rope({"rope_type": "linear", "factor": 1.0})
    expected = transformers_rope(
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": ORIGINAL}
    )  # fmt: skip
    factors = plain / expected[0]
    assert 1 < factors.max() <= 8.001
    check(file_of(tmp_path / "m.gguf", {"rope_freqs": factors}), *expected)


LONG, SHORT = (np.linspace(1, most, HEAD_DIM // 2) for most in (5, 2))
LONGROPE: dict[str, Any] = {
    "rope.scaling.original_context_length": ORIGINAL, "rope.scaling.attn_factor": 1.25,
}  # fmt: skip
FACTORS: dict[str, Any] = {"rope_factors_long": LONG, "rope_factors_short": SHORT}


@pytest.mark.parametrize("context", [ORIGINAL, ORIGINAL + 1])
def test_longrope_has_a_factor_for_each_pair(tmp_path: Path, context: int) -> None:
    """Files of Phi-3 name no type: the tensors say it. The context chooses among both."""
    parameters = {
        "rope_type": "longrope", "long_factor": LONG.tolist(), "short_factor": SHORT.tolist(),
        "attention_factor": 1.25, "original_max_position_embeddings": ORIGINAL,
    }  # fmt: skip
    frequencies, magnitude = transformers_rope(parameters, seq_len=context)
    file = file_of(tmp_path / "m.gguf", FACTORS, **LONGROPE)
    cosines, sines = rope_tables(DecoderConfig.of(file), context, file)
    angles = np.arange(context)[:, None] * frequencies.astype(np.float64)
    np.testing.assert_allclose(cosines, np.cos(angles) * magnitude, atol=2e-5)
    np.testing.assert_allclose(sines, np.sin(angles) * magnitude, atol=2e-5)


@pytest.mark.parametrize("broken", [LONG[:-1], np.append(LONG[1:], 0.0)])
def test_impossible_factors_are_named(tmp_path: Path, broken: Any) -> None:
    factors = FACTORS | {"rope_factors_long": broken}
    file = file_of(tmp_path / "m.gguf", factors, **LONGROPE)
    with pytest.raises(FormatError, match=r"'rope_factors_long\.weight' has shape"):
        rope_tables(DecoderConfig.of(file), ORIGINAL + 1, file)


def test_other_scalings_are_refused(tmp_path: Path) -> None:
    more: dict[str, Any] = {"rope.scaling.type": "dynamic", "rope.scaling.factor": 2.0}
    with pytest.raises(UnsupportedError, match="'dynamic' is not supported"):
        DecoderConfig.of(file_of(tmp_path / "m.gguf", **more))


@pytest.mark.parametrize(("key", "value"), [("factor", 0.0), ("original_context_length", 0)])
def test_impossible_scalings_are_named(tmp_path: Path, key: str, value: Any) -> None:
    more: dict[str, Any] = YARN | {f"rope.scaling.{key}": value}
    with pytest.raises(FormatError, match=f"rope.scaling.{key}"):
        DecoderConfig.of(file_of(tmp_path / "m.gguf", **more))
