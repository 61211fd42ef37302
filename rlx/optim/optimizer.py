"""Optimizers as pairs of pure functions.

    optimizer = rlx.optim.adam(1e-3)
    state = optimizer.init(params)
    params, state = optimizer.update(gradients, state, params)

`update` is traced with the loss and its gradient into one step; donate params and state, and
the compiled step replaces them in place. State is a tree of arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.tracing.apply import function
from rlx.tracing.pytree import tree_leaves, tree_map
from rlx.tracing.trace import TracedArray, element_type, shape_of

Schedule: TypeAlias = Callable[[Any], Any]
"""The learning rate at a step number."""


@dataclass(frozen=True, slots=True)
class Optimizer:
    """`init(params)` gives a state; `update(gradients, state, params)` new params and state."""

    init: Callable[[Any], Any]
    update: Callable[[Any, Any, Any], tuple[Any, Any]]


def sgd(
    learning_rate: float | Schedule, momentum: float = 0.0, nesterov: bool = False
) -> Optimizer:
    """Stochastic gradient descent; the velocity is `momentum * velocity + gradient`."""
    if nesterov and not momentum:
        raise InputError("nesterov needs a momentum", remedy="pass momentum=0.9")

    def init(params: Any) -> Any:
        return {"step": _first_step(), **({"velocity": _zeros(params)} if momentum else {})}

    def update(gradients: Any, state: Any, params: Any) -> tuple[Any, Any]:
        rate = rate_at(learning_rate, state["step"])
        new_state = {"step": state["step"] + 1}
        direction = gradients
        if momentum:
            velocity = tree_map(lambda v, g: momentum * v + g, state["velocity"], gradients)
            new_state["velocity"] = velocity
            direction = velocity
            if nesterov:
                direction = tree_map(lambda v, g: momentum * v + g, velocity, gradients)
        return tree_map(lambda p, d: _moved(p, rate * d), params, direction), new_state

    return Optimizer(init, function(update))


def adam(
    learning_rate: float | Schedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> Optimizer:
    """Adam (Kingma and Ba, 2014), algorithm 1."""
    return adamw(learning_rate, b1, b2, eps, weight_decay=0.0)


def adamw(
    learning_rate: float | Schedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    *,
    weight_decay: float = 1e-2,
) -> Optimizer:
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2017)."""

    def init(params: Any) -> Any:
        return {"step": _first_step(), "mean": _zeros(params), "square": _zeros(params)}

    def update(gradients: Any, state: Any, params: Any) -> tuple[Any, Any]:
        step = state["step"] + 1
        rate = rate_at(learning_rate, state["step"])
        mean = tree_map(lambda m, g: b1 * m + (1 - b1) * g, state["mean"], gradients)
        square = tree_map(lambda v, g: b2 * v + (1 - b2) * g * g, state["square"], gradients)
        count = rnp.astype(step, "f32")
        mean_scale = 1 / (1 - rnp.power(np.float32(b1), count))
        square_scale = 1 / (1 - rnp.power(np.float32(b2), count))

        def move(p: Any, m: Any, v: Any) -> Any:
            direction = (m * mean_scale) / (rnp.sqrt(v * square_scale) + eps)
            return _moved(p, rate * (direction + weight_decay * p if weight_decay else direction))

        moved = tree_map(move, params, mean, square)
        return moved, {"step": step, "mean": mean, "square": square}

    return Optimizer(init, function(update))


def global_norm(tree: Any) -> Any:
    """The root of the sum of the squares of all elements of a tree."""
    squares = [rnp.sum(rnp.square(leaf)) for leaf in tree_leaves(tree)]
    total = squares[0]
    for square in squares[1:]:
        total = rnp.add(total, square)
    return rnp.sqrt(total)


def clip_by_global_norm(gradients: Any, max_norm: float) -> Any:
    """Scale a tree of gradients so that its global norm is at most `max_norm`."""
    norm = global_norm(gradients)
    # A zero norm must not divide: the quotient is chosen, and differentiated, only above the limit.
    over = rnp.greater(norm, max_norm)
    scale = rnp.where(over, rnp.divide(max_norm, rnp.where(over, norm, 1)), 1)
    return tree_map(lambda g: rnp.astype(rnp.multiply(g, scale), g.dtype), gradients)


def rate_at(learning_rate: float | Schedule, step: Any) -> Any:
    """Return the learning rate of a step."""
    return learning_rate(step) if callable(learning_rate) else learning_rate


def _moved(param: Any, change: Any) -> Any:
    """Subtract, and keep the dtype of the param."""
    return rnp.astype(rnp.subtract(param, change), param.dtype)


def _zeros(params: Any) -> Any:
    return tree_map(_zeros_like, params)


def _zeros_like(x: Any) -> Any:
    if isinstance(x, TracedArray):
        return rnp.zeros_like(x)
    return np.zeros(shape_of(x), element_type(x).dtype.numpy)


def _first_step() -> Any:
    return np.zeros((), np.int32)
