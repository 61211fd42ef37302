"""Adafactor: mean squares of a matrix kept as those of its rows and of its columns.

Shazeer and Stern, 2018, Adafactor: Adaptive learning rates with sublinear memory cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import rlx.numpy as rnp
from rlx.optim.limiting import clip_by_block_rms
from rlx.optim.protocol import (
    GradientTransformation,
    Number,
    chain,
    first_step,
    in_dtype_of,
    of_updates,
    scale,
    scale_by_learning_rate,
)
from rlx.optim.scaling import ema, scale_by_param_block_rms
from rlx.optim.wrapping import add_decayed_weights
from rlx.tracing.pytree import tree_flatten, tree_map
from rlx.tracing.trace import shape_of


class FactoredState(NamedTuple):
    """The step number, and mean squares: of rows, of columns, and of what is not factored."""

    count: Any
    v_row: Any
    v_col: Any
    v: Any


def _factored_axes(shape: tuple[int, ...], factored: bool, least: int) -> tuple[int, int] | None:
    """Return the second largest and the largest axis; None where they are too short."""
    if not factored or len(shape) < 2:
        return None
    second, largest = (int(axis) for axis in np.argsort(shape, kind="stable")[-2:])
    return None if shape[second] < least else (second, largest)


def scale_by_factored_rms(
    factored: bool = True, decay_rate: float = 0.8, step_offset: int = 0,
    min_dim_size_to_factor: int = 128, epsilon: float = 1e-30,
) -> GradientTransformation:  # fmt: skip
    """Updates over roots of mean squares, whose decay at step t is `1 - t ** -decay_rate`."""

    def axes_of(x: Any) -> tuple[int, int] | None:
        shape: Any = shape_of(x)
        return _factored_axes(shape, factored, min_dim_size_to_factor)

    def init(params: Any) -> Any:
        def zeros(x: Any, dropped: Callable[[Any], int | None], kept: bool) -> Any:
            shape = [*shape_of(x)]
            axes = axes_of(x)
            if (axes is None) != kept:
                return np.zeros(1, np.float32)
            if axes is not None:
                del shape[dropped(axes)]  # type: ignore[arg-type]  # there are axes
            return np.zeros(shape, np.float32)

        rows = tree_map(lambda x: zeros(x, lambda axes: axes[1], False), params)
        columns = tree_map(lambda x: zeros(x, lambda axes: axes[0], False), params)
        whole = tree_map(lambda x: zeros(x, lambda _: None, True), params)
        return FactoredState(first_step(), rows, columns, whole)

    def update(updates: Any, state: Any) -> tuple[Any, Any]:
        step = rnp.astype(state.count - step_offset + 1, np.float32)
        decay = 1 - rnp.power(step, np.float32(-decay_rate))
        leaves, tree = tree_flatten(updates)
        states = (tree.flatten_up_to(each) for each in state[1:])
        found = [
            _step(g, old, axes_of(g), decay, epsilon)
            for g, *old in zip(leaves, *states, strict=True)
        ]
        trees = [tree.unflatten(column) for column in zip(*found, strict=True)]
        return trees[0], FactoredState(state.count + 1, *trees[1:])

    return of_updates(init, update)


def _step(
    g: Any, old: list[Any], axes: tuple[int, int] | None, decay: Any, eps: float
) -> tuple[Any, Any, Any, Any]:
    """Return the scaled update and the new mean squares of one array."""
    row, column, whole = old
    square = rnp.square(rnp.astype(g, np.float32)) + np.float32(eps)
    if axes is None:
        whole = decay * whole + (1 - decay) * square
        return in_dtype_of(g, g / rnp.sqrt(whole)), row, column, whole
    second, largest = axes
    row = decay * row + (1 - decay) * rnp.mean(square, largest)
    column = decay * column + (1 - decay) * rnp.mean(square, second)
    place = second - (largest < second)
    share = row / rnp.mean(row, place, keepdims=True)
    scaled = g / rnp.sqrt(rnp.expand_dims(share, largest) * rnp.expand_dims(column, second))
    return in_dtype_of(g, scaled), row, column, whole


def adafactor(
    learning_rate: Number | None = None, min_dim_size_to_factor: int = 128,
    decay_rate: float = 0.8, decay_offset: int = 0, multiply_by_parameter_scale: bool = True,
    clipping_threshold: float | None = 1.0, momentum: float | None = None,
    dtype_momentum: Any = np.float32, weight_decay_rate: Number | None = None,
    eps: float = 1e-30, factored: bool = True, weight_decay_mask: Any = None,
) -> GradientTransformation:  # fmt: skip
    """Adafactor; `min_dim_size_to_factor` is the least extent of what is kept as two vectors."""
    parts = [scale_by_factored_rms(factored, decay_rate, decay_offset, min_dim_size_to_factor, eps)]
    if clipping_threshold is not None:
        parts.append(clip_by_block_rms(clipping_threshold))
    if learning_rate is not None:
        parts.append(scale_by_learning_rate(learning_rate, flip_sign=False))
    if multiply_by_parameter_scale:
        parts.append(scale_by_param_block_rms())
    if momentum is not None:
        parts.append(ema(momentum, debias=False, accumulator_dtype=dtype_momentum))
    if weight_decay_rate is not None:
        parts.append(add_decayed_weights(weight_decay_rate, weight_decay_mask))
    return chain(*parts, scale(-1))
