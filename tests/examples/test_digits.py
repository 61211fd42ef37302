"""Training on real digits: accuracy, and the same bits at every run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from examples.packaged import is_installed

if not is_installed("sklearn"):
    pytest.skip("the digits ship in the extra `demo`", allow_module_level=True)

from examples.digits import Digits, Trained, attention, load_data, mlp, train

BACKENDS = ("c", "llvm")


@pytest.fixture(scope="module")
def data() -> Digits:
    return load_data()


def run(data: Digits, backend: str, epochs: int | None = None, *, model: str = "mlp") -> Trained:
    chosen = mlp() if model == "mlp" else attention()
    shortened = chosen if epochs is None else replace(chosen, epochs=epochs)
    return train(shortened, data, backend, lambda *_: None)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_mlp_learns_within_a_minute(data: Digits, backend: str) -> None:
    trained = run(data, backend)
    assert trained.accuracy >= 0.97
    assert trained.seconds < 60


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_attention_model_learns(data: Digits, backend: str) -> None:
    assert run(data, backend, model="attention").accuracy >= 0.95


@pytest.mark.parametrize("model", ["mlp", "attention"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_two_runs_give_the_same_bits(data: Digits, backend: str, model: str) -> None:
    first, second = (run(data, backend, 2, model=model) for _ in range(2))
    for name, value in first.params.items():
        np.testing.assert_array_equal(value, second.params[name], err_msg=name)


@pytest.mark.slow
def test_the_backends_agree_with_the_reference_over_an_epoch(data: Digits) -> None:
    results = [run(data, backend, 1) for backend in ("reference", *BACKENDS)]
    for trained in results[1:]:
        for name, value in results[0].params.items():
            np.testing.assert_allclose(trained.params[name], value, atol=1e-4, err_msg=name)
