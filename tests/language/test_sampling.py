"""The next token: greedy, tempered, cut by top-k, top-p and min-p, and reproducible."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlx.errors import InputError
from rlx.ir.graph import Graph
from rlx.ir.shape import Dim
from rlx.language.sampling import Sampling, choice_feeds
from rlx.language.sampling_graph import Choice, sampled
from rlx.runtime.compile import compile as compile_graph

PROBABILITIES = np.array([[0.1, 0.2, 0.3, 0.4]], np.float32)
Draw = Callable[..., int]


@functools.cache
def program(vocabulary: int) -> Any:
    """Return the one program that chooses a token of so many, by any settings."""
    g = Graph("draw")
    logits = g.input("logits", (1, vocabulary))
    seen = (g.input("history", (Dim("past", max=8),), "i32"), g.input("tokens", (1,), "i32"))
    g.set_outputs([sampled(g, logits, Choice.declared(g, vocabulary, [seen]))])
    return compile_graph(g, backend="llvm", threads=1)


def drawn_with(
    sampling: Sampling, logits: np.ndarray | None = None, mask: np.ndarray | None = None
) -> Draw:
    """Return a function of seed, position and history that draws a token."""
    x = np.log(PROBABILITIES) if logits is None else logits

    def draw(seed: int = 0, position: int = 0, history: tuple[int, ...] = ()) -> int:
        size = x.shape[1]
        (token,) = program(size).run(
            {
                "logits": x, "history": np.array(history, np.int32),
                "tokens": np.zeros(1, np.int32),
                **choice_feeds([sampling], [seed], [position], size, [mask]),
            }
        )  # fmt: skip
        return int(token[0])

    return draw


def shares(sampling: Sampling, count: int = 800) -> np.ndarray:
    draw = drawn_with(sampling)
    return np.bincount([draw(7, i) for i in range(count)], minlength=4) / count


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    np.testing.assert_allclose(shares(Sampling(temperature=1.0)), PROBABILITIES[0], atol=0.05)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.0, top_k=2),
        Sampling(temperature=1.0, top_p=0.65),
        Sampling(temperature=1.0, min_p=0.6),
        Sampling(temperature=1.0, logit_bias={0: -np.inf, 1: -1e9}),
        Sampling(temperature=1e30, top_k=2),
    ],
)
def test_unlikely_tokens_are_left_out(sampling: Sampling) -> None:
    expected = [0, 0, 0.5, 0.5] if sampling.temperature > 1 else [0, 0, 3 / 7, 4 / 7]
    np.testing.assert_allclose(shares(sampling), expected, atol=0.05)


def test_typical_tokens_are_those_near_the_entropy() -> None:
    """It is 1.28 nats; the four tokens have 2.30, 1.61, 1.20 and 0.92."""
    found = shares(Sampling(temperature=1.0, typical_p=0.25))
    assert found.tolist() == [0, 0, 1, 0]
    found = shares(Sampling(temperature=1.0, typical_p=0.45))
    np.testing.assert_allclose(found, [0, 0.4, 0.6, 0], atol=0.05)


def test_a_mask_leaves_only_its_tokens() -> None:
    allowed = np.array([True, False, True, False])
    for sampling in (Sampling(), Sampling(temperature=2.0, top_k=1)):
        assert {drawn_with(sampling, mask=allowed)(7, i) for i in range(9)} == {2}


def test_a_low_temperature_takes_the_likeliest() -> None:
    assert shares(Sampling(temperature=0.01), 50).tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-40, 1e-300])
def test_however_low_it_is(temperature: float) -> None:
    """Logits divided by such numbers are infinite, and of those all are alike."""
    logits = np.array([[3.0, 5.0, 40.0, 40.5, -2.0]], np.float32)
    draw = drawn_with(Sampling(temperature=temperature), logits)
    assert {draw(7, i) for i in range(9)} == {3}


@pytest.mark.parametrize("temperature", [1e30, float("inf")])
def test_a_temperature_without_bounds_draws_all_tokens_alike(temperature: float) -> None:
    np.testing.assert_allclose(shares(Sampling(temperature=temperature)), 0.25, atol=0.06)


def test_seeds_reproduce_and_differ() -> None:
    draw = drawn_with(Sampling(temperature=1.0))
    texts = [[draw(seed, i) for i in range(40)] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_repetition_is_less_likely() -> None:
    draw = drawn_with(Sampling(repetition_penalty=2.0))
    assert draw() == 3
    assert draw(history=(3,)) == 2
    assert (
        drawn_with(Sampling(repetition_penalty=2.0), np.array([[0, 3, 4.0]], "f4"))(history=(2, 2))
        == 1
    )


def test_presence_counts_once_and_frequency_each_time() -> None:
    logits = np.array([[0.0, 3.0, 4.0]], np.float32)
    for sampling, history, token in (
        (Sampling(presence_penalty=0.9), (2, 2, 2), 2),
        (Sampling(presence_penalty=1.1), (2,), 1),
        (Sampling(frequency_penalty=0.4), (2, 2), 2),
        (Sampling(frequency_penalty=0.4), (2, 2, 2), 1),
        (Sampling(logit_bias={1: 1.5}), (), 1),
    ):
        assert drawn_with(sampling, logits)(history=history) == token


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("typical_p", 0), ("presence_penalty", np.nan), ("frequency_penalty", 1e7),
        ("logit_bias", {1: np.nan}), ("logit_bias", {"a": 1}), ("logit_bias", {1: np.inf}),
        ("temperature", -1.0), ("temperature", np.nan), ("temperature", "1"), ("top_k", 2.5),
        ("top_k", -1), ("top_p", 0.0), ("min_p", 2.0), ("repetition_penalty", 0.0),
        ("repetition_penalty", np.inf), ("repetition_penalty", 1e-40), ("top_k", True),
    ],
)  # fmt: skip
def test_options_are_checked(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name):
        Sampling(**{name: value})
