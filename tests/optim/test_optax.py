"""`rlx.optim` against optax, where that is installed: the same numbers after several steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import optim

optax = pytest.importorskip("optax")
jnp = pytest.importorskip("jax.numpy")

RANDOM = np.random.default_rng(3)
PARAMS = {
    "w": RANDOM.normal(size=(3, 4)).astype("f4"),
    "b": [RANDOM.normal(size=4).astype("f4"), np.array(0.5, "f4")],
}
GRADIENTS = [
    rlx.tree_map(lambda p, k=k: (np.cos(3 * p + k) * 0.7).astype("f4"), PARAMS) for k in range(6)
]


def falls(o: Any) -> Any:
    return o.exponential_decay(0.1, 3, 0.5)


def is_matrix(tree: Any) -> Any:
    return rlx.tree_map(lambda p: p.ndim > 1, tree)


def labels(tree: Any) -> Any:
    return rlx.tree_map(lambda p: "matrix" if p.ndim > 1 else "other", tree)


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda o: o.sgd(0.1),
    "momentum": lambda o: o.sgd(falls(o), 0.9),
    "nesterov": lambda o: o.sgd(0.1, 0.9, nesterov=True),
    "adam": lambda o: o.adam(0.1, eps_root=1e-6),
    "adam with a schedule": lambda o: o.adam(falls(o)),
    "adamw": lambda o: o.adamw(0.1, weight_decay=0.1, mask=is_matrix),
    "nadam": lambda o: o.nadam(0.1),
    "nadamw": lambda o: o.nadamw(0.1),
    "adamax": lambda o: o.adamax(0.1),
    "adamaxw": lambda o: o.adamaxw(0.1),
    "amsgrad": lambda o: o.amsgrad(0.1),
    "adabelief": lambda o: o.adabelief(0.1),
    "adadelta": lambda o: o.adadelta(0.1),
    "adagrad": lambda o: o.adagrad(0.1),
    "lion": lambda o: o.lion(0.1),
    "rmsprop": lambda o: o.rmsprop(0.1, momentum=0.9),
    "rmsprop, corrected": lambda o: o.rmsprop(0.1, bias_correction=True, eps_in_sqrt=False),
    "rmsprop, centered": lambda o: o.rmsprop(0.1, centered=True),
    "radam": lambda o: o.radam(0.1),
    "yogi": lambda o: o.yogi(0.1),
    "lamb": lambda o: o.lamb(0.1, weight_decay=0.1),
    "lars": lambda o: o.lars(0.1, weight_decay=0.1),
    "novograd": lambda o: o.novograd(0.1),
    "fromage": lambda o: o.fromage(0.1),
    "optimistic": lambda o: o.optimistic_gradient_descent(0.1),
    "sign_sgd": lambda o: o.sign_sgd(0.1),
    "chain": lambda o: o.chain(o.clip_by_global_norm(0.5), o.add_decayed_weights(0.1), o.scale(-1)),
    "named_chain": lambda o: o.named_chain(("a", o.clip(0.3)), ("b", o.sgd(0.1))),
    "clip_by_block_rms": lambda o: o.chain(o.clip_by_block_rms(0.2), o.sgd(1.0)),
    "adaptive_grad_clip": lambda o: o.chain(o.adaptive_grad_clip(0.1), o.sgd(1.0)),
    "centralize": lambda o: o.chain(o.centralize(), o.sgd(1.0)),
    "zero_nans": lambda o: o.chain(o.zero_nans(), o.sgd(1.0)),
    "keep_params_nonnegative": lambda o: o.chain(o.sgd(1.0), o.keep_params_nonnegative()),
    "ema": lambda o: o.chain(o.ema(0.9), o.sgd(1.0)),
    "normalize_by_update_norm": lambda o: o.chain(o.normalize_by_update_norm(), o.sgd(1.0)),
    "block norms": lambda o: o.chain(o.scale_by_param_block_norm(), o.sgd(1.0)),
    "block rms": lambda o: o.chain(o.scale_by_param_block_rms(), o.sgd(1.0)),
    "masked": lambda o: o.masked(o.sgd(0.1), is_matrix),
    "multi_transform": lambda o: o.multi_transform(
        {"matrix": o.adam(0.1), "other": o.set_to_zero()}, labels
    ),
    "apply_if_finite": lambda o: o.apply_if_finite(o.adam(0.1), 2),
    "apply_every": lambda o: o.chain(o.apply_every(2), o.sgd(0.1)),
    "MultiSteps": lambda o: o.MultiSteps(o.adam(0.1), 3),
}


def trained(o: Any, optimizer: Any, jit: bool) -> Any:
    def step(params: Any, state: Any, gradients: Any) -> Any:
        updates, state = optimizer.update(gradients, state, params)
        return o.apply_updates(params, updates), state

    params = PARAMS if o is optim else rlx.tree_map(jnp.asarray, PARAMS)
    run = rlx.jit(step) if jit else step
    state = optimizer.init(params)
    for gradients in GRADIENTS:
        given = gradients if o is optim else rlx.tree_map(jnp.asarray, gradients)
        params, state = run(params, state, given)
    return params


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_params_after_some_steps_are_those_of_optax(name: str) -> None:
    expected = trained(optax, OPTIMIZERS[name](optax), jit=False)
    found = trained(optim, OPTIMIZERS[name](optim), jit=False)
    for one, other in zip(rlx.tree_leaves(found), rlx.tree_leaves(expected), strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, np.asarray(other), rtol=3e-5, atol=3e-6)


SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "constant": lambda o: o.constant_schedule(0.3),
    "linear": lambda o: o.linear_schedule(1.0, 0.1, 20, 5),
    "polynomial": lambda o: o.polynomial_schedule(1.0, 0.1, 2, 20, 3),
    "cosine": lambda o: o.cosine_decay_schedule(1.0, 30, 0.1, 2.0),
    "exponential": lambda o: o.exponential_decay(1.0, 7, 0.5, 4, end_value=0.2),
    "staircase": lambda o: o.exponential_decay(1.0, 7, 0.5, staircase=True),
    "pieces": lambda o: o.piecewise_constant_schedule(1.0, {5: 0.5, 20: 0.1}),
    "lines": lambda o: o.piecewise_interpolate_schedule("linear", 1.0, {5: 0.5, 20: 3.0}),
    "cosines": lambda o: o.piecewise_interpolate_schedule("cosine", 1.0, {5: 0.5, 20: 3.0}),
    "linear cycle": lambda o: o.linear_onecycle_schedule(40, 1.0),
    "cosine cycle": lambda o: o.cosine_onecycle_schedule(40, 1.0),
    "warm constant": lambda o: o.warmup_constant_schedule(0.1, 1.0, 10),
    "warm cosine": lambda o: o.warmup_cosine_decay_schedule(0.0, 1.0, 10, 40, 0.1),
    "warm exponential": lambda o: o.warmup_exponential_decay_schedule(0.0, 1.0, 10, 10, 0.5),
    "restarts": lambda o: o.sgdr_schedule([
        {"init_value": 0.0, "peak_value": 1.0, "warmup_steps": 3, "decay_steps": 15},
        {"init_value": 0.1, "peak_value": 0.5, "warmup_steps": 2, "decay_steps": 20},
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_those_of_optax(name: str) -> None:
    found, expected = SCHEDULES[name](optim), SCHEDULES[name](optax)
    for count in range(0, 50, 3):
        value = found(np.array(count, np.int32))
        np.testing.assert_allclose(value, np.asarray(expected(count)), rtol=1e-5, atol=1e-7)


LOGITS, LABELS = RANDOM.normal(size=(5, 4)).astype("f4"), RANDOM.integers(0, 4, 5)
SHARES = np.exp(LOGITS[::-1]) / np.exp(LOGITS[::-1]).sum(-1, keepdims=True)
BITS = (LOGITS > 0.3).astype("f4")
LOGS = np.log(SHARES[::-1])
LOSSES: dict[str, tuple[Any, ...]] = {
    "squared_error": (LOGITS, SHARES), "l2_loss": (LOGITS,), "huber_loss": (3 * LOGITS, SHARES),
    "log_cosh": (LOGITS, SHARES), "hinge_loss": (LOGITS, 2 * BITS - 1),
    "cosine_similarity": (LOGITS, SHARES), "cosine_distance": (LOGITS, SHARES),
    "sigmoid_binary_cross_entropy": (LOGITS, BITS), "sigmoid_focal_loss": (LOGITS, BITS),
    "softmax_cross_entropy": (LOGITS, SHARES), "safe_softmax_cross_entropy": (LOGITS, SHARES),
    "softmax_cross_entropy_with_integer_labels": (LOGITS, LABELS),
    "smooth_labels": (SHARES, 0.1), "kl_divergence": (LOGS, SHARES),
    "convex_kl_divergence": (LOGS, SHARES),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_those_of_optax(name: str) -> None:
    found = getattr(optim, name)(*LOSSES[name])
    expected = getattr(optax, name)(*map(jnp.asarray, LOSSES[name]))
    np.testing.assert_allclose(found, np.asarray(expected), rtol=2e-5, atol=2e-6)


def test_every_public_function_of_losses_has_optax_numbers() -> None:
    for name, arguments in (
        ("kl_divergence_with_log_targets", (LOGS, np.log(SHARES))),
        ("poly_loss_cross_entropy", (LOGITS, SHARES)),
        ("perceptron_loss", (LOGITS, 2 * BITS - 1)),
        ("triplet_margin_loss", (LOGITS, SHARES, LOGS)),
    ):
        expected = getattr(optax.losses, name)(*map(jnp.asarray, arguments))
        found = getattr(optim, name)(*arguments)
        np.testing.assert_allclose(found, np.asarray(expected), rtol=2e-5, atol=2e-6)
