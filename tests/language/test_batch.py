"""Sequences of unequal length in one batch say what each says alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlx.errors import InputError
from rlx.gguf import read
from rlx.language.lora import Adapters, Lora
from rlx.language.model import load
from rlx.language.sampling import Sampling
from rlx.language.text import Text
from tests.language.tiny import VOCABULARY, random_weights, write_model

RNG = np.random.default_rng(3)
PROMPTS = [[int(t) for t in RNG.integers(0, VOCABULARY, size)] for size in (2, 17, 7)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tiny")
    return write_model(directory / "m.gguf", "llama", random_weights(), packed=True)


@pytest.mark.slow
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.5, top_k=9)], ids=str)
def test_each_sequence_says_what_it_says_alone(path: Path, sampling: Sampling) -> None:
    """Also up to the end of the context, and with tokens that end some of them early."""
    options = {"context": 32, "backend": "llvm", "threads": 1, "sampling": sampling}
    alone = []
    for number, prompt in enumerate(PROMPTS):
        model = load(path, seed=5 + number, **options)  # type: ignore[arg-type]
        alone.append(list(model.generate(prompt, max_tokens=20, stop=())))
    assert [len(tokens) for tokens in alone] == [20, 16, 20]
    batched = load(path, seed=5, **options)  # type: ignore[arg-type]
    assert batched.generate_batch(PROMPTS, max_tokens=20, stop=()) == alone
    end = alone[1][4]
    cut = [tokens[: tokens.index(end)] if end in tokens else tokens for tokens in alone]
    assert batched.generate_batch(PROMPTS, max_tokens=20, stop=[end]) == cut
    one, many = batched._batches[3]._programs
    assert one.arena is many.arena


@pytest.mark.slow
def test_texts_join_and_leave(path: Path) -> None:
    """Each with its own sampling; a slot's next text reads what it does not have already."""
    model = load(path, context=32, backend="llvm", threads=1)
    samplings = [Sampling(), Sampling(temperature=1.5), Sampling(temperature=0.7, top_p=0.9)]
    alone = []
    for prompt, sampling in zip(PROMPTS, samplings, strict=True):
        model.reset()
        model.sampling, model.seed = sampling, 4
        alone.append(list(model.generate(prompt, max_tokens=6, stop=())))
    batch = model._batch(2)
    texts = [Text(list(p), s, 4) for p, s in zip(PROMPTS, samplings, strict=True)]
    texts[0].tokens.append(batch.read(0, texts[0]))
    texts[0].tokens.append(batch.advance({0: texts[0]})[0])
    texts[1].tokens.append(batch.read(1, texts[1]))
    for _ in range(4):
        for slot, token in batch.advance({0: texts[0], 1: texts[1]}).items():
            texts[slot].tokens.append(token)
    texts[1].tokens.append(batch.advance({1: texts[1]})[1])
    again = Text(list(PROMPTS[0]), samplings[0], 4)
    again.tokens.append(batch.read(0, again))
    texts[2].tokens.append(batch.read(1, texts[2]))
    for _ in range(5):
        for slot, token in batch.advance({0: again, 1: texts[2]}).items():
            [again, texts[2]][slot].tokens.append(token)
    for text, expected in zip([*texts, again], [*alone, alone[0]], strict=True):
        assert text.tokens[-6:] == expected


@pytest.mark.slow
def test_prompts_fill_a_context_that_is_no_multiple_of_their_pieces(path: Path) -> None:
    """Some rows of the last piece are read once more; they were refused."""
    prompts = [[int(t) for t in RNG.integers(0, VOCABULARY, size)] for size in (17, 16, 9)]
    model = load(path, context=17, backend="llvm", threads=1)
    alone = []
    for prompt in prompts:
        model.reset()
        alone.append(list(model.generate(prompt, max_tokens=20, stop=())))
    assert [len(tokens) for tokens in alone] == [1, 2, 9]
    assert model.generate_batch(prompts, max_tokens=20, stop=()) == alone


@pytest.mark.slow
def test_models_of_floats_have_batches_too(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", "qwen2", random_weights(), packed=False)
    model = load(path, context=32, backend="llvm", threads=1)
    alone = []
    for prompt in PROMPTS[:2]:
        model.reset()
        alone.append(list(model.generate(prompt, max_tokens=4, stop=())))
    assert model.generate_batch(PROMPTS[:2], max_tokens=4, stop=()) == alone


@pytest.mark.slow
def test_batches_have_adapters(path: Path) -> None:
    """What adapters change in one sequence, they change in a batch."""
    first = Adapters.first(read(path), Lora(rank=2, targets=("attn_q", "ffn_down")), seed=1)
    learned = np.random.default_rng(2)
    values = {
        n: learned.standard_normal(v.shape).astype(np.float32) for n, v in first.values.items()
    }
    adapters = Adapters(first.lora, values)
    model = load(path, context=32, threads=1, adapters=adapters)
    alone = []
    for prompt in PROMPTS[:2]:
        model.reset()
        alone.append(list(model.generate(prompt, max_tokens=4, stop=())))
    assert model.generate_batch(PROMPTS[:2], max_tokens=4, stop=()) == alone
    without = load(path, context=32, threads=1)
    assert without.generate_batch(PROMPTS[:2], max_tokens=4, stop=()) != alone


def test_programs_of_a_few_sizes_are_kept(path: Path) -> None:
    model = load(path, context=8, threads=1)
    for size in (1, 2, 3, 4, 1, 5):  # programs of no token are not compiled
        model.generate_batch([[1]] * size, max_tokens=0, stop=())
    assert list(model._batches) == [3, 4, 1, 5]


def test_prompts_are_checked(path: Path) -> None:
    model = load(path, context=32)
    with pytest.raises(InputError, match="token 80 is outside the vocabulary of 80"):
        model.generate_batch([[1], [80]], max_tokens=1, stop=())
    with pytest.raises(InputError, match="a prompt of 0 tokens; the context has 32"):
        model.generate_batch([[1], []], max_tokens=1, stop=())
    assert model.generate_batch([[1], [2]], max_tokens=0, stop=()) == [[], []]
