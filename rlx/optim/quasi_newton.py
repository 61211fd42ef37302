"""L-BFGS: steps by the curvature that the last steps showed, without a matrix.

Nocedal and Wright, 2006, Numerical optimization, algorithms 7.4 and 7.5 (two loops).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.optim.protocol import (
    GradientTransformation,
    Number,
    chain,
    first_step,
    in_dtype_of,
    like,
    scale,
    scale_by_learning_rate,
    transformation,
    with_params,
)
from rlx.tracing.pytree import tree_leaves, tree_map
from rlx.tracing.trace import element_type, shape_of


class ScaleByLBFGSState(NamedTuple):
    """The step number, the last params and updates, and differences of the steps before."""

    count: Any
    params: Any
    updates: Any
    diff_params_memory: Any
    diff_updates_memory: Any
    weights_memory: Any


def _dot(a: Any, b: Any) -> Any:
    """The sum of the products of two trees."""
    pairs = zip(tree_leaves(a), tree_leaves(b), strict=True)
    return functools.reduce(rnp.add, [rnp.sum(x * y) for x, y in pairs])


def scale_by_lbfgs(
    memory_size: int = 10, scale_init_precond: bool = True
) -> GradientTransformation:
    """Gradients times an approximate inverse of the Hessian, of the last `memory_size` steps.

    Steps along which the gradient did not grow are left out, so that the product descends. The
    first gradient is divided by its norm if that is above 1 (`scale_init_precond`).
    """
    if memory_size < 1:
        raise InputError(f"memory_size is {memory_size}", remedy="remember one step or more")

    def init(params: Any) -> Any:
        def rows(x: Any) -> Any:
            return np.zeros((memory_size, *shape_of(x)), element_type(x).dtype.numpy)

        weights = np.zeros(memory_size, np.result_type(*(rows(x) for x in tree_leaves(params))))
        memory = tree_map(rows, params)
        return ScaleByLBFGSState(
            first_step(), like(params), like(params), memory, tree_map(rows, params), weights
        )

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        params = with_params(params)
        moved = tree_map(rnp.subtract, params, state.params)
        grown = tree_map(rnp.subtract, updates, state.updates)
        curvature = _dot(moved, grown)
        useful = rnp.logical_and(rnp.greater(state.count, 0), rnp.greater(curvature, 0))
        weight = rnp.where(useful, 1 / rnp.where(useful, curvature, 1), 0)

        def pushed(memory: Any, row: Any) -> Any:
            newer = rnp.concatenate([memory[1:], in_dtype_of(memory, row)[None]])
            return rnp.where(useful, newer, memory)

        steps = tree_map(pushed, state.diff_params_memory, moved)
        growths = tree_map(pushed, state.diff_updates_memory, grown)
        weights = pushed(state.weights_memory, weight)
        first: Any = 1.0
        if scale_init_precond:
            norm = rnp.sqrt(_dot(updates, updates))
            first = rnp.where(state.count > 0, 1, 1 / rnp.maximum(norm, 1))
        last, squares = weights[-1], _dot(_row(growths, -1), _row(growths, -1))
        known = rnp.greater(last, 0)
        gamma = rnp.where(known, 1 / rnp.where(known, last * squares, 1), first)
        found = _two_loops(updates, steps, growths, weights, gamma, memory_size)
        return found, ScaleByLBFGSState(state.count + 1, params, updates, steps, growths, weights)

    return transformation(init, update)


def _two_loops(
    gradient: Any, steps: Any, growths: Any, weights: Any, gamma: Any, count: int
) -> Any:
    """Apply the inverse Hessian: from the newest step to the oldest, and back."""
    alphas = []
    found = gradient
    for place in reversed(range(count)):
        s, y = (_row(tree, place) for tree in (steps, growths))
        alphas.append(weights[place] * _dot(s, found))
        found = _plus(found, -alphas[-1], y)
    found = tree_map(lambda x: in_dtype_of(x, gamma * x), found)
    for place in range(count):
        s, y = (_row(tree, place) for tree in (steps, growths))
        beta = weights[place] * _dot(y, found)
        found = _plus(found, alphas[count - 1 - place] - beta, s)
    return found


def _row(tree: Any, place: int) -> Any:
    return tree_map(lambda x: x[place], tree)


def _plus(tree: Any, factor: Any, other: Any) -> Any:
    return tree_map(lambda x, y: in_dtype_of(x, x + factor * y), tree, other)


def lbfgs(
    learning_rate: Number | None = None, memory_size: int = 10, scale_init_precond: bool = True
) -> GradientTransformation:
    """L-BFGS with steps of `learning_rate`, 1 by default; there is no line search."""
    rate = scale(-1) if learning_rate is None else scale_by_learning_rate(learning_rate)
    return chain(scale_by_lbfgs(memory_size, scale_init_precond), rate)
