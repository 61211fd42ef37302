"""Gradient transformations as pairs of pure functions, by optax's protocol.

    optimizer = rlx.optim.adam(1e-3)
    state = optimizer.init(params)
    updates, state = optimizer.update(gradients, state, params)
    params = rlx.optim.apply_updates(params, updates)

`update` is traced with the loss and its gradient into one step; donate params and state, and
the compiled step replaces them in place. State is a tree of arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.tracing.apply import function
from rlx.tracing.pytree import tree_leaves, tree_map
from rlx.tracing.trace import TracedArray, element_type, shape_of

Schedule: TypeAlias = Callable[[Any], Any]
"""A number, as a learning rate, at a step number."""
Number: TypeAlias = Any
"""A float, or a `Schedule` where that is said."""
Update: TypeAlias = Callable[..., tuple[Any, Any]]
"""`update(updates, state, params=None)` gives new updates and the new state."""


class GradientTransformation(NamedTuple):
    """`init(params)` gives a state; `update(updates, state, params)` updates and a state."""

    init: Callable[[Any], Any]
    update: Update


Optimizer = GradientTransformation
"""A transformation whose updates are ready to be added to params."""


class EmptyState(NamedTuple):
    """The state of what remembers nothing."""


class ScaleByScheduleState(NamedTuple):
    """The step number."""

    count: Any


def transformation(init: Callable[[Any], Any], update: Update) -> GradientTransformation:
    """Return a transformation whose `update` works on arrays of numbers, too, at once."""
    return GradientTransformation(init, function(update))


def of_updates(
    init: Callable[[Any], Any], update: Callable[[Any, Any], tuple[Any, Any]]
) -> GradientTransformation:
    """Return a transformation that does not look at the params."""

    def without_params(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        return update(updates, state)

    return transformation(init, without_params)


def stateless(
    f: Callable[[Any, Any], Any],
) -> GradientTransformation:
    """A transformation `f(updates, params)` without a state."""
    return transformation(lambda _: EmptyState(), lambda u, s, params=None: (f(u, params), s))


def stateless_with_tree_map(f: Callable[[Any, Any], Any]) -> GradientTransformation:
    """A transformation `f(update, param)` of each array, without a state."""
    return stateless(lambda updates, params: tree_map(f, updates, with_params(params)))


def of_each(f: Callable[[Any], Any]) -> GradientTransformation:
    """A transformation of each array by itself, without a state."""
    return stateless(lambda updates, _: tree_map(f, updates))


def identity() -> GradientTransformation:
    """Updates as they are."""
    return of_each(lambda u: u)


def set_to_zero() -> GradientTransformation:
    """No updates: what is frozen."""
    return of_each(rnp.zeros_like)


def chain(*transformations: GradientTransformation) -> GradientTransformation:
    """One transformation after the other; the state is the tuple of their states."""

    def init(params: Any) -> Any:
        return tuple(each.init(params) for each in transformations)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        states = []
        for each, own in zip(transformations, state, strict=True):
            updates, new = each.update(updates, own, params)
            states.append(new)
        return updates, tuple(states)

    return transformation(init, update)


def named_chain(*transformations: tuple[str, GradientTransformation]) -> GradientTransformation:
    """A `chain` whose state is a dict by the names."""
    names = [name for name, _ in transformations]
    whole = chain(*(each for _, each in transformations))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        updates, states = whole.update(updates, tuple(state[name] for name in names), params)
        return updates, dict(zip(names, states, strict=True))

    return transformation(lambda p: dict(zip(names, whole.init(p), strict=True)), update)


def scale(step_size: float) -> GradientTransformation:
    """Updates times a number."""
    return of_each(lambda u: step_size * u)


def scale_by_schedule(step_size_fn: Schedule) -> GradientTransformation:
    """Updates times the schedule's value at the step."""

    def update(updates: Any, state: Any) -> tuple[Any, Any]:
        size = step_size_fn(state.count)
        scaled = tree_map(lambda u: in_dtype_of(u, size * u), updates)
        return scaled, ScaleByScheduleState(state.count + 1)

    return of_updates(lambda _: ScaleByScheduleState(first_step()), update)


def scale_by_learning_rate(
    learning_rate: Number, *, flip_sign: bool = True
) -> GradientTransformation:
    """Updates times a rate or a schedule of it, downhill unless `flip_sign` is false."""
    sign = -1 if flip_sign else 1
    if callable(learning_rate):
        return scale_by_schedule(lambda count: sign * learning_rate(count))
    return scale(sign * learning_rate)


@function
def apply_updates(params: Any, updates: Any) -> Any:
    """Params with the updates added; their dtypes stay. An update of `None` changes nothing."""

    def moved(p: Any, u: Any) -> Any:
        return p if u is None else in_dtype_of(p, rnp.add(p, u))

    return tree_map(moved, params, updates)


@function
def incremental_update(new_tensors: Any, old_tensors: Any, step_size: Any) -> Any:
    """The way from old to new, `step_size` of it: a moving average of params."""
    return tree_map(lambda n, o: step_size * n + (1 - step_size) * o, new_tensors, old_tensors)


@function
def periodic_update(new_tensors: Any, old_tensors: Any, steps: Any, update_period: int) -> Any:
    """The new ones where `steps` is a multiple of the period, else the old ones."""
    now = rnp.equal(rnp.remainder(steps, update_period), 0)
    return tree_map(lambda n, o: rnp.where(now, n, o), new_tensors, old_tensors)


@function
def global_norm(updates: Any) -> Any:
    """The root of the sum of the squares of all elements of a tree."""
    squares = [rnp.sum(rnp.square(rnp.abs(leaf))) for leaf in tree_leaves(updates)]
    if not squares:
        return np.zeros((), np.float32)
    return rnp.sqrt(functools.reduce(rnp.add, squares))


# What transformations are made of


def with_params(params: Any) -> Any:
    """Return `params`, which the caller of `update` must have given."""
    if params is None:
        raise InputError("update needs the params", remedy="call update(gradients, state, params)")
    return params


def rate_at(rate: Number, step: Any) -> Any:
    """Return the value of a rate, or of its schedule at a step."""
    return rate(step) if callable(rate) else rate


def in_dtype_of(x: Any, value: Any) -> Any:
    """Return `value` in the dtype of `x`."""
    return rnp.astype(value, element_type(x).dtype)


def like(params: Any, value: Any = 0.0, dtype: Any = None) -> Any:
    """Return a tree of arrays like `params`, full of one number."""
    return tree_map(lambda x: _full_like(x, value, dtype), params)


def _full_like(x: Any, value: Any, dtype: Any) -> Any:
    if isinstance(x, TracedArray) or isinstance(value, TracedArray) or dtype is not None:
        return rnp.full_like(x, value, dtype=dtype)
    return np.full(shape_of(x), value, element_type(x).dtype.numpy)


def first_step() -> Any:
    """Return the number of the first step, as a part of a state."""
    return np.zeros((), np.int32)
