"""Quantized functions under transformations: as any function, with the derivatives in floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

RANDOM = np.random.default_rng(0)
PARAMS = {
    "w0": RANDOM.normal(size=(12, 8)).astype("f4"),
    "w1": RANDOM.normal(size=(8, 5)).astype("f4"),
}
BATCHES = [RANDOM.normal(size=(6, 12)).astype("f4") for _ in range(4)]
X = BATCHES[0]


def predict(params: Any, x: Any) -> Any:
    return rlx.nn.relu(x @ params["w0"]) @ params["w1"]


@pytest.fixture(scope="module")
def done() -> Any:
    return rlx.quantize(predict, BATCHES, params=PARAMS)


def in_floats(x: Any) -> Any:
    return predict(PARAMS, x)


def test_it_computes_the_same_in_jit_and_by_example(done: Any) -> None:
    expected = done(X)
    np.testing.assert_allclose(rlx.jit(done)(X), expected, rtol=1e-6)
    np.testing.assert_allclose(rlx.vmap(done)(X), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(rlx.jit(rlx.vmap(done))(X), expected, rtol=1e-5, atol=1e-5)
    assert not np.array_equal(expected, in_floats(X))


def test_its_derivatives_are_those_in_floats_at_its_own_value(done: Any) -> None:
    value, slope = rlx.value_and_grad(lambda x: rnp.sum(rnp.sin(done(x))))(X)
    np.testing.assert_allclose(value, np.sin(done(X)).sum(), rtol=1e-5)
    (expected,) = rlx.vjp(in_floats, X)[1](np.cos(done(X)))
    np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-5)
    _, moved = rlx.jvp(done, (X,), (BATCHES[1],))
    np.testing.assert_allclose(
        moved, rlx.jvp(in_floats, (X,), (BATCHES[1],))[1], rtol=1e-5, atol=1e-5
    )
    rows = rlx.vmap(rlx.grad(lambda x: rnp.sum(done(x))))(X)
    np.testing.assert_allclose(rows, rlx.grad(lambda x: rnp.sum(in_floats(x)))(X), rtol=1e-5)
