"""Activations that are formulas over elementwise ops.

They gain nothing from a scalar function of their own: the fuser makes one kernel of each.
Float dtypes only.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rlx.ir.composite import composite
from rlx.ir.graph import Value
from rlx.ir.op import OpDef, Trait
from rlx.ir.ops.elementwise import (
    abs,
    erf,
    exp,
    expm1,
    log1p,
    maximum,
    minimum,
    sigmoid,
    tanh,
    where,
)
from rlx.ir.ops.precision import in_single_precision
from rlx.ir.ops.requirements import require_dtype


def activation(formula: Callable[..., Value]) -> OpDef:
    """Declare an elementwise composite that computes f16 and bf16 in f32."""
    declare = composite("elementwise", Trait.ELEMENTWISE, Trait.IN_PLACE)
    return declare(in_single_precision(formula))


_INVERSE_SQRT_2 = math.sqrt(0.5)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
# Klambauer et al., Self-Normalizing Neural Networks (2017), equation 14.
_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


@activation
def gelu(x: Value) -> Value:
    """`x` times the normal distribution function of `x`, by `erf`."""
    require_dtype(x.type, "float")
    return 0.5 * x * (1.0 + erf(x * _INVERSE_SQRT_2))


@activation
def gelu_approx(x: Value) -> Value:
    """The tanh approximation of `gelu`: `x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`."""
    require_dtype(x.type, "float")
    return 0.5 * x * (1.0 + tanh(_SQRT_2_OVER_PI * (x + 0.044715 * (x * x * x))))


@activation
def silu(x: Value) -> Value:
    """`x * sigmoid(x)`."""
    return x * sigmoid(x)


@activation
def softplus(x: Value) -> Value:
    """`log(1 + exp(x))`, without overflow for large `x`."""
    require_dtype(x.type, "float")
    return maximum(x, 0.0) + log1p(exp(-abs(x)))


@activation
def log_sigmoid(x: Value) -> Value:
    """`log(sigmoid(x))`, finite where sigmoid underflows."""
    require_dtype(x.type, "float")
    return minimum(x, 0.0) - log1p(exp(-abs(x)))


@activation
def leaky_relu(x: Value, *, slope: float = 0.01) -> Value:
    """`x` where positive, else `slope * x`."""
    require_dtype(x.type, "float")
    return where(x > 0.0, x, slope * x)


@activation
def elu(x: Value, *, alpha: float = 1.0) -> Value:
    """`x` where positive, else `alpha * (exp(x) - 1)`."""
    # The unused branch must stay finite: an infinite slope times zero would be NaN.
    return where(x > 0.0, x, alpha * expm1(minimum(x, 0.0)))


@activation
def selu(x: Value) -> Value:
    """`elu` with the scale and alpha that keep activations normalized."""
    return _SELU_SCALE * elu(x, alpha=_SELU_ALPHA)


@activation
def hard_sigmoid(x: Value) -> Value:
    """`x / 6 + 1/2`, clamped to [0, 1]."""
    require_dtype(x.type, "float")
    return minimum(maximum(x + 3.0, 0.0), 6.0) * (1.0 / 6.0)


@activation
def hard_swish(x: Value) -> Value:
    """`x * hard_sigmoid(x)`."""
    return x * hard_sigmoid(x)


@activation
def mish(x: Value) -> Value:
    """`x * tanh(softplus(x))`."""
    return x * tanh(softplus(x))
