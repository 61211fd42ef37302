"""Activations that JAX has and `rlx.nn` has not."""

from __future__ import annotations

import math
from typing import Any

import rlx.numpy as rnp
from rlx import nn
from rlx.tracing.apply import function


@function
def identity(x: Any) -> Any:
    """`x` itself."""
    return rnp.positive(x)


@function
def celu(x: Any, alpha: Any = 1.0) -> Any:
    """`x` where positive, else `alpha * (exp(x / alpha) - 1)`."""
    above = rnp.greater(x, 0)  # a choice: the slope of a minimum would be a half at 0
    below = rnp.multiply(alpha, rnp.expm1(rnp.divide(rnp.where(above, 0.0, x), alpha)))
    return rnp.where(above, x, below)


@function
def glu(x: Any, axis: int = -1) -> Any:
    """The first half times the sigmoid of the second."""
    first, second = rnp.split(x, 2, axis)
    return rnp.multiply(first, nn.sigmoid(second))


@function
def hard_tanh(x: Any) -> Any:
    """`x` limited to [-1, 1]."""
    return rnp.where(rnp.greater(x, 1), 1, rnp.where(rnp.less(x, -1), -1, x))


@function
def squareplus(x: Any, b: Any = 4) -> Any:
    """`(x + sqrt(x * x + b)) / 2`."""
    return rnp.multiply(0.5, rnp.add(x, rnp.sqrt(rnp.add(rnp.square(x), b))))


@function
def sparse_plus(x: Any) -> Any:
    """0 up to -1, `x` from 1 on, a parabola between."""
    inner = rnp.multiply(0.25, rnp.square(rnp.add(x, 1.0)))
    return rnp.where(rnp.less_equal(x, -1.0), 0.0, rnp.where(rnp.greater_equal(x, 1.0), x, inner))


@function
def sparse_sigmoid(x: Any) -> Any:
    """0 up to -1, 1 from 1 on, a line between: the slope of `sparse_plus`."""
    return rnp.multiply(0.5, rnp.clip(rnp.add(x, 1.0), 0.0, 2.0))


@function
def log1mexp(x: Any) -> Any:
    """`log(1 - exp(-x))` of positive x, by the form that keeps its digits (Maechler, 2012)."""
    small = rnp.less(x, math.log(2))
    near = rnp.log(rnp.negative(rnp.expm1(rnp.negative(rnp.where(small, x, 1.0)))))
    return rnp.where(small, near, rnp.log1p(rnp.negative(rnp.exp(rnp.negative(x)))))


@function
def logmeanexp(x: Any, axis: Any = None, where: Any = None, keepdims: bool = False) -> Any:
    """`log(mean(exp(x)))`, of the elements where `where` holds."""
    if where is None:
        kept, counted = x, rnp.ones_like(x)
    else:
        kept, counted = rnp.where(where, x, -math.inf), rnp.where(where, rnp.ones_like(x), 0)
    total = nn.logsumexp(kept, axis, keepdims=keepdims)
    return rnp.subtract(total, rnp.log(rnp.sum(counted, axis, keepdims=keepdims)))


@function
def standardize(
    x: Any, axis: Any = -1, mean: Any = None, variance: Any = None, epsilon: Any = 1e-5
) -> Any:
    """`x` less its mean, divided by its standard deviation."""
    mean = rnp.mean(x, axis, keepdims=True) if mean is None else mean
    variance = rnp.var(x, axis, keepdims=True) if variance is None else variance
    return rnp.divide(rnp.subtract(x, mean), rnp.sqrt(rnp.add(variance, epsilon)))


@function
def one_hot(x: Any, num_classes: int, *, dtype: Any = float, axis: int = -1) -> Any:
    """1 at the class along a new axis, 0 elsewhere, everywhere for classes outside."""
    found = rnp.equal(rnp.expand_dims(x, -1), rnp.arange(num_classes))
    return rnp.moveaxis(rnp.astype(found, dtype), -1, axis)
