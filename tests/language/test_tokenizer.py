"""Tokenizers built from a file's metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlx.errors import FormatError, UnsupportedError
from rlx.gguf import GgufFile, read
from rlx.language.tokenizer import TextTokenizer
from tests.gguf.files import gguf_file

pytest.importorskip("tokenizers")

PIECES = ["<s>", "a", "b", "ab", "Ġ", "Ġa", "1", "2", "</s>"]
BYTE_LEVEL: dict[str, Any] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": PIECES,
    "tokenizer.ggml.merges": ["a b", "Ġ a"],
    "tokenizer.ggml.eos_token_id": 8,
    "tokenizer.ggml.bos_token_id": 0,
}


def file_of(directory: Path, metadata: dict[str, Any]) -> GgufFile:
    path = directory / "m.gguf"
    path.write_bytes(gguf_file(metadata, {}))
    return read(path)


def test_merges_over_bytes(tmp_path: Path) -> None:
    tokenizer = TextTokenizer.of(file_of(tmp_path, BYTE_LEVEL))
    assert tokenizer.encode("ab a12") == [3, 5, 6, 7]
    assert tokenizer.decode([3, 5, 6, 7]) == "ab a12"
    assert tokenizer.end_tokens == {8}


def test_a_start_token_where_the_file_says_so(tmp_path: Path) -> None:
    keys = BYTE_LEVEL | {"tokenizer.ggml.add_bos_token": True}
    assert TextTokenizer.of(file_of(tmp_path, keys)).encode("ab") == [0, 3]


def test_a_conversation_is_a_prompt(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
    keys = BYTE_LEVEL | {"tokenizer.chat_template": template}
    tokenizer = TextTokenizer.of(file_of(tmp_path, keys))
    text = tokenizer.chat([{"role": "user", "content": "ab"}, {"role": "user", "content": " a"}])
    assert tokenizer.decode(text).endswith("ab a")


def test_a_file_without_a_template_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="no chat template"):
        TextTokenizer.of(file_of(tmp_path, BYTE_LEVEL)).chat([])


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("tokenizer.ggml.model", "rwkv", UnsupportedError),
        ("tokenizer.ggml.pre", "unheard-of", UnsupportedError),
        ("tokenizer.ggml.tokens", 3, FormatError),
        ("tokenizer.ggml.merges", ["ab"], FormatError),
    ],
)
def test_what_cannot_be_built_is_named(
    tmp_path: Path, key: str, value: Any, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match=key if kind is FormatError else str(value)):
        TextTokenizer.of(file_of(tmp_path, BYTE_LEVEL | {key: value}))
