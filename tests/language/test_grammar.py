"""Grammars: whatever a model prefers, what it writes is of the grammar."""

from __future__ import annotations

import json
import re
import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlx.cli.main import main
from rlx.errors import InputError
from rlx.language.grammar import Grammar, GrammarTokens
from rlx.language.model import LanguageModel, load
from rlx.language.openai_requests import tool_calls
from rlx.language.sampling import Sampling
from rlx.language.tokenizer import TextTokenizer
from tests.language.tiny import random_weights, write_model

pytest.importorskip("tokenizers")
pytest.importorskip("llguidance")

TOOL = {
    "name": "weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "size": {"type": "number"},
        "kinds": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "maxItems": 3},
        "more": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/pair"}]},
    },
    "required": ["name", "size", "kinds", "more"],
    "additionalProperties": False,
    "$defs": {"pair": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}},
}
SUM = r"""
# sums in brackets
root  ::= term ("+" term)*
term  ::= [0-9]{1,3} |
          "(" root ")"
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    directory = tmp_path_factory.mktemp("grammar")
    path = write_model(directory / "m.gguf", "llama", random_weights(), packed=True)
    return load(path, context=128, backend="llvm", threads=1)


@pytest.fixture(scope="module")
def tokens() -> GrammarTokens:
    """Bytes, and tokens of several characters that begin and end within parts of JSON."""
    from tokenizers import Tokenizer, models

    joined = ['{"', '":', ' "', '",', '"}', "true", "ull", "\n  ", "é", "12", "<tool", "_call>"]
    spelled = [chr(c) for c in range(33, 127)] + ["Ċ", "Ġ"]
    byte = {" ": "Ġ", "\n": "Ċ", "é": "Ã©"}
    spelled += ["".join(byte.get(c, c) for c in text) for text in joined]
    words = ["<end>", "<pad>", *spelled]
    library = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "<pad>"))
    special = {"bos": None, "eos": 0, "eot": None}
    tokenizer = TextTokenizer(library, words, special, False, None, frozenset((0, 1)))
    return GrammarTokens.of(tokenizer, len(words) + 7)


def written(tokens: GrammarTokens, grammar: Grammar, seed: int) -> str | None:
    """Return what random choices write; None for what has no end within 400 tokens."""
    rng, matcher = np.random.default_rng(seed), tokens.matcher(grammar)
    tokenizer, text = tokens.tokenizer, b""
    for _ in range(400):
        token = int(rng.choice(np.flatnonzero(matcher.mask)))
        if token in tokenizer.end_tokens:
            return text.decode()
        text += tokenizer.bytes_of(token)
        matcher.accept(token)
        if matcher.is_complete:
            return text.decode()
    return None


def is_of_schema(text: str) -> bool:
    found = json.loads(text)
    assert list(found) == ["name", "size", "kinds", "more"]
    assert isinstance(found["name"], str)
    assert len(found["name"]) <= 8
    assert type(found["size"]) in (int, float)
    assert 1 <= len(found["kinds"]) <= 3
    assert set(found["kinds"]) <= {"a", "b"}
    return found["more"] is None or all(type(each) is bool for each in found["more"])


def is_call(text: str) -> bool:
    rest, calls = tool_calls(text)
    assert not rest
    for call in calls:
        assert call["name"] == "weather"
        given = json.loads(call["arguments"])
        assert given.pop("city") in ("Oslo", "Rome")
        assert all(type(days) is int for days in given.values())
    return 1 <= len(calls) <= 3


@pytest.mark.parametrize(
    ("grammar", "is_one"),
    [
        (lambda: Grammar.json_schema(), lambda text: isinstance(json.loads(text), dict)),
        (lambda: Grammar.json_schema(SCHEMA), is_of_schema),
        (lambda: Grammar.json_schema(json.dumps(SCHEMA)), is_of_schema),
        (lambda: Grammar.tool_calls([TOOL], most=3), is_call),
        (lambda: Grammar.gbnf(SUM), lambda text: eval(re.sub(r"\b0+(?=\d)", "", text)) >= 0),
        (lambda: Grammar.gbnf(r'root ::= "\u00e9" "\x41" .'),
         lambda text: re.fullmatch("éA.", text, re.DOTALL)),
        (lambda: Grammar.gbnf('root ::= [^"\\\\a-z] root | "z"'),
         lambda text: re.fullmatch(r'[^"\\a-z]*z', text)),
    ],
)  # fmt: skip
def test_random_choices_are_of_the_grammar(
    tokens: GrammarTokens, grammar: Any, is_one: Any
) -> None:
    found = [written(tokens, grammar(), seed) for seed in range(12)]
    ended = [text for text in found if text is not None]
    assert len(set(ended)) > 5
    for text in ended:
        assert is_one(text), text


def test_a_dot_is_any_character_and_ends_may_be_chosen(tokens: GrammarTokens) -> None:
    matcher = tokens.matcher(Grammar.gbnf('root ::= . "b"?'))
    spell = {tokens.tokenizer.bytes_of(i): i for i in range(len(tokens.tokenizer.tokens))}
    assert matcher.mask[[spell[b"\n"], spell[b"a"], spell["é".encode()]]].all()
    assert not matcher.mask[[0, 1, spell[b"12"], tokens.vocabulary - 1]].any()
    matcher.accept(spell[b"a"])
    assert np.flatnonzero(matcher.mask).tolist() == [0, spell[b"b"]]
    matcher.accept(spell[b"b"])
    assert matcher.is_complete


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Grammar.gbnf("root ::= ("), "the grammar cannot be read"),
        (lambda: Grammar.gbnf('rot ::= "a"'), "the grammar cannot be read"),
        (lambda: Grammar.gbnf("root ::= other"), "the grammar cannot be read"),
        (lambda: Grammar.json_schema("{"), "the schema is no JSON"),
        (lambda: Grammar.json_schema({"not": {}}), "the grammar cannot be enforced"),
        (lambda: Grammar.json_schema({"enum": []}), "the grammar cannot be enforced"),
    ],
)
def test_what_is_no_grammar(tokens: GrammarTokens, make: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        tokens.matcher(make())


@pytest.mark.slow
def test_models_write_what_the_grammar_says(model: LanguageModel) -> None:
    model.sampling = Sampling(temperature=3.0)
    texts = []
    for seed in range(6):
        model.reset()
        model.seed = seed
        grammar = Grammar.gbnf('root ::= [a-c]{2,9} "." | "(" root ")"')
        found = list(model.generate([3, 4, 5], max_tokens=40, grammar=grammar))
        texts.append(model.tokenizer.decode(found))
    model.seed = 0
    together = model.generate_batch([[3, 4, 5]] * 2, max_tokens=40, grammar=grammar)
    assert [model.tokenizer.decode(found) for found in together] == texts[:2]
    ended = [text for text in texts if text.count("(") == text.count(")")]
    assert len(set(ended)) > 1
    assert all(re.fullmatch(r"\(*[a-c]{2,9}\.\)*", text) for text in ended)


@pytest.mark.slow
def test_the_command_line_takes_grammars(
    model: LanguageModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    letters = string.ascii_letters[:9]
    (tmp_path / "g").write_text(f'root ::= [{letters}]{{3}} "."')
    (tmp_path / "s").write_text('{"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2}')
    command = ["generate", model.file.path, "--prompt", "hello", "--context", "32"]
    assert main([*command, "--grammar", str(tmp_path / "g")]) == 0
    assert re.fullmatch(f"[{letters}]{{3}}\\.\n", capsys.readouterr().out)
    assert main([*command, "--json-schema", str(tmp_path / "s")]) == 0
    assert len(json.loads(capsys.readouterr().out)) <= 2
