"""Tokenizers built from a file's metadata."""

from __future__ import annotations

import dataclasses
import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from rlx.errors import FormatError, InputError, UnsupportedError
from rlx.gguf import GgufFile, read
from rlx.language.streaming import TextStream, texts_of
from rlx.language.tokenizer import TextTokenizer, byte_spelling
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


WORDS = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
MERGED = ["a", "b", "c", "▁", "ab", "bc", "abc", "▁a", "▁ab", "ca", "bb", "cab"]
SENTENCE_PIECE: dict[str, Any] = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": [*WORDS, *MERGED],
    "tokenizer.ggml.scores": [0.0] * len(WORDS)
    + [-9, -8, -7, -6, -3, -1, -4, -5, -2, -2.5, -6, -1.5],
    "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * len(MERGED)],
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
}


def piece_file(directory: Path, metadata: dict[str, Any]) -> GgufFile:
    """Return a file with this metadata, of which arrays of numbers are not written."""
    return dataclasses.replace(file_of(directory, {}), metadata=metadata)


def merged_by_score(text: str) -> list[str]:
    """Merge the neighbors that make the piece of the highest score, the leftmost of equals."""
    scores = dict(zip(MERGED, SENTENCE_PIECE["tokenizer.ggml.scores"][len(WORDS) :], strict=True))
    parts = list("▁" + text.replace(" ", "▁"))
    while True:
        joined = [a + b for a, b in itertools.pairwise(parts)]
        pairs = [(-scores[piece], i) for i, piece in enumerate(joined) if piece in scores]
        if not pairs:
            return parts
        _, at = min(pairs)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


def test_sentence_pieces_are_merged_by_score(tmp_path: Path) -> None:
    """As SentencePiece does, which is written out here; what is no piece is spelled in bytes."""
    tokenizer = TextTokenizer.of(piece_file(tmp_path, SENTENCE_PIECE))
    rng = random.Random(0)
    for _ in range(200):
        text = "".join(rng.choice("abc ") for _ in range(rng.randint(1, 12)))
        start, *ids = tokenizer.encode(text)
        assert start == 1
        assert [tokenizer.tokens[i] for i in ids] == merged_by_score(text)
        assert tokenizer.decode([start, *ids]) == text
    assert tokenizer.decode(tokenizer.encode("aéb")) == "aéb"
    assert [tokenizer.tokens[i] for i in tokenizer.encode("é")] == ["<s>", "▁", "<0xC3>", "<0xA9>"]


def test_pieces_without_scores_are_an_error(tmp_path: Path) -> None:
    keys = {key: value for key, value in SENTENCE_PIECE.items() if "scores" not in key}
    with pytest.raises(FormatError, match="scores' is missing"):
        TextTokenizer.of(piece_file(tmp_path, keys))


CHARACTERS = sorted(byte_spelling(), key=byte_spelling().__getitem__)
IN_BYTES: dict[str, Any] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": [*CHARACTERS, "<|im_end|>"],
    "tokenizer.ggml.token_type": [*[1] * 256, 3],
    "tokenizer.ggml.merges": [],
}


@pytest.fixture(params=["bytes", "pieces"])
def tokenizer(request: pytest.FixtureRequest, tmp_path: Path) -> TextTokenizer:
    if request.param == "bytes":
        return TextTokenizer.of(piece_file(tmp_path, IN_BYTES))
    return TextTokenizer.of(piece_file(tmp_path, SENTENCE_PIECE))


def test_no_character_is_cut(tokenizer: TextTokenizer) -> None:
    """Each is a few tokens, one for each byte."""
    text = "aé中😀é"
    added = list(texts_of(TextStream(tokenizer), tokenizer.encode(text)))
    assert "".join(added) == text == tokenizer.decode(tokenizer.encode(text))
    assert [part for part in added if part.strip()] == list(text)


def test_what_ends_within_a_character_is_marked(tokenizer: TextTokenizer) -> None:
    tokens = tokenizer.encode("a😀")[:-1]
    stream = TextStream(tokenizer)
    assert "".join(map(stream.add, tokens)) == "a"
    assert stream.finish() == "\N{REPLACEMENT CHARACTER}"
    assert tokenizer.decode(tokens) == "a\N{REPLACEMENT CHARACTER}"


def test_special_tokens_are_no_text(tmp_path: Path) -> None:
    tokenizer = TextTokenizer.of(piece_file(tmp_path, IN_BYTES))
    tokens = tokenizer.encode("a<|im_end|>b")
    assert tokens == [97, 256, 98]
    assert "".join(texts_of(TextStream(tokenizer), tokens)) == "ab"


def test_stop_strings_end_the_text(tokenizer: TextTokenizer) -> None:
    """However they are cut by tokens; what may begin one is held until it does not."""
    rng = random.Random(0)
    for _ in range(300):
        text = "".join(rng.choice("abc") for _ in range(rng.randint(1, 12)))
        stops = ["".join(rng.choice("abc") for _ in range(rng.randint(1, 3))) for _ in range(2)]
        stream = TextStream(tokenizer, stops)
        shown = "".join(texts_of(stream, tokenizer.encode(text)))
        ends = [text.index(stop) for stop in stops if stop in text]
        assert shown == (text[: min(ends)] if ends else text)
        assert (stream.stopped_by is None) == (not ends)


@pytest.mark.parametrize("stop", ["ab", ["a", ""], [1]])
def test_stop_strings_are_checked(tokenizer: TextTokenizer, stop: Any) -> None:
    with pytest.raises(InputError, match="stop strings are"):
        TextStream(tokenizer, stop)


def test_tokens_of_files_without_types_are_text(tmp_path: Path) -> None:
    keys = {k: v for k, v in IN_BYTES.items() if not k.endswith("token_type")}
    assert TextTokenizer.of(file_of(tmp_path, keys)).decode([97, 98]) == "ab"
