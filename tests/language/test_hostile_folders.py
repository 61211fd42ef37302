"""Folders that are damaged, or made to do harm, are refused by errors that are typed."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.errors import FormatError, InputError
from rlx.language import checkpoint
from rlx.language.config import DecoderConfig
from rlx.language.model import open_model
from rlx.language.peft import read_peft
from rlx.language.tokenizer import TextTokenizer
from rlx.safetensors_file import map_safetensors, read_safetensors
from tests.language.folder import write_folder
from tests.language.test_peft import write_adapters
from tests.language.tiny import random_weights

Array = NDArray[Any]
_LONGROPE = {"type": "longrope", "long_factor": [1.0] * 8, "short_factor": [1.0] * 8}
_TRUNCATION = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}


@pytest.mark.parametrize(
    "changed",
    [
        {"rope_scaling": {**_LONGROPE, "original_max_position_embeddings": 1}},
        {"rope_scaling": {**_LONGROPE, "original_max_position_embeddings": 0.5}},
        {"rope_scaling": {**_LONGROPE, "long_factor": 10**400}},
        {"no_rope_layers": [1, 0], "partial_rotary_factor": 1e20},
        {"rope_scaling": {"type": "llama3", "factor": 1e-320, "low_freq_factor": 1.0,
                          "high_freq_factor": 4.0, "original_max_position_embeddings": 32}},
    ],
)  # fmt: skip
def test_numbers_of_ropes_that_none_has(changed: dict[str, Any], tmp_path: Path) -> None:
    folder = write_folder(tmp_path, random_weights(), **changed)
    with pytest.raises(FormatError, match=r"config\.json: key '(rope|head_dim|factor)"):
        DecoderConfig.of(checkpoint.read(folder))


def test_names_of_files_that_no_system_has(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, random_weights())
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "\ud800"}}))
    with pytest.raises(FormatError, match=r"'.*ud800' cannot name a file"):
        checkpoint.read(folder)


@pytest.mark.parametrize(
    ("shape", "place"),
    [([10**4000, 10**4000], [0, 8]), ([2**62, 2**62], [0, 8]), ([2], [0, 10**4000])],
)
def test_extents_beyond_all_memory(shape: list[int], place: list[int], tmp_path: Path) -> None:
    entry = {"dtype": "F32", "shape": shape, "data_offsets": place}
    head = json.dumps({"a": entry}).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(struct.pack("<Q", len(head)) + head + bytes(8))
    for read in (read_safetensors, map_safetensors):
        with pytest.raises(FormatError, match="tensor 'a'"):
            read(path)


def test_headers_larger_than_any(tmp_path: Path) -> None:
    """The file has holes: it takes no room, and its header would be read as a whole."""
    path = tmp_path / "a.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 1 << 28))
        file.truncate((1 << 28) + 8)
    with pytest.raises(FormatError, match="a header takes 100000000 at most"):
        map_safetensors(path)


def test_a_bool_is_0_or_1(tmp_path: Path) -> None:
    head = json.dumps({"a": {"dtype": "BOOL", "shape": [3], "data_offsets": [0, 3]}}).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(struct.pack("<Q", len(head)) + head + b"\0\1\2")
    with pytest.raises(FormatError, match="a bool is neither 0 nor 1"):
        map_safetensors(path)


def _tokenizer(folder: Path, **changed: Any) -> TextTokenizer:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    return TextTokenizer.of(checkpoint.read(folder))


_BPE: dict[str, Any] = {"type": "BPE", "merges": []}
_START = {"SpecialToken": {"id": "<s>", "type_id": 0}}


@pytest.mark.parametrize(
    "changed",
    [
        {"model": {**_BPE, "vocab": {"a": 2**32 - 1}}},
        {"model": {**_BPE, "vocab": {"a": 0, "b": 0}, "merges": [["a", "b"]]}},
        {"post_processor": {"type": "TemplateProcessing", "single": [_START], "pair": [],
                            "special_tokens": {}}},
        {"normalizer": {"type": "Prepend", "prepend": ""}},
    ],
    ids=["a number of a token", "merges", "post-processor", "normalizer"],
)  # fmt: skip
def test_tokenizers_that_the_library_fails_at(changed: dict[str, Any], tmp_path: Path) -> None:
    """Some of them are panics, which are no `Exception`."""
    pytest.importorskip("tokenizers")
    folder = write_folder(tmp_path, random_weights())
    with pytest.raises(FormatError, match="token"):
        _tokenizer(folder, **changed).encode("ab")


def test_prompts_are_not_truncated(tmp_path: Path) -> None:
    """Settings of the tokenizer's training are no part of it."""
    pytest.importorskip("tokenizers")
    padding = {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None,
               "pad_id": 0, "pad_type_id": 0, "pad_token": "<s>"}  # fmt: skip
    folder = write_folder(tmp_path, random_weights())
    assert _tokenizer(folder, truncation=_TRUNCATION, padding=padding).encode("abc") == [3, 4, 5]


def test_tokens_without_a_name_and_texts_that_are_none(tmp_path: Path) -> None:
    """Rows of the embedding table after the last token are no text."""
    pytest.importorskip("tokenizers")
    folder = write_folder(tmp_path, random_weights())
    tokenizer = _tokenizer(folder)
    assert tokenizer.decode([3, len(tokenizer.tokens) + 5, 4]) == "ab"
    with pytest.raises(InputError, match=r"'.ud800', which is not Unicode"):
        tokenizer.encode("a\ud800")
    pieces = _tokenizer(folder, model={**_BPE, "vocab": {"<0xZZ>": 0, "<0x41>": 1}},
                        added_tokens=[], decoder=None, pre_tokenizer=None)  # fmt: skip
    assert pieces.decode([0, 1]) == "<0xZZ>A"


def _zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    ("factors", "more", "match"),
    [
        ({"A": _zeros(4, 64)}, {}, "lora_a alone"),
        ({"B": _zeros(64, 4)}, {}, "lora_b alone"),
        ({}, {}, "no adapters"),
        ({"A": _zeros(4, 64), "B": _zeros(128, 4)}, {}, r"shape \[64, 4\]"),
        ({"A": _zeros(4, 64), "B": _zeros(32, 4)}, {}, r"shape \[64, 4\]"),
        ({"A": _zeros(3, 64), "B": _zeros(64, 3)}, {}, r"shape \[4, 64\]"),
        ({"A": _zeros(4, 64), "A.default": _zeros(4, 64)}, {}, "occurs twice"),
        ({"A": np.zeros((4, 64), np.int8)}, {}, "is int8"),
        ({}, {"r": float("inf")}, "adapter_config"),
        ({}, {"lora_alpha": float("nan")}, "lora_alpha is nan"),
    ],
)
def test_damaged_adapters(
    factors: dict[str, Array], more: dict[str, Any], match: str, tmp_path: Path
) -> None:
    model = open_model(write_folder(tmp_path / "m", random_weights()))
    stem = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
    named = {f"{stem}{part}.weight": value for part, value in factors.items()}
    with pytest.raises(FormatError, match=match):
        read_peft(write_adapters(tmp_path / "adapters", named, **more), model)
