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


def rounded(x: Any) -> Any:
    return rlx.nn.fake_quantize(x, bits=4, straight_through="clipped_identity")


def test_a_network_learns_through_its_rounding() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(64, 8)).astype(np.float32)
    y = (x @ random.normal(size=(8, 2))).astype(np.float32)
    params = {"w": 0.1 * random.normal(size=(8, 2)).astype(np.float32)}
    optimizer = rlx.optim.adam(3e-2)

    def loss(p: Any) -> Any:
        return rnp.mean(rnp.square(rounded(x) @ rounded(p["w"]) - y))

    def step(p: Any, state: Any) -> Any:
        value, gradients = rlx.value_and_grad(loss)(p)
        updates, state = optimizer.update(gradients, state, p)
        p = rlx.optim.apply_updates(p, updates)
        return p, state, value

    run, state, values = rlx.jit(step), optimizer.init(params), []
    for _ in range(150):
        params, state, value = run(params, state)
        values.append(float(value))
    assert values[-1] < 0.1 * values[0]
