"""Optimizers against their papers' formulas in NumPy, and in a whole compiled step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import optim
from rlx.errors import InputError

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

    assert_close(run(optim.adamw(0.01, weight_decay=decay)), expected(step))


def test_clipping_scales_only_what_is_too_long() -> None:
    tree = {"a": np.array([3.0, 0.0]), "b": np.array([4.0])}
    assert optim.global_norm(tree) == 5.0
    for most, length in ((1.0, [0.6, 0.0]), (6.0, [3.0, 0.0])):
        clipped, _ = optim.clip_by_global_norm(most).update(tree, optim.EmptyState())
        np.testing.assert_allclose(clipped["a"], length)


def test_nan_in_one_gradient_leaves_no_other_unclipped() -> None:
    tree = {"a": np.array([np.nan]), "b": np.array([100.0])}
    clipped, _ = optim.clip_by_global_norm(1.0).update(tree, optim.EmptyState())
    assert np.isnan(clipped["b"]).all()
    assert optim.global_norm({}) == 0


def test_an_update_of_none_changes_nothing() -> None:
    params = {"a": np.ones(2), "b": np.ones(3), "c": None}
    moved = optim.apply_updates(params, {"a": np.ones(2), "b": None, "c": None})
    np.testing.assert_array_equal(moved["a"], [2, 2])
    np.testing.assert_array_equal(moved["b"], params["b"])
    assert moved["c"] is None


def test_gradients_of_heads_and_of_one_row_are_clipped_by_unit() -> None:
    clip = optim.adaptive_grad_clip(0.5)
    for shape, axis in (((2, 3, 4), 0), ((1, 5), None), ((2, 3, 4, 5), (0, 1, 2))):
        params, gradients = np.ones(shape), np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
        found, _ = clip.update(gradients, optim.EmptyState(), params)
        most, norm = (np.sqrt((x**2).sum(axis, keepdims=True)) for x in (params, gradients))
        np.testing.assert_allclose(found, gradients * (0.5 * most / norm))


def test_a_cosine_without_steps_is_refused() -> None:
    with pytest.raises(InputError, match="not in -50"):
        optim.warmup_cosine_decay_schedule(0.0, 1.0, warmup_steps=100, decay_steps=50)


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
