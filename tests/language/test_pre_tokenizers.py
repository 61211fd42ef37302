"""Words are cut as llama.cpp cuts them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from rlx.gguf import read
from rlx.language.pre_tokenizers import BY_NAME
from rlx.language.tokenizer import TextTokenizer, byte_spelling
from tests.gguf.files import gguf_file

tokenizers: Any = pytest.importorskip("tokenizers")

TEXT = "I'd it'S 12345 aBc\n\n \u3000\u4e2d\u2026 a/b!  x"
WORDS = {
    "default": "I|'|d| it|'|S| |123|45| aBc|\n\n |\u3000|\u4e2d|\u2026| a|/|b|!| | x",
    "llama3": "I|'d| it|'S| |123|45| aBc|\n\n| |\u3000\u4e2d|\u2026| a|/b|!| | x",
    "dbrx": "I|'d| it|'S| |123|45| aBc|\n\n| |\u3000\u4e2d|\u2026| a|/b|!| | x",
    "qwen2": "I|'d| it|'S| |1|2|3|4|5| aBc|\n\n| |\u3000\u4e2d|\u2026| a|/b|!| | x",
    "qwen35": "I|'d| it|'S| |1|2|3|4|5| aBc|\n\n| |\u3000\u4e2d|\u2026| a|/b|!| | x",
    "tekken": "I|'d| it|'S| |1|2|3|4|5| a|Bc|\n\n| |\u3000\u4e2d|\u2026| a|/b|!| | x",
    "gpt-4o": "I'd| it'S| |123|45| a|Bc|\n\n| |\u3000\u4e2d|\u2026| a|/b|!| | x",
    "deepseek-llm": "I|'|d| it|'|S| |12345| aBc|\n|\n| \u3000|\u4e2d\u2026| a|/|b|!| | x",
    "deepseek-coder": "I|'|d| it|'|S| |1|2|3|4|5| aBc|\n|\n| |\u3000|\u4e2d|\u2026| a|/|b|!| | x",
    "deepseek-v3": "I|'d| it|'S| |123|45| aBc|\n\n| \u3000|\u4e2d|\u2026| a|/b|!| | x",
    "falcon": "I|'|d| it|'|S| |123|45| aBc|\n\n |\u3000|\u4e2d|\u2026| a|/|b|!| | x",
    "smollm": "I|'d| it|'|S| |1|2|3|4|5| aBc|\n\n |\u3000|\u4e2d|\u2026| a|/|b|!| | x",
    "gpt-2": "I|'d| it|'|S| 12345| aBc|\n\n |\u3000|\u4e2d|\u2026| a|/|b|!| | x",
    "bloom": "I'd| it'S| 12345| aBc|\n\n \u3000|\u4e2d|\u2026| a/b|! | x",
    "viking": "I'd| it'S| |1|2|3|4|5| aBc|\n\n \u3000|\u4e2d|\u2026| a/b|! | x",
}
"""What `TEXT` is cut into. With llama.cpp (llama-cpp-python 0.3.36) and merges that cross all
borders the tokens of 92 texts were equal for every name of the table."""


@pytest.mark.parametrize("name", WORDS)
def test_words(name: str) -> None:
    cuts = [
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(expression), "isolated")
        for expression in BY_NAME[name].expressions
    ]
    words = tokenizers.pre_tokenizers.Sequence(cuts).pre_tokenize_str(TEXT)
    assert [word for word, _ in words] == WORDS[name].split("|")


def test_every_way_to_cut_is_tried() -> None:
    assert {BY_NAME[name].expressions for name in WORDS} == {
        each.expressions for each in BY_NAME.values()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", WORDS)
def test_tokens_are_those_of_llama_cpp(name: str, tmp_path: Path) -> None:
    """Every two neighbors in the text, and in what that makes, are merged if they are one word."""
    llama_cpp: Any = pytest.importorskip("llama_cpp")
    spelled = {byte: character for character, byte in byte_spelling().items()}
    tokens, merges = [spelled[byte] for byte in range(256)], list[str]()
    parts = [spelled[byte] for byte in TEXT.encode()]
    while len(parts) > 1:
        for left, right in itertools.pairwise(parts):
            if left + right not in tokens:
                tokens.append(left + right)
                merges.append(f"{left} {right}")
        parts = [
            "".join(pair) for pair in itertools.zip_longest(parts[::2], parts[1::2], fillvalue="")
        ]
    keys = {
        "general.architecture": "llama", "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": name, "tokenizer.ggml.tokens": [*tokens, "<s>"],
        "tokenizer.ggml.merges": merges, "tokenizer.ggml.bos_token_id": len(tokens),
        "tokenizer.ggml.eos_token_id": len(tokens), "llama.context_length": 8,
        "llama.embedding_length": 8, "llama.block_count": 1, "llama.feed_forward_length": 8,
        "llama.attention.head_count": 1, "llama.attention.layer_norm_rms_epsilon": 1e-5,
    }  # fmt: skip
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_file(keys, {}))
    theirs = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
    ours = TextTokenizer.of(read(path))
    for text in (TEXT, TEXT[3:], "".join(reversed(TEXT)), TEXT * 2):
        expected = theirs.tokenize(text.encode(), add_bos=True, special=False)
        assert ours.encode(text) == expected
