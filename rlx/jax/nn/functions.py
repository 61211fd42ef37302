"""Functions of `jax.nn` that `rlx.nn` has not, or with other arguments."""

from __future__ import annotations

import math
from typing import Any

import rlx.numpy as rnp
from rlx import nn
from rlx.errors import InputError, UnsupportedError
from rlx.ir.source_lines import calling_source
from rlx.runtime.arrays import Array
from rlx.tracing.apply import function


@function
def identity(x: Any) -> Array:
    """`x` itself."""
    return rnp.positive(x)


@function
def celu(x: Any, alpha: Any = 1.0) -> Array:
    """`x` where positive, else `alpha * (exp(x / alpha) - 1)`."""
    above = rnp.greater(x, 0)  # a choice: the slope of a minimum would be a half at 0
    below = rnp.multiply(alpha, rnp.expm1(rnp.divide(rnp.where(above, 0.0, x), alpha)))
    return rnp.where(above, x, below)


@function
def glu(x: Any, axis: int = -1) -> Array:
    """The first half times the sigmoid of the second."""
    first, second = rnp.split(x, 2, axis)
    return rnp.multiply(first, nn.sigmoid(second))


@function
def hard_tanh(x: Any) -> Array:
    """`x` limited to [-1, 1]."""
    return rnp.where(rnp.greater(x, 1), 1, rnp.where(rnp.less(x, -1), -1, x))


@function
def squareplus(x: Any, b: Any = 4) -> Array:
    """`(x + sqrt(x * x + b)) / 2`."""
    return rnp.multiply(0.5, rnp.add(x, rnp.sqrt(rnp.add(rnp.square(x), b))))


@function
def sparse_plus(x: Any) -> Array:
    """0 up to -1, `x` from 1 on, a parabola between."""
    inner = rnp.multiply(0.25, rnp.square(rnp.add(x, 1.0)))
    return rnp.where(rnp.less_equal(x, -1.0), 0.0, rnp.where(rnp.greater_equal(x, 1.0), x, inner))


@function
def sparse_sigmoid(x: Any) -> Array:
    """0 up to -1, 1 from 1 on, a line between: the slope of `sparse_plus`."""
    return rnp.multiply(0.5, rnp.clip(rnp.add(x, 1.0), 0.0, 2.0))


@function
def log1mexp(x: Any) -> Array:
    """`log(1 - exp(-x))` of positive x, by the form that keeps its digits (Maechler, 2012)."""
    small = rnp.less(x, math.log(2))
    near = rnp.log(rnp.negative(rnp.expm1(rnp.negative(rnp.where(small, x, 1.0)))))
    return rnp.where(small, near, rnp.log1p(rnp.negative(rnp.exp(rnp.negative(x)))))


@function
def logmeanexp(x: Any, axis: Any = None, where: Any = None, keepdims: bool = False) -> Array:
    """`log(mean(exp(x)))`, of the elements where `where` holds."""
    if where is None:
        kept, counted = x, rnp.ones_like(x)
    else:
        kept, counted = rnp.where(where, x, -math.inf), rnp.where(where, rnp.ones_like(x), 0)
    total = nn.logsumexp(kept, axis, keepdims=keepdims)
    return rnp.subtract(total, rnp.log(rnp.sum(counted, axis, keepdims=keepdims)))


@function
def standardize(
    x: Any,
    axis: Any = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-5,
    where: Any = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """`x` less its mean, divided by its standard deviation.

    Mean and variance are those of elements where `where` holds. Around a mean that is given, the
    variance is the mean square of `x` less its square ("fast") or that of `x` less it ("stable").
    """
    if algorithm not in ("fast", "stable"):
        raise InputError(
            f"algorithm is {algorithm!r}; it must be 'fast' or 'stable'",
            source=calling_source(),
            remedy="pass algorithm='fast' or algorithm='stable'",
        )
    by_squares = mean is not None and algorithm == "fast"  # without cancellation otherwise
    mean = rnp.mean(x, axis, keepdims=True, where=where) if mean is None else mean
    if variance is None:
        squares = rnp.square(x if by_squares else rnp.subtract(x, mean))
        variance = rnp.mean(squares, axis, keepdims=True, where=where)
        if by_squares:
            variance = rnp.maximum(rnp.subtract(variance, rnp.square(mean)), 0)
    return rnp.divide(rnp.subtract(x, mean), rnp.sqrt(rnp.add(variance, epsilon)))


@function
def one_hot(x: Any, num_classes: int, *, dtype: Any = float, axis: int = -1) -> Array:
    """1 at the class along a new axis, 0 elsewhere, everywhere for classes outside."""
    found = rnp.equal(rnp.expand_dims(x, -1), rnp.arange(num_classes))
    return rnp.moveaxis(rnp.astype(found, dtype), -1, axis)


@function
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,  # noqa: ARG001  part of the signature
    return_residual: bool = False,
) -> Array:
    """Attention over `[B, T, N, H]` (or `[T, N, H]`) arrays; query `i` sees keys up to `i`.

    Of sequences shorter than the arrays, keys beyond the length are hidden and results 0. A window
    `(before, after)` hides keys that are farther from the query.
    """
    if return_residual:
        raise UnsupportedError(
            "dot_product_attention returns no residual, the logarithms of the sums of each row",
            source=calling_source(),
            remedy="compute them by logsumexp of the scores",
        )
    queries, keys = rnp.shape(query)[-3], rnp.shape(key)[-3]
    masks = [] if mask is None else [mask]
    is_square = queries == keys
    if is_causal and not is_square:
        masks.append(_apart(queries, keys) <= 0)
    if local_window_size is not None:
        window = local_window_size
        before, after = (window, window) if isinstance(window, int) else window
        apart = _apart(queries, keys)
        masks.append(rnp.logical_and(apart >= -before, apart <= after))
    if key_value_seq_lengths is not None:
        masks.append(rnp.expand_dims(_within(keys, key_value_seq_lengths), (1, 2)))
    if query_seq_lengths is not None:
        masks.append(rnp.expand_dims(_within(queries, query_seq_lengths), (1, 3)))
    for further in masks[1:]:
        masks[0] = rnp.logical_and(masks[0], further)
    found = nn.dot_product_attention(
        query, key, value, bias, masks[0] if masks else None, scale=scale,
        is_causal=is_causal and is_square,
    )  # fmt: skip
    if query_seq_lengths is None:
        return found
    kept = rnp.expand_dims(_within(queries, query_seq_lengths), (2, 3))
    return rnp.where(kept if rnp.ndim(found) == 4 else kept[0], found, 0)


def _apart(queries: Any, keys: Any) -> Any:
    """Return how far each key is after each query."""
    return rnp.subtract(rnp.arange(keys), rnp.expand_dims(rnp.arange(queries), -1))


def _within(extent: Any, lengths: Any) -> Any:
    """Return which positions `[B, extent]` are before the length."""
    return rnp.less(rnp.arange(extent), rnp.expand_dims(lengths, -1))
