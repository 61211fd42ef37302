"""Guessed tokens change how fast a text is written, and not which one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rlx.cli.main import main
from rlx.errors import InputError
from rlx.language.grammar import Grammar
from rlx.language.model import LanguageModel, load
from rlx.language.model_draft import ModelDraft
from rlx.language.sampling import Sampling
from rlx.language.speculation import Draws, PromptLookup
from tests.language.tiny import random_weights, write_model

pytest.importorskip("tokenizers")

PROMPT = [3, 9, 4, 31, 3, 9, 4, 31, 3, 9]
SAMPLINGS = [
    Sampling(),
    Sampling(temperature=2.0, top_k=20),
    Sampling(temperature=1.5, repetition_penalty=1.2, frequency_penalty=0.3),
]


@pytest.fixture(scope="module", params=[True, False], ids=["packed", "floats"])
def plain(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> LanguageModel:
    directory = tmp_path_factory.mktemp("target")
    path = write_model(directory / "m.gguf", "llama", random_weights(), packed=request.param)
    return load(path, context=64, backend="llvm", threads=1)


@pytest.fixture(scope="module")
def looking(plain: LanguageModel) -> LanguageModel:
    return load(plain.file.path, context=64, backend="llvm", threads=1, draft=PromptLookup())


@pytest.mark.slow
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_lookups_write_the_same_text(
    plain: LanguageModel, looking: LanguageModel, sampling: Sampling
) -> None:
    """Up to the end of the context, whose last tokens are steps, and beyond it."""
    plain.sampling = looking.sampling = sampling
    looking.guessed = looking.accepted = 0
    for keep, most in ((None, 99), (4, 70)):
        plain.reset()
        looking.reset()
        expected = list(plain.generate(PROMPT, max_tokens=most, stop=[], keep=keep))
        assert list(looking.generate(PROMPT, max_tokens=most, stop=[], keep=keep)) == expected
        assert looking.history == plain.history
    assert 0 < looking.accepted <= looking.guessed


@pytest.mark.slow
@pytest.mark.whole
def test_a_text_that_is_left_has_the_history_of_its_tokens(looking: LanguageModel) -> None:
    looking.sampling = Sampling()
    looking.reset()
    whole = list(looking.generate(PROMPT, max_tokens=30, stop=[]))
    assert looking.accepted > 0
    for count in range(1, 12):
        looking.reset()
        tokens: Any = looking.generate(PROMPT, max_tokens=30, stop=[])
        taken = [next(tokens) for _ in range(count)]
        tokens.close()
        assert looking.history == PROMPT + taken[:-1]
        assert looking.feed(taken[-1:]) == whole[count]


@pytest.mark.slow
@pytest.mark.parametrize("sampling", SAMPLINGS[:2])
def test_another_model_may_guess(plain: LanguageModel, tmp_path: Path, sampling: Sampling) -> None:
    """Itself is always right, by the same draws; one with other weights is not."""
    other = write_model(tmp_path / "o.gguf", "llama", random_weights(1), packed=True)
    plain.sampling = sampling
    plain.reset()
    expected = list(plain.generate(PROMPT, max_tokens=30, stop=[]))
    rates = []
    for path in (plain.file.path, other):
        draft = ModelDraft(load(path, context=64, backend="llvm", threads=1))
        model = load(plain.file.path, context=64, backend="llvm", threads=1, draft=draft)
        model.sampling = sampling
        assert list(model.generate(PROMPT, max_tokens=30, stop=[])) == expected
        rates.append(model.accepted / model.guessed)
    assert rates[0] > 0.8 > rates[1]  # the last three right guesses are not asked for


@pytest.mark.slow
def test_guesses_are_of_the_grammar(looking: LanguageModel, plain: LanguageModel) -> None:
    pytest.importorskip("llguidance")
    grammar = Grammar.gbnf('root ::= "ab" [cd]{3} root | "."')
    plain.sampling = looking.sampling = Sampling(temperature=2.0)
    plain.reset()
    looking.reset()
    looking.accepted = 0
    expected = list(plain.generate(PROMPT, max_tokens=40, grammar=grammar))
    assert list(looking.generate(PROMPT, max_tokens=40, grammar=grammar)) == expected
    assert re.fullmatch(r"(ab[cd]{3})*(ab?[cd]{0,2}|\.)", plain.tokenizer.decode(expected))


def test_lookups_find_the_most_recent_of_the_longest_ends() -> None:
    draws = Draws(Sampling(), 0, 0)
    guess = PromptLookup(tokens=2, longest=3, shortest=2).guess
    assert guess([1, 2, 3, 9, 7, 2, 3, 8, 1, 2, 3], draws, 2) == [9, 7]
    assert guess([1, 2, 5, 1, 2, 6, 1, 2], draws, 2) == [6, 1]
    assert guess([1, 2, 3], draws, 2) == guess([4], draws, 2) == []
    assert guess([5, 5, 5, 5], draws, 2) == [5]


def test_the_command_line_takes_drafts(
    plain: LanguageModel, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["generate", plain.file.path, "--prompt", "abcabcab", "--context", "64", "--top-k",
               "0", "--max-tokens", "9", "--backend", "llvm", "--threads", "1"]  # fmt: skip
    printed = []
    for more in ([], ["--lookup"], ["--draft", plain.file.path]):
        assert main([*command, *more]) == 0
        printed.append(capsys.readouterr().out)
    assert len(set(printed)) == 1


def test_what_cannot_guess(plain: LanguageModel, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tokens is 0, shortest 2 and longest"):
        PromptLookup(tokens=0)
    with pytest.raises(InputError, match="a draft of 64 tokens"):
        ModelDraft(plain, tokens=64)
    fewer = {"tokenizer.ggml.tokens": [f"{n}" for n in range(80)]}
    path = write_model(tmp_path / "m.gguf", "llama", random_weights(), packed=True, text=fewer)
    model = load(path, context=64, draft=ModelDraft(plain))
    with pytest.raises(InputError, match="has other tokens than"):
        list(model.generate(PROMPT, max_tokens=2, stop=[]))
