"""Whatever metadata says, a model is built or refused by an error that is typed."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlx.errors import FormatError, RlxError
from rlx.gguf import read
from rlx.language.config import DecoderConfig
from rlx.language.decoder import decoder_graph
from rlx.language.tokenizer import TextTokenizer
from tests.gguf.files import f32, gguf_file
from tests.language.tiny import HEAD_DIM, metadata, random_weights, text_metadata

VALUES: tuple[Any, ...] = (
    0, 1, 3, 2**31 - 1, 2**40, 2**63, 2**64 - 1, -1, -(2**63), float("nan"), float("inf"), 1e300,
    -1.5, "", "x", True, [], [1, 2], ["a"],
)  # fmt: skip
SCALED = {
    "rope.dimension_count": HEAD_DIM, "rope.scaling.type": "yarn", "rope.scaling.factor": 2.0,
    "rope.scaling.original_context_length": 64, "attention.sliding_window": 8, "expert_count": 0,
    "expert_used_count": 0, "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0,
}  # fmt: skip
TOKENS = [*text_metadata()["tokenizer.ggml.tokens"], "<unk>"]
PIECES = {
    "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.scores": [0.0] * len(TOKENS),
    "tokenizer.ggml.token_type": [1] * len(TOKENS), "tokenizer.ggml.pre": "default",
}  # fmt: skip
KEYS = metadata("llama", **SCALED) | text_metadata()
MOST = 8 << 20
"""Bytes that a model of 300 KB takes at most, whatever its metadata claims."""


def write(path: Path, keys: dict[str, Any]) -> None:
    tensors = {name: f32(value) for name, value in random_weights().items()}
    path.write_bytes(gguf_file(keys, tensors))


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("key", [key for key in KEYS if not key.startswith("tokenizer")])
def test_no_number_of_a_decoder_is_believed(tmp_path: Path, key: str) -> None:
    path, refused = tmp_path / "m.gguf", 0
    for value in VALUES:
        write(path, KEYS | {key: value})
        tracemalloc.start()
        try:
            decoder_graph(read(path), rows=1, context=16)
        except RlxError:
            refused += 1
        finally:
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert most < MOST
    assert refused > 4


@pytest.mark.parametrize("key", [*(k for k in KEYS if k.startswith("tokenizer")), *PIECES])
@pytest.mark.parametrize("more", [{}, PIECES], ids=["merges", "pieces"])
def test_nothing_of_a_tokenizer_is_believed(tmp_path: Path, key: str, more: dict[str, Any]) -> None:
    pytest.importorskip("tokenizers")
    pytest.importorskip("jinja2")
    path = tmp_path / "m.gguf"
    for value in (
        *VALUES,
        ["a b"],
        ["a zz"],
        "{% for %}",
        "{{ messages.a.b }}",
        [0.5] * len(TOKENS),
    ):
        write(path, KEYS | more | {key: value})
        try:
            tokenizer = TextTokenizer.of(read(path))
            tokenizer.encode("ab 1")
            tokenizer.chat([{"role": "user", "content": "a"}])
        except RlxError:
            continue


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("block_count", float("inf"), "'llama.block_count' is inf; it must be finite in f32"),
        ("embedding_length", 2**40, "'llama.embedding_length' .* a whole number"),
        ("attention.key_length", 2**31 - 1, "'llama.attention.key_length' .* 64 columns"),
        ("rope.dimension_count", 3, "'llama.rope.dimension_count' .* even and at most 16"),
        ("rope.freq_base", 0.0, "'llama.rope.freq_base' .* more than 1"),
        ("final_logit_softcapping", -1.0, "'llama.final_logit_softcapping' .* more than 0"),
    ],
)
def test_the_key_is_named(tmp_path: Path, key: str, value: Any, words: str) -> None:
    path = tmp_path / "m.gguf"
    write(path, metadata("llama", **{key: value}))
    with pytest.raises(FormatError, match=words):
        DecoderConfig.of(read(path))


@pytest.mark.slow
def test_mutated_heads_are_models_or_refused(tmp_path: Path) -> None:
    """A few bytes of the head changed, or eight of them a length near 2^64."""
    path = tmp_path / "m.gguf"
    write(path, KEYS)
    original = path.read_bytes()
    file = read(path)
    head = len(original) - sum(file.tensor_bytes(name).nbytes for name in file.tensors)
    rng, built = np.random.default_rng(0), 0
    for _ in range(1000):
        data = bytearray(original)
        for at in rng.integers(0, head, rng.integers(1, 4)):
            data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, int(rng.integers(0, 256))])
        if rng.random() < 0.2:
            at = rng.integers(0, head - 8)
            data[at : at + 8] = (2**64 - int(rng.integers(1, 1000))).to_bytes(8, "little")
        path.write_bytes(bytes(data))
        try:
            DecoderConfig.of(read(path))
            built += 1
        except RlxError:
            continue
    assert 0 < built < 900
