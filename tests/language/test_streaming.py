"""Text of tokens as they come: whole characters, and nothing of a stop string."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from rlx.errors import InputError
from rlx.language.streaming import TextStream, texts_of
from rlx.language.tokenizer import TextTokenizer, byte_spelling
from tests.language.test_tokenizer import SENTENCE_PIECE, file_of, piece_file

pytest.importorskip("tokenizers")

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
