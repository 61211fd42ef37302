"""Adapters in GGUF files compute what the merged matrices compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlx.cli.main import main
from rlx.errors import FormatError, RlxError, UnsupportedError
from rlx.language.gguf_adapters import read_adapters
from rlx.language.model import open_model
from tests.gguf.files import f32, gguf_file
from tests.language.folder import write_folder
from tests.language.test_peft import Array, logits_of
from tests.language.tiny import HIDDEN, random_weights, write_model

RANKS = {"blk.0.attn_q": 4, "blk.0.ffn_down": 2, "blk.1.attn_k": 3}
KEYS = {"general.type": "adapter", "adapter.type": "lora", "general.architecture": "llama"}


def factors(weights: dict[str, Array]) -> dict[str, Array]:
    rng, found = np.random.default_rng(2), {}
    for name, rank in RANKS.items():
        rows, columns = weights[f"{name}.weight"].shape
        found[f"{name}.weight.lora_a"] = rng.standard_normal((rank, columns)).astype(np.float32)
        found[f"{name}.weight.lora_b"] = rng.standard_normal((rows, rank)).astype(np.float32) * 0.2
    return found


def write_adapters(path: Path, tensors: dict[str, Array], **keys: Any) -> Path:
    given = KEYS | {"adapter.lora.alpha": 6.0} | keys
    path.write_bytes(gguf_file(given, {name: f32(value) for name, value in tensors.items()}))
    return path


@pytest.mark.parametrize("alpha", [6.0, 0.0])
def test_logits_are_those_of_merged_matrices(tmp_path: Path, alpha: float) -> None:
    """By alpha over each matrix's own rank, or by 1 where alpha is 0."""
    weights = random_weights()
    file = open_model(write_model(tmp_path / "m.gguf", "llama", weights, packed=False))
    given = factors(weights)
    path = write_adapters(tmp_path / "a.gguf", given, **{"adapter.lora.alpha": alpha})
    found = logits_of(file, read_adapters(path, file))
    merged = dict(weights)
    for name, rank in RANKS.items():
        a, b = (given[f"{name}.weight.lora_{part}"] for part in "ab")
        merged[f"{name}.weight"] = weights[f"{name}.weight"] + (alpha / rank or 1.0) * (b @ a)
    expected = logits_of(
        open_model(write_model(tmp_path / "merged.gguf", "llama", merged, packed=False))
    )
    assert np.abs(expected - logits_of(file)).max() > 0.1
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("keys", "tensors", "error", "match"),
    [
        ({"general.type": "model"}, {}, FormatError, "general.type"),
        ({"adapter.type": "dora"}, {}, FormatError, "adapter.type"),
        ({"general.architecture": "qwen2"}, {}, FormatError, "general.architecture"),
        ({"adapter.lora.alpha": "x"}, {}, FormatError, "adapter.lora.alpha"),
        ({}, {"token_embd.weight.lora_a": (4, 80)}, UnsupportedError, "not an adapter of a matrix"),
        ({}, {"blk.0.attn_q.weight": (4, HIDDEN)}, UnsupportedError, "not an adapter of a matrix"),
        ({}, {"blk.9.attn_q.weight.lora_a": (4, HIDDEN)}, FormatError, "for no matrix"),
        ({}, {"blk.1.attn_q.weight.lora_a": (4, 7)}, FormatError, "for this model's matrix"),
        ({}, {"blk.1.attn_q.weight.lora_a": (4, HIDDEN)}, FormatError, "lora_a alone"),
        ({}, {"blk.0.attn_q.weight.lora_b": (HIDDEN, 3)}, FormatError, "have ranks 4 and 3"),
    ],
)
def test_what_is_no_adapter(
    tmp_path: Path, keys: dict[str, Any], tensors: dict[str, Any], error: type[RlxError], match: str
) -> None:
    weights = random_weights()
    file = open_model(write_model(tmp_path / "m.gguf", "llama", weights, packed=False))
    more = {name: np.zeros(shape, np.float32) for name, shape in tensors.items()}
    path = write_adapters(tmp_path / "a.gguf", factors(weights) | more, **keys)
    with pytest.raises(error, match=match):
        read_adapters(path, file)


def test_a_folder_has_other_rows(tmp_path: Path) -> None:
    weights = random_weights()
    folder = open_model(write_folder(tmp_path / "m", weights))
    path = write_adapters(tmp_path / "a.gguf", factors(weights))
    with pytest.raises(UnsupportedError, match="in the order of GGUF files"):
        read_adapters(path, folder)


@pytest.mark.slow
def test_the_command_line_takes_adapters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tokenizers")
    weights = random_weights()
    model = write_model(tmp_path / "m.gguf", "llama", weights, packed=True)
    path = write_adapters(tmp_path / "a.gguf", factors(weights))
    saved = tmp_path / "a.safetensors"
    read_adapters(path, open_model(model)).save(saved)
    command = ["generate", str(model), "--prompt", "hello", "--max-tokens", "8"]
    printed = []
    for more in ([], ["--adapters", str(path)], ["--adapters", str(saved)]):
        assert main([*command, *more]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] != printed[1] == printed[2]
