"""Transformations that limit updates, or repair them: clipping, norms, NaN."""

from __future__ import annotations

from typing import Any, NamedTuple

import rlx.numpy as rnp
from rlx import random
from rlx.optim.protocol import (
    GradientTransformation,
    first_step,
    global_norm,
    of_each,
    of_updates,
    stateless,
    stateless_with_tree_map,
)
from rlx.tracing.pytree import tree_flatten, tree_map, tree_unflatten


class AddNoiseState(NamedTuple):
    """The step number, and the key of the noise to come."""

    count: Any
    rng_key: Any


def clip(max_delta: float) -> GradientTransformation:
    """Every element limited to [-max_delta, max_delta]."""
    return of_each(lambda u: rnp.clip(u, -max_delta, max_delta))


def clip_by_global_norm(max_norm: float) -> GradientTransformation:
    """All updates scaled so that their global norm is at most `max_norm`; NaN makes all NaN."""

    def limited(updates: Any, _: Any) -> Any:
        norm = global_norm(updates)
        # A zero norm must not divide: the quotient is chosen, and differentiated, above the limit.
        over = rnp.logical_not(rnp.less_equal(norm, max_norm))
        scale = rnp.where(over, rnp.divide(max_norm, rnp.where(over, norm, 1)), 1)
        return tree_map(lambda g: rnp.astype(rnp.multiply(g, scale), g.dtype), updates)

    return stateless(limited)


def clip_by_block_rms(threshold: float) -> GradientTransformation:
    """Each array scaled so that its root mean square is at most `threshold`."""

    def limited(u: Any) -> Any:
        size = rnp.sqrt(rnp.mean(rnp.square(rnp.abs(u))))
        return u / rnp.maximum(1.0, size / threshold)

    return of_each(limited)


def adaptive_grad_clip(
    clipping: float, eps: float = 1e-3, axis: int | tuple[int, ...] | None = None
) -> GradientTransformation:
    """Each unit's update limited to `clipping` times the norm of its params (NFNets)."""

    def limited(u: Any, p: Any) -> Any:
        norm, most = _unit_norm(u, axis), clipping * rnp.maximum(_unit_norm(p, axis), eps)
        return rnp.where(rnp.less(norm, most), u, u * (most / rnp.maximum(norm, 1e-6)))

    return stateless_with_tree_map(limited)


def _unit_norm(x: Any, axis: Any) -> Any:
    """The norm of what feeds one unit: of matrices, heads of them and windows of convolutions."""
    if axis is None and sum(extent > 1 for extent in x.shape) > 1:
        axis = 0 if x.ndim < 4 else tuple(range(x.ndim - 1))
    return rnp.sqrt(rnp.sum(rnp.square(rnp.abs(x)), axis, keepdims=True))


def centralize() -> GradientTransformation:
    """Updates of matrices and more, less their mean over all axes but the first."""

    def centered(u: Any) -> Any:
        if u.ndim < 2:
            return u
        return u - rnp.mean(u, tuple(range(1, u.ndim)), keepdims=True)

    return of_each(centered)


def normalize_by_update_norm(
    scale_factor: float = 1.0, eps: float = 1e-6
) -> GradientTransformation:
    """All updates over their global norm, times `scale_factor`."""

    def normalized(updates: Any, _: Any) -> Any:
        norm = global_norm(updates) + eps
        return tree_map(lambda u: rnp.astype(scale_factor * u / norm, u.dtype), updates)

    return stateless(normalized)


def zero_nans() -> GradientTransformation:
    """Updates with 0 in place of NaN."""
    return of_each(lambda u: rnp.where(rnp.isnan(u), 0, u))


def keep_params_nonnegative() -> GradientTransformation:
    """Updates that take no param below 0."""
    return stateless_with_tree_map(lambda u, p: rnp.where(rnp.less(p + u, 0.0), -p, u))


def add_noise(eta: float, gamma: float, key: Any = 0) -> GradientTransformation:
    """Updates and normal noise of variance `eta / step ** gamma`."""

    def init(params: Any) -> Any:
        del params
        return AddNoiseState(first_step(), random.PRNGKey(key) if isinstance(key, int) else key)

    def update(updates: Any, state: Any) -> tuple[Any, Any]:
        count = state.count + 1
        deviation = rnp.sqrt(eta / rnp.power(rnp.astype(count, "f32"), gamma))
        following, own = random.split(state.rng_key)
        leaves, tree = tree_flatten(updates)
        keys = random.split(own, len(leaves))
        noisy = [
            leaf
            + rnp.astype(deviation * random.normal(keys[i], leaf.shape, leaf.dtype), leaf.dtype)
            for i, leaf in enumerate(leaves)
        ]
        return tree_unflatten(tree, noisy), AddNoiseState(count, following)

    return of_updates(init, update)
