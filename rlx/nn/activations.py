"""Activation functions."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.op import OpDef
from rlx.numpy.axes import axes_of
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function, inexact
from rlx.tracing.trace import element_type
from rlx.transforms.differentiate import stop_gradient


def _apply(definition: OpDef, x: Any, **attributes: Any) -> Any:
    (x,) = inexact(x)
    return emit(definition, x, weak=x.weak, **attributes)


def _is_complex(x: Any) -> bool:
    return element_type(x).dtype.is_complex


def _along(definition: OpDef, x: Any, axis: int) -> Any:
    """Apply an op of rows along `axis`."""
    (x,) = inexact(x)
    return emit(definition, x, weak=x.weak, axis=axis)


@function
def relu(x: Any) -> Array:
    """`max(x, 0)`."""
    x = as_tracer(x)
    x = convert(x, DType.I32) if x.value.dtype is DType.BOOL else x
    return emit(ops.relu, x, weak=x.weak)


@function
def relu6(x: Any) -> Array:
    """`x` limited to [0, 6]."""
    x = as_tracer(x)
    return rnp.where(rnp.greater_equal(x, 6), 6, relu(x))  # no slope at the corners, as in JAX


@function
def gelu(x: Any, approximate: bool = True) -> Array:
    """`x` times the normal distribution function; by `tanh` if `approximate`, as in JAX."""
    return _apply(ops.gelu_approx if approximate else ops.gelu, x)


@function
def silu(x: Any) -> Array:
    """`x * sigmoid(x)`."""
    if _is_complex(x):
        return rnp.multiply(x, sigmoid(x))
    return _apply(ops.silu, x)


swish = silu


@function
def sigmoid(x: Any) -> Array:
    """`1 / (1 + exp(-x))`."""
    if _is_complex(x):  # of what does not overflow, on either side
        half = rnp.multiply(x, 0.5)
        return rnp.multiply(rnp.add(rnp.tanh(half), 1), 0.5)
    return _apply(ops.sigmoid, x)


@function
def log_sigmoid(x: Any) -> Array:
    """`log(sigmoid(x))`, finite where sigmoid underflows."""
    if _is_complex(x):
        return rnp.negative(softplus(rnp.negative(x)))
    return _apply(ops.log_sigmoid, x)


@function
def tanh(x: Any) -> Array:
    return _apply(ops.tanh, x)


@function
def softplus(x: Any) -> Array:
    """`log(1 + exp(x))`."""
    if _is_complex(x):
        return _complex_softplus(x)
    return _apply(ops.softplus, x)


def _complex_softplus(x: Any) -> Any:
    """Return the principal value, from the exponential on the side where it is small."""
    (x,) = inexact(x)
    is_right = rnp.greater(rnp.real(x), 0)
    near = rnp.log1p(rnp.exp(rnp.where(is_right, rnp.negative(x), x)))
    found = rnp.add(rnp.where(is_right, x, 0), near)
    turns = rnp.ceil(rnp.divide(rnp.subtract(rnp.imag(found), np.pi), 2 * np.pi))
    return rnp.subtract(found, rnp.multiply(turns, 2j * np.pi))


@function
def elu(x: Any, alpha: Any = 1.0) -> Array:
    """`x` where positive, else `alpha * (exp(x) - 1)`; `alpha` may be an array."""
    if isinstance(alpha, (int, float)):
        return _apply(ops.elu, x, alpha=alpha)
    (x,) = inexact(x)
    positive = rnp.greater(x, 0)  # the branch that is not taken stays finite, and so its slope
    return rnp.where(positive, x, rnp.multiply(alpha, rnp.expm1(rnp.where(positive, 0, x))))


@function
def selu(x: Any) -> Array:
    """`elu` scaled to keep activations normalized."""
    return _apply(ops.selu, x)


@function
def leaky_relu(x: Any, negative_slope: Any = 0.01) -> Array:
    """`x` where positive, else `negative_slope * x`; the slope may be an array."""
    if isinstance(negative_slope, (int, float)):
        return _apply(ops.leaky_relu, x, slope=negative_slope)
    (x,) = inexact(x)
    return rnp.where(rnp.greater(x, 0), x, rnp.multiply(negative_slope, x))


@function
def mish(x: Any) -> Array:
    """`x * tanh(softplus(x))`."""
    if _is_complex(x):
        return rnp.multiply(x, rnp.tanh(softplus(x)))
    return _apply(ops.mish, x)


@function
def hard_sigmoid(x: Any) -> Array:
    """`x / 6 + 1/2`, limited to [0, 1]."""
    return _apply(ops.hard_sigmoid, x)


@function
def hard_swish(x: Any) -> Array:
    """`x * hard_sigmoid(x)`."""
    return _apply(ops.hard_swish, x)


@function
def soft_sign(x: Any) -> Array:
    """`x / (1 + abs(x))`."""
    return rnp.divide(x, rnp.add(1, rnp.abs(x)))


@function
def erf(x: Any, /) -> Array:
    """The error function."""
    return _apply(ops.erf, x)


@function
def softmax(x: Any, axis: Any = -1, where: Any = None) -> Array:
    """`exp(x) / sum(exp(x))` along `axis`, or axes; 0 for elements that `where` leaves out."""
    if where is not None:
        return rnp.where(where, softmax(rnp.where(where, x, -rnp.inf), axis), 0)
    if not isinstance(axis, (int, np.integer)) or _is_complex(x):
        return rnp.exp(log_softmax(x, axis))
    return _along(ops.softmax, x, int(axis))


@function
def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Array:
    """The logarithm of `softmax`."""
    if where is not None:
        return rnp.where(where, x - logsumexp(x, axis, keepdims=True, where=where), -rnp.inf)
    if not isinstance(axis, (int, np.integer)) or _is_complex(x):
        return rnp.subtract(x, logsumexp(x, axis, keepdims=True))
    return _along(ops.log_softmax, x, int(axis))


@function
def logsumexp(
    a: Any,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Array:
    """`log(sum(b * exp(a)))`, without overflow; with `return_sign` of its size, and its sign."""
    (a,) = inexact(a)
    if where is not None:
        a = rnp.where(where, a, -rnp.inf)
    if b is not None or return_sign:
        return _weighted_sum(a, axis, 1.0 if b is None else b, keepdims, return_sign)
    if _is_complex(a):
        most = rnp.max(rnp.real(a), axis, keepdims=True)
        most = stop_gradient(rnp.where(rnp.isfinite(most), most, 0))
        found = rnp.log(rnp.sum(rnp.exp(rnp.subtract(a, most)), axis, keepdims=keepdims))
        return rnp.add(found, rnp.reshape(most, found.shape))
    return emit(ops.logsumexp, a, weak=a.weak, axes=axes_of(axis, a.ndim), keepdims=keepdims)


def _weighted_sum(x: Any, axis: Any, b: Any, keepdims: bool, return_sign: bool) -> Any:
    """Return the logarithm of a sum whose terms have weights, or signs."""
    x, b = inexact(x, b)
    x = rnp.where(rnp.equal(b, 0), -rnp.inf, x)
    largest = rnp.max(x, axis, keepdims=True)
    largest = stop_gradient(rnp.where(rnp.isfinite(largest), largest, 0))
    total = rnp.sum(b * rnp.exp(x - largest), axis, keepdims=True)
    found = rnp.log(rnp.abs(total) if return_sign else total) + largest
    sign = rnp.sign(total)
    if not keepdims:
        found, sign = (rnp.squeeze(each, axes_of(axis, each.ndim)) for each in (found, sign))
    return (found, sign) if return_sign else found
