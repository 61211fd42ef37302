"""Optimizers against their papers' formulas in NumPy, and in a whole compiled step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import optim

P = {"w": np.array([1.0, -2.0]), "b": np.array(0.5)}
GRADIENTS = [{"w": np.array([0.3, -0.1]) * k, "b": np.array(-0.2 * k)} for k in (1.0, 2.0, -1.0)]


def run(optimizer: optim.Optimizer) -> list[Any]:
    params, state = P, optimizer.init(P)
    for gradient in GRADIENTS:
        updates, state = optimizer.update(gradient, state, params)
        params = optim.apply_updates(params, updates)
    return rlx.tree_leaves(params)


def expected(step: Any) -> list[Any]:
    found = []
    for name in sorted(P):
        memory: dict[str, Any] = {}
        p = P[name]
        for k, gradient in enumerate(GRADIENTS, start=1):
            p = step(p, gradient[name], memory, k)
        found.append(p)
    return found


def assert_close(given: list[Any], wanted: list[Any]) -> None:
    for one, other in zip(given, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_sgd_moves_against_the_gradient() -> None:
    assert_close(run(optim.sgd(0.1)), expected(lambda p, g, m, k: p - 0.1 * g))


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_accumulates_velocity(nesterov: bool) -> None:
    def step(p: Any, g: Any, memory: dict[str, Any], k: int) -> Any:
        memory["v"] = 0.9 * memory.get("v", 0.0) + g
        return p - 0.1 * (0.9 * memory["v"] + g if nesterov else memory["v"])

    assert_close(run(optim.sgd(0.1, 0.9, nesterov)), expected(step))


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_follows_its_algorithm(decay: float) -> None:
    def step(p: Any, g: Any, memory: dict[str, Any], k: int) -> Any:
        memory["m"] = 0.9 * memory.get("m", 0.0) + 0.1 * g
        memory["v"] = 0.999 * memory.get("v", 0.0) + 0.001 * g * g
        mean, square = memory["m"] / (1 - 0.9**k), memory["v"] / (1 - 0.999**k)
        return p - 0.01 * (mean / (np.sqrt(square) + 1e-8) + decay * p)

    # The bias corrections are computed in f32.
    for one, other in zip(run(optim.adamw(0.01, weight_decay=decay)), expected(step), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_clipping_scales_only_what_is_too_long() -> None:
    tree = {"a": np.array([3.0, 0.0]), "b": np.array([4.0])}
    assert optim.global_norm(tree) == 5.0
    for most, length in ((1.0, [0.6, 0.0]), (6.0, [3.0, 0.0])):
        clipped, _ = optim.clip_by_global_norm(most).update(tree, optim.EmptyState())
        np.testing.assert_allclose(clipped["a"], length)


def test_schedules_pass_their_corners() -> None:
    rate = optim.warmup_cosine_decay_schedule(0.0, 1.0, 10, 110, end_value=0.1)
    given = [float(rate(np.array(k))) for k in (0, 5, 10, 60, 110, 500)]
    np.testing.assert_allclose(given, [0.0, 0.5, 1.0, 0.55, 0.1, 0.1], atol=1e-6)
    assert optim.constant_schedule(0.3)(7) == 0.3
    np.testing.assert_allclose(optim.exponential_decay(1.0, 10, 0.5)(np.array(20)), 0.25)


@pytest.mark.parametrize(
    "optimizer", [optim.sgd(0.1, 0.9), optim.adam(optim.cosine_decay_schedule(0.05, 200))]
)
def test_a_whole_step_is_one_compiled_function_in_place(optimizer: optim.Optimizer) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((32, 3)).astype(np.float32)
    y = (x @ np.array([1.0, -2.0, 0.5])).astype(np.float32)

    def loss(params: Any) -> Any:
        return rnp.mean((x @ params["w"] + params["b"] - y) ** 2)

    @rlx.jit(donate_argnums=(0, 1), threads=1)
    def step(params: Any, state: Any) -> Any:
        value, gradients = rlx.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradients, state, params)
        return optim.apply_updates(params, updates), state, value

    params: Any = {"w": np.zeros(3, np.float32), "b": np.zeros((), np.float32)}
    state = optimizer.init(params)
    graph = step.graph(params, state)
    assert len(graph.donations) == len(graph.inputs)
    for _ in range(150):
        params, state, value = step(params, state)
    assert value < 1e-2
    np.testing.assert_allclose(params["w"], [1.0, -2.0, 0.5], atol=0.1)
