"""Activations: formulas over elementwise ops, and functions of their own where that is more exact.

The fuser makes one kernel of a formula. Float dtypes only.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rlx.ir.composite import composite
from rlx.ir.declaration import SingleResultOp
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.elementwise import (
    abs,
    eq,
    exp,
    expm1,
    gt,
    is_nan,
    log1p,
    logical_or,
    maximum,
    minimum,
    pow,
    sqrt,
    unary,
    where,
)
from rlx.ir.ops.precision import in_single_precision
from rlx.ir.ops.requirements import require_dtype


def activation(formula: Callable[..., Value]) -> SingleResultOp:
    """Declare an elementwise composite that computes f16 and bf16 in f32."""
    declare = composite("elementwise", Trait.ELEMENTWISE, Trait.IN_PLACE)
    return declare(in_single_precision(formula))


# Klambauer et al., Self-Normalizing Neural Networks (2017), equation 14.
_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


# With a scalar function of their own, as formulas lose the negative tail
gelu = unary(
    "gelu",
    "`x` times the normal distribution function of `x`; -0 at -inf.",
    "float",
    Trait.EXPENSIVE,
)
gelu_approx = unary(
    "gelu_approx",
    "The tanh approximation of `gelu`: `x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.",
    "float",
    Trait.EXPENSIVE,
)
silu = unary("silu", "`x * sigmoid(x)`; -0 at -inf.", "float", Trait.EXPENSIVE)
mish = unary("mish", "`x * tanh(softplus(x))`; -0 at -inf.", "float", Trait.EXPENSIVE)


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


# Not in f32 for f16 and bf16: a derivative divides and multiplies in the dtype of its value.
@composite("elementwise", Trait.ELEMENTWISE, Trait.IN_PLACE)
def divide_or_zero(a: Value, b: Value) -> Value:
    """`a / b`, and `0 * a` where `b` is 0: the subgradient of a norm at the origin.

    Its own derivative there is that of the quotient, an infinity or NaN.
    """
    require_dtype(a.type, "float")
    is_zero = eq(b, 0.0)
    return where(is_zero, 0.0 * a, a / where(is_zero, 1.0, b))


@activation
def hypot(a: Value, b: Value) -> Value:
    """`sqrt(a * a + b * b)`, without overflow; infinite where an operand is."""
    require_dtype(a.type, "float")
    a, b = abs(a), abs(b)
    above = logical_or(gt(a, b), is_nan(a))
    larger, smaller = where(above, a, b), where(above, b, a)
    is_zero = eq(larger, 0.0)
    ratio = smaller / where(is_zero, 1.0, larger)
    scaled = where(is_zero, 0.0, larger * sqrt(1.0 + ratio * ratio))
    return where(logical_or(eq(a, math.inf), eq(b, math.inf)), math.inf, scaled)


@composite("elementwise", Trait.ELEMENTWISE, Trait.IN_PLACE)
def root_of_powers(x: Value, *, order: float) -> Value:
    """`x ** (1 / order)` of a sum of powers, whose gradient is 0 where it is 0."""
    require_dtype(x.type, "float")
    return pow(x, 1.0 / order)


@activation
def leaky_relu(x: Value, *, slope: float = 0.01) -> Value:
    """`x` where positive, else `slope * x`."""
    require_dtype(x.type, "float")
    return where(x > 0.0, x, slope * x)


@activation
def elu(x: Value, *, alpha: float = 1.0) -> Value:
    """`x` where positive, else `alpha * (exp(x) - 1)`."""
    # The unused branch must stay finite: an infinite slope times zero would be NaN. A choice, not
    # `minimum`, whose derivative at 0 is one half.
    positive = x > 0.0
    return where(positive, x, alpha * expm1(where(positive, 0.0, x)))


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
