"""Steps of optimizers by two running means: Adam and its relatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import rlx.numpy as rnp
from rlx.optim.moments import (
    bias_corrected,
    in_dtypes,
    infinity_moment,
    moment,
    nesterov_moment,
    ratio,
)
from rlx.optim.protocol import (
    GradientTransformation,
    first_step,
    in_dtype_of,
    like,
    of_updates,
)
from rlx.tracing.pytree import tree_map


class ScaleByAdamState(NamedTuple):
    """The step number, and the running means of gradients and of their squares."""

    count: Any
    mu: Any
    nu: Any


class ScaleByAmsgradState(NamedTuple):
    """As for Adam, and the largest mean of squares."""

    count: Any
    mu: Any
    nu: Any
    nu_max: Any


def _two_moments(
    step: Callable[[Any, Any, Any], tuple[Any, Any, Any]],
    initial: float = 0.0,
    mu_dtype: Any = None,
) -> GradientTransformation:
    """A transformation that keeps two moments.

    `step(updates, state, count)` gives updates and moments.
    """

    def init(params: Any) -> Any:
        first, second = like(params, initial, mu_dtype), like(params, initial)
        return ScaleByAdamState(first_step(), first, second)

    def update(updates: Any, state: Any) -> tuple[Any, Any]:
        count = state.count + 1
        scaled, mu, nu = step(updates, state, count)
        return scaled, ScaleByAdamState(count, in_dtypes(mu, mu_dtype), nu)

    return of_updates(init, update)


def scale_by_adam(
    b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, eps_root: float = 0.0,
    mu_dtype: Any = None, *, nesterov: bool = False,
) -> GradientTransformation:  # fmt: skip
    """Means over roots of mean squares, bias-corrected (Kingma and Ba, 2014, algorithm 1)."""

    def step(updates: Any, state: Any, count: Any) -> tuple[Any, Any, Any]:
        mu = moment(updates, state.mu, b1, 1)
        nu = moment(updates, state.nu, b2, 2)
        means = nesterov_moment(updates, mu, b1, count, nesterov)
        return ratio(means, bias_corrected(nu, b2, count), eps, eps_root), mu, nu

    return _two_moments(step, mu_dtype=mu_dtype)


def scale_by_adamax(
    b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> GradientTransformation:
    """Adam with the largest magnitude in place of the mean square."""

    def step(updates: Any, state: Any, count: Any) -> tuple[Any, Any, Any]:
        mu = moment(updates, state.mu, b1, 1)
        nu = infinity_moment(updates, state.nu, b2, eps)
        return tree_map(lambda m, v: m / v, bias_corrected(mu, b1, count), nu), mu, nu

    return _two_moments(step)


def scale_by_belief(
    b1: float = 0.9, b2: float = 0.999, eps: float = 1e-16, eps_root: float = 1e-16,
    *, nesterov: bool = False,
) -> GradientTransformation:  # fmt: skip
    """Adam with the variance around the mean in place of the mean square (AdaBelief)."""

    def step(updates: Any, state: Any, count: Any) -> tuple[Any, Any, Any]:
        mu = moment(updates, state.mu, b1, 1)
        surprise = tree_map(lambda g, m: g - m, updates, mu)
        nu = tree_map(lambda v: v + eps_root, moment(surprise, state.nu, b2, 2))
        means = nesterov_moment(updates, mu, b1, count, nesterov)
        return ratio(means, bias_corrected(nu, b2, count), eps), mu, nu

    return _two_moments(step)


def scale_by_yogi(
    b1: float = 0.9, b2: float = 0.999, eps: float = 1e-3, eps_root: float = 0.0,
    initial_accumulator_value: float = 1e-6,
) -> GradientTransformation:  # fmt: skip
    """Adam whose mean square grows and shrinks by at most the new square (Yogi)."""

    def squares(g: Any, v: Any) -> Any:
        square = rnp.square(rnp.abs(g))
        return v - (1 - b2) * rnp.sign(v - square) * square

    def step(updates: Any, state: Any, count: Any) -> tuple[Any, Any, Any]:
        mu, nu = moment(updates, state.mu, b1, 1), tree_map(squares, updates, state.nu)
        means = bias_corrected(mu, b1, count)
        return ratio(means, bias_corrected(nu, b2, count), eps, eps_root), mu, nu

    return _two_moments(step, initial_accumulator_value)


def scale_by_radam(
    b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, eps_root: float = 0.0,
    threshold: float = 5.0, *, nesterov: bool = False,
) -> GradientTransformation:  # fmt: skip
    """Adam that waits with dividing until the variance is known well enough (RAdam)."""
    limit = 2.0 / (1.0 - b2) - 1.0

    def step(updates: Any, state: Any, count: Any) -> tuple[Any, Any, Any]:
        mu, nu = moment(updates, state.mu, b1, 1), moment(updates, state.nu, b2, 2)
        number = rnp.astype(count, "f32")
        power = rnp.power(rnp.float32(b2), number)
        length = limit - 2 * number * power / (1 - power)
        rectified = rnp.sqrt(rnp.maximum(
            (length - 4.0) * (length - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * length), 0.0
        ))  # fmt: skip
        means = nesterov_moment(updates, mu, b1, count, nesterov)
        scaled = ratio(means, bias_corrected(nu, b2, count), eps, eps_root)
        known = rnp.greater_equal(length, threshold)
        chosen = tree_map(
            lambda s, m: rnp.where(known, in_dtype_of(m, rectified * s), m), scaled, means
        )
        return chosen, mu, nu

    return _two_moments(step)


def scale_by_amsgrad(
    b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, eps_root: float = 0.0,
    mu_dtype: Any = None, bias_correction_mu: bool = True, bias_correction_nu: bool = True,
) -> GradientTransformation:  # fmt: skip
    """Adam with the largest mean square so far."""

    def update(updates: Any, state: Any) -> tuple[Any, Any]:
        count = state.count + 1
        mu, nu = moment(updates, state.mu, b1, 1), moment(updates, state.nu, b2, 2)
        means = bias_corrected(mu, b1, count) if bias_correction_mu else mu
        squares = bias_corrected(nu, b2, count) if bias_correction_nu else nu
        largest = tree_map(rnp.maximum, state.nu_max, squares)
        new = ScaleByAmsgradState(count, in_dtypes(mu, mu_dtype), nu, largest)
        return ratio(means, largest, eps, eps_root), new

    def init(params: Any) -> Any:
        zeros = like(params)
        return ScaleByAmsgradState(first_step(), like(params, 0.0, mu_dtype), zeros, like(params))

    return of_updates(init, update)
