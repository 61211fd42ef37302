"""Transformations that scale updates by statistics of earlier ones: the cores of optimizers."""

from __future__ import annotations

from typing import Any, NamedTuple

import rlx.numpy as rnp
from rlx.optim.moments import (
    bias_corrected,
    in_dtypes,
    moment,
)
from rlx.optim.protocol import (
    EmptyState,
    GradientTransformation,
    ScaleByScheduleState,
    first_step,
    in_dtype_of,
    like,
    of_each,
    of_updates,
    rate_at,
    stateless_with_tree_map,
    transformation,
    with_params,
)
from rlx.optim.two_moments import ScaleByAdamState
from rlx.tracing.pytree import tree_map


class MomentState(NamedTuple):
    """One running mean."""

    mu: Any


class SquaresState(NamedTuple):
    """Running means of squares."""

    count: Any
    nu: Any


class TraceState(NamedTuple):
    """The velocity."""

    trace: Any


class TwoMeansState(NamedTuple):
    """Running means of the squares of gradients and of updates."""

    e_g: Any
    e_x: Any


class OptimisticState(NamedTuple):
    """The gradient of the step before."""

    is_initial_step: Any
    previous_gradient: Any


def scale_by_lion(
    b1: float = 0.9, b2: float = 0.99, mu_dtype: Any = None
) -> GradientTransformation:
    """The sign of a mean of gradient and momentum (Lion)."""

    def update(updates: Any, state: Any) -> tuple[Any, Any]:
        signs = tree_map(lambda g, m: rnp.sign((1 - b1) * g + b1 * m), updates, state.mu)
        mu = in_dtypes(moment(updates, state.mu, b2, 1), mu_dtype)
        return signs, MomentState(mu)

    return of_updates(lambda p: MomentState(like(p, 0.0, mu_dtype)), update)


def _over_root(x: Any, eps: float, eps_in_sqrt: bool) -> Any:
    return 1 / rnp.sqrt(x + eps) if eps_in_sqrt else 1 / (rnp.sqrt(x) + eps)


def scale_by_rms(
    decay: float = 0.9, eps: float = 1e-8, initial_scale: float = 0.0, eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> GradientTransformation:  # fmt: skip
    """Updates over the root of their mean square."""

    def update(updates: Any, state: Any) -> tuple[Any, Any]:
        nu, count = moment(updates, state.nu, decay, 2), state.count + 1
        squares = bias_corrected(nu, decay, count) if bias_correction else nu
        scaled = tree_map(lambda n, g: _over_root(n, eps, eps_in_sqrt) * g, squares, updates)
        return scaled, SquaresState(count, nu)

    return of_updates(lambda p: SquaresState(first_step(), like(p, initial_scale)), update)


def scale_by_stddev(
    decay: float = 0.9, eps: float = 1e-8, initial_scale: float = 0.0, eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> GradientTransformation:  # fmt: skip
    """Updates over their standard deviation."""

    def update(updates: Any, state: Any) -> tuple[Any, Any]:
        mu, nu = moment(updates, state.mu, decay, 1), moment(updates, state.nu, decay, 2)
        count, means, squares = state.count + 1, mu, nu
        if bias_correction:
            means, squares = (bias_corrected(each, decay, count) for each in (mu, nu))
        scaled = tree_map(
            lambda m, n, g: _over_root(n - rnp.square(rnp.abs(m)), eps, eps_in_sqrt) * g,
            means, squares, updates,
        )  # fmt: skip
        return scaled, ScaleByAdamState(count, mu, nu)

    return of_updates(
        lambda p: ScaleByAdamState(first_step(), like(p), like(p, initial_scale)), update
    )


def scale_by_rss(
    initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> GradientTransformation:
    """Updates over the root of the sum of all their squares."""

    def update(updates: Any, state: Any) -> tuple[Any, Any]:
        total = tree_map(lambda g, t: rnp.square(rnp.abs(g)) + t, updates, state.mu)
        scaled = tree_map(
            lambda t, g: rnp.where(rnp.greater(t, 0), 1 / rnp.sqrt(t + eps), 0.0) * g,
            total, updates,
        )  # fmt: skip
        return scaled, MomentState(total)

    return of_updates(lambda p: MomentState(like(p, initial_accumulator_value)), update)


def scale_by_adadelta(rho: float = 0.9, eps: float = 1e-6) -> GradientTransformation:
    """Updates times the ratio of the mean squares of past updates and gradients."""

    def update(updates: Any, state: Any) -> tuple[Any, Any]:
        e_g = moment(updates, state.e_g, rho, 2)
        scaled = tree_map(
            lambda g, now, past: rnp.sqrt(past + eps) / rnp.sqrt(now + eps) * g,
            updates, e_g, state.e_x,
        )  # fmt: skip
        return scaled, TwoMeansState(e_g, moment(scaled, state.e_x, rho, 2))

    return of_updates(lambda p: TwoMeansState(like(p), like(p)), update)


def scale_by_novograd(
    b1: float = 0.9, b2: float = 0.25, eps: float = 1e-8, eps_root: float = 0.0,
    weight_decay: float = 0.0, mu_dtype: Any = None,
) -> GradientTransformation:  # fmt: skip
    """Momentum of gradients over the mean norm of each array (NovoGrad)."""

    def init(params: Any) -> Any:
        norms = tree_map(lambda p: rnp.zeros((), p.dtype), params)
        return ScaleByAdamState(first_step(), like(params, 0.0, mu_dtype), norms)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        count = state.count + 1
        first = rnp.equal(count, 1)

        def norm(g: Any, n: Any) -> Any:
            square = rnp.sum(rnp.square(rnp.abs(g)))
            return rnp.where(first, square, b2 * n + (1 - b2) * square)

        def direction(g: Any, p: Any, m: Any, n: Any) -> Any:
            scaled = g / (rnp.sqrt(n + eps_root) + eps) + weight_decay * p
            return rnp.where(first, scaled, b1 * m + scaled)

        nu = tree_map(norm, updates, state.nu)
        mu = tree_map(direction, updates, with_params(params), state.mu, nu)
        mu = in_dtypes(mu, mu_dtype)
        return mu, ScaleByAdamState(count, mu, nu)

    return transformation(init, update)


def scale_by_optimistic_gradient(alpha: float = 1.0, beta: float = 1.0) -> GradientTransformation:
    """`(alpha + beta) * gradient - beta * the one before`."""

    def update(updates: Any, state: Any) -> tuple[Any, Any]:
        def ahead(g: Any, past: Any) -> Any:
            return (alpha + beta) * g - beta * rnp.where(state.is_initial_step, g, past)

        moved = tree_map(ahead, updates, state.previous_gradient)
        return moved, OptimisticState(rnp.zeros((), bool), updates)

    return of_updates(lambda p: OptimisticState(rnp.ones((), bool), like(p)), update)


def scale_by_sign() -> GradientTransformation:
    """The signs of updates."""
    return of_each(rnp.sign)


def scale_by_trust_ratio(
    min_norm: float = 0.0, trust_coefficient: float = 1.0, eps: float = 0.0
) -> GradientTransformation:
    """Updates times the norm of the param over that of the update, array by array."""

    def scaled(u: Any, p: Any) -> Any:
        own, moved = (rnp.maximum(rnp.linalg.norm(rnp.ravel(x)), min_norm) for x in (p, u))
        none = rnp.logical_or(rnp.equal(own, 0.0), rnp.equal(moved, 0.0))
        ratio = trust_coefficient * own / (rnp.where(none, 1.0, moved) + eps)
        return u * in_dtype_of(u, rnp.where(none, 1.0, ratio))

    return stateless_with_tree_map(scaled)


def scale_by_param_block_norm(min_scale: float = 1e-3) -> GradientTransformation:
    """Updates times the norm of their param."""
    return stateless_with_tree_map(
        lambda u, p: u * rnp.maximum(rnp.linalg.norm(rnp.ravel(p)), min_scale)
    )


def scale_by_param_block_rms(min_scale: float = 1e-3) -> GradientTransformation:
    """Updates times the root mean square of their param."""
    return stateless_with_tree_map(
        lambda u, p: u * rnp.maximum(rnp.sqrt(rnp.mean(rnp.square(rnp.abs(p)))), min_scale)
    )


def trace(
    decay: float, nesterov: bool = False, accumulator_dtype: Any = None
) -> GradientTransformation:
    """Momentum: the sum of all updates, each `decay` times as much as the next."""

    def update(updates: Any, state: Any) -> tuple[Any, Any]:
        velocity = tree_map(lambda g, t: g + decay * t, updates, state.trace)
        moved = velocity
        if nesterov:
            moved = tree_map(lambda g, t: g + decay * t, updates, velocity)
        return moved, TraceState(in_dtypes(velocity, accumulator_dtype))

    return of_updates(lambda p: TraceState(like(p, 0.0, accumulator_dtype)), update)


def ema(decay: float, debias: bool = True, accumulator_dtype: Any = None) -> GradientTransformation:
    """The running mean of updates."""

    def update(updates: Any, state: Any) -> tuple[Any, Any]:
        mean, count = moment(updates, state.nu, decay, 1), state.count + 1
        shown = bias_corrected(mean, decay, count) if debias else mean
        return shown, SquaresState(count, in_dtypes(mean, accumulator_dtype))

    return of_updates(lambda p: SquaresState(first_step(), like(p, 0.0, accumulator_dtype)), update)


def decayed_weights(weight_decay: Any) -> GradientTransformation:
    """Updates and `weight_decay`, a number or a schedule of it, times the params."""
    scheduled = callable(weight_decay)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        decay = rate_at(weight_decay, state.count if scheduled else None)
        moved = tree_map(lambda u, p: u + in_dtype_of(u, decay * p), updates, with_params(params))
        return moved, ScaleByScheduleState(state.count + 1) if scheduled else state

    return transformation(
        lambda _: ScaleByScheduleState(first_step()) if scheduled else EmptyState(), update
    )
