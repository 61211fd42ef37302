"""Normal numbers of an interval, by the distribution function of the side that they are on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.numpy import elementwise as e
from rlx.random.uniforms import digits_of, float_dtype, shape_or, unit_interval
from rlx.runtime.arrays import Array
from rlx.tracing.apply import convert, emit, function

_TAIL = 1.0
"""Intervals beyond it are drawn by the ratio of tails."""
_FRACTION = 4.0
"""From here on Mills' ratio is a continued fraction of `_TERMS`, exact to f64."""
_TERMS = 28


@function
def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None
) -> Array:
    """Normally distributed where that falls in (lower, upper); bounds may be infinite.

    All draws are finite. An interval beyond 1 or -1 is drawn by the ratio of tails, which has
    digits where the distribution function is 0 or 1; others have JAX's bits.
    """
    target = float_dtype(dtype, "truncated_normal")
    low, high = convert(lower, target), convert(upper, target)
    extents = shape_or(shape, low, high)
    u = unit_interval(key, extents, target)
    is_right, is_left = e.greater(low, _TAIL), e.less(high, -_TAIL)
    is_tail = e.logical_and(e.less(low, high), e.logical_or(is_right, is_left))
    near = e.where(is_right, low, e.negative(high))
    far = e.where(is_right, high, e.negative(low))
    rising = e.where(is_right, u, e.subtract(1.0, e.maximum(u, 0.5 ** (digits_of(target) + 1))))
    near, far = e.where(is_tail, near, 2.0), e.where(is_tail, far, 3.0)
    tail = beyond(rising, e.subtract(1.0, rising), near, far)
    tail = e.where(is_right, tail, e.negative(tail))
    drawn = e.where(is_tail, tail, _central(u, *(e.where(is_tail, 0.0, x) for x in (low, high))))
    return e.minimum(e.maximum(drawn, _finite(low, np.inf)), _finite(high, -np.inf))


def _central(u: Any, low: Any, high: Any) -> Any:
    """Return the quantiles by the error function, with JAX's roundings, but finite."""
    root = np.asarray(np.sqrt(2), u.dtype)
    below, above = (emit(ops.erf, e.divide(each, root)) for each in (low, high))
    share = e.maximum(below, e.add(e.multiply(u, e.subtract(above, below)), below))
    most = np.nextafter(np.ones((), u.dtype), np.zeros((), u.dtype))
    return e.multiply(root, emit(ops.erf_inv, e.clip(share, -most, most)))


def beyond(u: Any, rest: Any, low: Any, high: Any) -> Array:
    """Return the quantiles `u`, which is `1 - rest`, of the normal distribution in (low, high).

    With Mills' ratio R, the share of the tail from `low`, above 1, that is beyond x is
    `exp(-d) R(x) / R(low)`, where `2 d = x**2 - low**2`. Its logarithm is almost linear in d,
    so three of Newton's steps are enough.
    """
    is_endless = e.isinf(high)
    end = e.where(is_endless, e.add(low, 1.0), high)
    ratio = _mills(low)
    width = e.multiply(e.subtract(end, low), e.multiply(0.5, e.add(end, low)))
    left = e.subtract(e.log(e.divide(_mills(end), ratio)), width)
    mass = e.where(is_endless, 1.0, e.negative(e.expm1(left)))
    is_inner = e.less(u, 0.5)
    inner = e.log1p(e.negative(e.multiply(e.where(is_inner, u, 0.0), mass)))
    farther = e.where(is_inner, 1.0, e.where(e.equal(rest, 0.0), 1.0, rest))
    outer = e.log(e.add(e.multiply(farther, mass), e.where(is_endless, 0.0, e.exp(left))))
    depth = e.negative(e.where(is_inner, inner, outer))
    d = depth
    for _ in range(3):
        x = e.add(low, _step(low, d))
        own = _mills(x)
        excess = e.subtract(e.subtract(d, e.log(e.divide(own, ratio))), depth)
        d = e.maximum(e.subtract(d, e.multiply(excess, e.multiply(x, own))), 0.0)
    return e.add(low, _step(low, d))


def _step(low: Any, d: Any) -> Any:
    """Return `sqrt(low**2 + 2 d) - low`."""
    doubled = e.divide(e.multiply(2.0, d), low)
    whole = e.sqrt(e.add(1.0, e.divide(doubled, low)))
    return e.divide(doubled, e.add(1.0, whole))


def _mills(x: Any) -> Any:
    """Return the tail of the normal distribution by its density, for x of at least 1."""
    is_far = e.greater(x, _FRACTION)
    inside, outside = e.where(is_far, 1.0, x), e.where(is_far, x, _FRACTION)
    bell = e.exp(e.multiply(0.5, e.square(inside)))
    near = e.multiply(emit(ops.erfc, e.multiply(inside, math.sqrt(0.5))), bell)
    fraction: Any = outside
    for term in range(_TERMS, 0, -1):
        fraction = e.add(outside, e.divide(float(term), fraction))
    return e.where(is_far, e.divide(1.0, fraction), e.multiply(near, math.sqrt(math.pi / 2)))


def _finite(x: Any, towards: float) -> Array:
    """Return the float next to `x` on the way to an infinity."""
    dtype = x.value.dtype
    bits = {2: DType.I16, 4: DType.I32, 8: DType.I64}[dtype.size]
    zero = np.zeros((), dtype.numpy)
    word = emit(ops.bitcast, emit(ops.stop_gradient, x), to=bits)
    grows = e.equal(e.greater(x, zero), np.asarray(towards > 0))
    step = e.where(grows, np.asarray(1, bits.numpy), np.asarray(-1, bits.numpy))
    moved = emit(ops.bitcast, e.add(word, step), to=dtype)
    least = np.nextafter(zero, np.asarray(towards, dtype.numpy))
    moved = e.where(e.equal(x, zero), least, moved)
    return e.where(e.isinf(x), x, moved)
