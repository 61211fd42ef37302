"""Adafactor and L-BFGS: one step by hand, and where they arrive."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from rlx import optim
from rlx.errors import InputError

Array = NDArray[Any]
A = np.diag([1.0, 3.0, 10.0]) + 0.3
CENTER = np.array([1.0, -2.0, 0.5])


def slope(x: Any) -> Any:
    return A @ (x - CENTER)


def descend(optimizer: Any, x: Array, steps: int) -> Array:
    state = optimizer.init(x)
    for _ in range(steps):
        updates, state = optimizer.update(slope(x), state, x)
        x = np.asarray(optim.apply_updates(x, updates))
    return x


def test_a_step_of_adafactor_by_hand() -> None:
    """At the first step the means are those of the gradient alone."""
    w, g = np.full((2, 3), 0.5, np.float32), np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    optimizer = optim.adafactor(0.1, min_dim_size_to_factor=2)
    state = optimizer.init(w)
    assert [x.shape for x in (state[0].v_row, state[0].v_col, state[0].v)] == [(2,), (3,), (1,)]
    updates, state = optimizer.update(g, state, w)
    rows, columns = (g * g).mean(1), (g * g).mean(0)
    scaled = g / np.sqrt(np.outer(rows, columns) / rows.mean())
    scaled /= max(1, np.sqrt((scaled**2).mean()))
    np.testing.assert_allclose(updates, -0.1 * 0.5 * scaled, rtol=1e-6)
    _, state = optimizer.update(2 * g, state, w)
    decay = 1 - 2**-0.8
    np.testing.assert_allclose(state[0].v_row, rows * (decay + 4 * (1 - decay)), rtol=1e-6)


def test_short_axes_and_vectors_are_not_factored() -> None:
    params = {"b": np.ones(4, np.float32), "w": np.ones((2, 4), np.float32)}
    optimizer = optim.scale_by_factored_rms(min_dim_size_to_factor=3)
    state = optimizer.init(params)
    assert state.v["w"].shape == (2, 4)
    updates, state = optimizer.update(params, state, params)
    np.testing.assert_allclose(updates["b"], np.ones(4), rtol=1e-6)
    assert state.v["b"].shape == (4,)


def test_adafactor_arrives() -> None:
    rate = optim.exponential_decay(0.3, 10, 0.7)
    x = descend(optim.adafactor(rate, multiply_by_parameter_scale=False), np.zeros(3), 150)
    np.testing.assert_allclose(x, CENTER, atol=2e-2)


def test_a_step_of_lbfgs_is_that_of_the_explicit_inverse() -> None:
    x = np.array([1.0, 1.0, 1.0])
    optimizer = optim.lbfgs(memory_size=3)
    state = optimizer.init(x)
    g = slope(x)
    updates, state = optimizer.update(g, state, x)
    np.testing.assert_allclose(updates, -g / np.linalg.norm(g), rtol=1e-14)
    after = x + updates
    s, y = after - x, slope(after) - g
    rho, gamma = 1 / (s @ y), (s @ y) / (y @ y)
    turn = np.eye(3) - rho * np.outer(y, s)
    inverse = gamma * turn.T @ turn + rho * np.outer(s, s)
    updates, _ = optimizer.update(slope(after), state, after)
    np.testing.assert_allclose(updates, -inverse @ slope(after), rtol=1e-12)


@pytest.mark.slow
def test_lbfgs_arrives_and_ignores_steps_of_negative_curvature() -> None:
    np.testing.assert_allclose(descend(optim.lbfgs(), np.zeros(3), 25), CENTER, atol=1e-8)
    optimizer = optim.lbfgs(memory_size=2)
    x, state = np.ones(3), optimizer.init(np.ones(3))
    for gradient in (np.ones(3), -np.ones(3)):
        updates, state = optimizer.update(gradient * 0.1, state, x)
        x = x - 0.5 * np.asarray(updates)
    assert not np.asarray(state[0].weights_memory).any()
    with pytest.raises(InputError, match="memory_size is 0"):
        optim.lbfgs(memory_size=0)


def test_compiled_steps_of_trees_are_the_same() -> None:
    params = {"a": np.array([1.0, 2.0]), "b": np.array([[0.5]])}
    optimizer = optim.scale_by_lbfgs(memory_size=1)
    state = optimizer.init(params)
    _, state = optimizer.update(params, state, params)
    moved = {name: 0.5 * x for name, x in params.items()}
    expected, _ = optimizer.update(moved, state, moved)
    found, _ = rlx.jit(optimizer.update)(moved, state, moved)
    for name, x in found.items():
        np.testing.assert_allclose(x, expected[name], rtol=1e-12)
