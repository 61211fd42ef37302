"""`jax.nn.initializers`: functions `(key, shape, dtype)` that draw first values of parameters.

The numbers are JAX's for the same key. `rlx.nn.initializers` has them for NumPy's generators.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError
from rlx.public_names import names_of as _names_of
from rlx.random import normal as _normal
from rlx.random import truncated_normal as _truncated_normal
from rlx.random import uniform as _uniform
from rlx.random.uniforms import default_float

Initializer = Callable[..., Any]
Axes = int | Sequence[int]

_KEPT = 0.87962566103423978
"""Standard deviation of a standard normal that falls in (-2, 2)."""


def _float(dtype: Any) -> Any:
    """Return `dtype`, for None that of JAX's floats: 64 bits where a program asks for them."""
    return default_float().numpy if dtype is None else dtype


def zeros(key: Any, shape: Any, dtype: Any = None) -> Any:
    """Zeros."""
    del key
    return rnp.zeros(shape, _float(dtype))


def ones(key: Any, shape: Any, dtype: Any = None) -> Any:
    """Ones."""
    del key
    return rnp.ones(shape, _float(dtype))


def constant(value: Any, dtype: Any = None) -> Initializer:
    """Return what gives `value` everywhere."""

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        del key
        return rnp.full(shape, value, _float(dtype))

    return init


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Return what draws from [0, scale)."""

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        dtype = _float(dtype)
        return _uniform(key, shape, dtype) * rnp.asarray(scale, dtype)

    return init


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Return what draws normally with mean 0."""

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        dtype = _float(dtype)
        return _normal(key, shape, dtype) * rnp.asarray(stddev, dtype)

    return init


def truncated_normal(
    stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0
) -> Initializer:
    """Return what draws normally within `lower` and `upper` standard deviations."""

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        dtype = _float(dtype)
        drawn = _truncated_normal(key, lower, upper, shape, dtype)
        return drawn * rnp.asarray(stddev, dtype)

    return init


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = None,
) -> Initializer:
    """Return what draws with variance `scale / n`, where `n` counts what `mode` says.

    `mode` is `"fan_in"`, `"fan_out"` or `"fan_avg"`, `distribution` `"truncated_normal"`,
    `"normal"` or `"uniform"`. Axes that are neither in, out nor batch belong to a window.
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        inputs, outputs = _fans(tuple(shape), in_axis, out_axis, batch_axis)
        counts = {"fan_in": inputs, "fan_out": outputs, "fan_avg": (inputs + outputs) / 2}
        variance = scale / _one_of("mode", mode, counts)
        draw = _one_of("distribution", distribution, _DRAWS)
        return draw(key, tuple(shape), _float(dtype), variance)

    return init


def _truncated(key: Any, shape: Any, dtype: Any, variance: float) -> Any:
    drawn = _truncated_normal(key, -2, 2, shape, dtype)
    return drawn * rnp.asarray(math.sqrt(variance) / _KEPT, dtype)


def _normally(key: Any, shape: Any, dtype: Any, variance: float) -> Any:
    return _normal(key, shape, dtype) * rnp.asarray(math.sqrt(variance), dtype)


def _uniformly(key: Any, shape: Any, dtype: Any, variance: float) -> Any:
    return _uniform(key, shape, dtype, -1) * rnp.asarray(math.sqrt(3 * variance), dtype)


_DRAWS = {"truncated_normal": _truncated, "normal": _normally, "uniform": _uniformly}


def _one_of(what: str, chosen: str, known: Any) -> Any:
    if chosen not in known:
        raise InputError(
            f"variance_scaling: {what} is {chosen!r}",
            remedy=f"give one of {', '.join(map(repr, known))}",
        )
    return known[chosen]


def _fans(shape: tuple[int, ...], *named: Axes) -> tuple[float, float]:
    """Return how many inputs and outputs weights of `shape` connect."""
    if len(shape) < 2:
        raise ShapeError(
            f"variance_scaling: shape {shape} has no axis of inputs and one of outputs",
            remedy="give weights of rank 2 or more; `zeros` is usual for biases",
        )
    inputs, outputs, batch = (_extent(shape, axes) for axes in named)
    window = math.prod(shape) / max(inputs * outputs * batch, 1)
    return inputs * window, outputs * window


def _extent(shape: tuple[int, ...], axes: Axes) -> int:
    return math.prod(shape[axis] for axis in ([axes] if isinstance(axes, int) else axes))


glorot_uniform = functools.partial(variance_scaling, 1.0, "fan_avg", "uniform")
glorot_normal = functools.partial(variance_scaling, 1.0, "fan_avg", "truncated_normal")
lecun_uniform = functools.partial(variance_scaling, 1.0, "fan_in", "uniform")
lecun_normal = functools.partial(variance_scaling, 1.0, "fan_in", "truncated_normal")
he_uniform = functools.partial(variance_scaling, 2.0, "fan_in", "uniform")
he_normal = functools.partial(variance_scaling, 2.0, "fan_in", "truncated_normal")
xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Return what draws matrices with orthonormal columns, or rows if they are fewer."""

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        if len(shape) < 2:
            raise ShapeError(
                f"orthogonal: shape {tuple(shape)} is not a matrix",
                remedy="give weights of rank 2 or more",
            )
        dtype, columns = _float(dtype), shape[column_axis]
        rows = math.prod(shape) // columns
        long, short = max(rows, columns), min(rows, columns)
        q, r = rnp.linalg.qr(_normal(key, (long, short), dtype))
        q = q * rnp.sign(rnp.diagonal(r))  # one distribution, whatever signs the factors take
        q = q.T if rows < columns else q
        others = (*shape[:column_axis], *shape[column_axis:][1:])
        whole = rnp.moveaxis(rnp.reshape(q, (*others, columns)), -1, column_axis)
        return rnp.asarray(scale, dtype) * whole

    return init


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Return what draws windows of zeros around one orthogonal matrix (arXiv:1806.05393)."""
    matrix = orthogonal(scale, column_axis, dtype)

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        if not 3 <= len(shape) <= 5 or shape[-1] < shape[-2]:
            raise ShapeError(
                f"delta_orthogonal: shape {tuple(shape)} is not a window of 1 to 3 axes "
                "over as many outputs as inputs, or more",
                remedy="give (*window, inputs, outputs) with inputs <= outputs",
            )
        center = tuple((extent - 1) // 2 for extent in shape[:-2])
        return rnp.zeros(shape, _float(dtype)).at[center].set(matrix(key, shape[-2:], dtype))

    return init


__all__ = [
    "constant",
    "delta_orthogonal",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]

__dir__ = _names_of(__name__)
