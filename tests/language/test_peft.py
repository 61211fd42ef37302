"""Adapters of peft compute what the merged matrices compute, on folders and on GGUF files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from rlx.errors import FormatError, RlxError, UnsupportedError
from rlx.language.decoder import sequence_logits
from rlx.language.lora import Adapters
from rlx.language.model import open_model
from rlx.language.model_file import ModelFile
from rlx.language.peft import read_peft
from tests.language.folder import load_file, save_file, write_folder
from tests.language.tiny import random_weights, write_model

Array = NDArray[Any]
TOKENS = np.array([3, 1, 4, 1, 5, 9], np.int32)


def logits_of(file: ModelFile, adapters: Adapters | None = None) -> Array:
    graph = rlx.Graph("sequence")
    tokens = graph.input("t", TOKENS.shape, "i32")
    logits, weights = sequence_logits(graph, file, tokens, adapters)
    graph.set_outputs([logits])
    (found,) = rlx.compile(graph, params=weights.values, backend="reference")(TOKENS)
    return np.asarray(found)


def write_adapters(path: Path, factors: dict[str, Array], **more: Any) -> Path:
    path.mkdir(exist_ok=True)
    settings = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none", **more}
    (path / "adapter_config.json").write_text(json.dumps(settings))
    save_file(factors, path / "adapter_model.safetensors")
    return path


def random_factors(tensors: dict[str, Array]) -> dict[str, Array]:
    rng, found = np.random.default_rng(1), {}
    for name, value in tensors.items():
        if any(part in name for part in ("q_proj", "k_proj", "down_proj")):
            stem = f"base_model.model.{name.removesuffix('.weight')}"
            for part, shape in (("A", (4, value.shape[1])), ("B", (value.shape[0], 4))):
                drawn = rng.standard_normal(shape) * 0.3
                found[f"{stem}.lora_{part}.weight"] = drawn.astype(np.float32)
    return found


def test_logits_are_those_of_merged_matrices(tmp_path: Path) -> None:
    weights = random_weights()
    folder = write_folder(tmp_path / "m", weights)
    file = write_model(tmp_path / "m.gguf", "llama", weights, packed=False)
    tensors = load_file(folder / "model.safetensors")
    factors = random_factors(tensors)
    adapters = write_adapters(tmp_path / "adapters", factors)
    found = [logits_of(open_model(p), read_peft(adapters, open_model(p))) for p in (folder, file)]
    plain = logits_of(open_model(folder))
    for name in tensors:
        stem = f"base_model.model.{name.removesuffix('.weight')}"
        if f"{stem}.lora_A.weight" in factors:
            a, b = (factors[f"{stem}.lora_{part}.weight"] for part in "AB")
            tensors[name] = tensors[name] + 2 * (b @ a)
    save_file(tensors, folder / "model.safetensors")
    merged = logits_of(open_model(folder))
    assert np.abs(merged - plain).max() > 0.1
    for ours in found:
        np.testing.assert_allclose(ours, merged, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "more", "error", "match"),
    [
        ("model.layers.0.self_attn.q_proj", {"use_dora": True}, UnsupportedError, "use_dora"),
        ("model.layers.0.self_attn.q_proj", {"peft_type": "IA3"}, UnsupportedError, "peft_type"),
        ("model.layers.0.self_attn.q_proj", {"init_lora_weights": "pissa_niter_4"},
         UnsupportedError, "init_lora_weights='pissa_niter_4'"),
        ("model.layers.0.self_attn.q_proj", {"r": None}, FormatError, "adapter_config"),
        ("model.layers.0.mixer.in_proj", {}, UnsupportedError, "not an adapter of a decoder's"),
        ("model.layers.7.self_attn.q_proj", {}, FormatError, "for no matrix of"),
    ],
)  # fmt: skip
def test_refused_adapters(
    name: str, more: dict[str, Any], error: type[RlxError], match: str, tmp_path: Path
) -> None:
    file = open_model(write_folder(tmp_path / "m", random_weights()))
    factors = {f"base_model.model.{name}.lora_A.weight": np.zeros((4, 64), np.float32)}
    with pytest.raises(error, match=match):
        read_peft(write_adapters(tmp_path / "adapters", factors, **more), file)


def test_adapters_of_matrices_that_are_multiplied_are_refused(tmp_path: Path) -> None:
    """Files of Falcon-H1 have its multipliers in the matrices, which adapters of peft have not."""
    path = write_model(tmp_path / "m.gguf", "falcon-h1", random_weights(), packed=False)
    with pytest.raises(UnsupportedError, match="not supported for 'falcon-h1'"):
        read_peft(write_adapters(tmp_path / "adapters", {}), open_model(path))
