"""Derivatives of elementwise ops; `docs/numerics.md` lists the conventions at kinks.

Where no derivative exists, those of the functions that the document lists have a subgradient; all
others are what IEEE arithmetic makes of the formula.
"""

from __future__ import annotations

import math

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.passes.algebra import conjugate, expand_to, unbroadcast, under_mask, zeros
from rlx.passes.autodiff.directions import are_many
from rlx.passes.autodiff.registry import (
    Derivatives,
    Pullback,
    Pushforward,
    derivative,
    differential,
    jvp,
    linear,
    vjp,
    zero,
)
from rlx.passes.autodiff.singular import vanishes_with_its_gradient

_LN_2 = math.log(2.0)
_TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)
_HALF_SQRT_PI = math.sqrt(math.pi) / 2.0
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


def _relu_map(v: Value, y: Value, x: Value) -> Value:
    """By the result, so that the operand need not be kept and can stay inside a fused kernel."""
    return ops.where(y > 0.0, v, 0.0)


def _sqrt_map(v: Value, y: Value, x: Value) -> Value:
    """A norm, the root of a sum of squares, has the subgradient 0 at the origin."""
    if vanishes_with_its_gradient(x):
        return ops.divide_or_zero(0.5 * v, y)
    return v * (0.5 / y)


# Sign and rounding
differential(ops.neg, lambda v, y, x: -v)
derivative(ops.abs, lambda y, x: ops.sign(x))
differential(ops.round, lambda v, y, x: v)  # straight through, for quantization-aware training
zero(ops.sign, ops.floor, ops.ceil, ops.trunc, because="piecewise constant")
zero(ops.threefry2x32, ops.philox4x32, because="operands and results are integers")
zero(ops.bitcast, because="a float's bits are no smooth function of it")

# Powers, exponentials and logarithms
derivative(ops.square, lambda y, x: 2.0 * x)
derivative(ops.reciprocal, lambda y, x: -(y * y))
differential(ops.sqrt, _sqrt_map)
derivative(ops.rsqrt, lambda y, x: -0.5 * (y * y * y))
derivative(ops.exp, lambda y, x: y)
derivative(ops.exp2, lambda y, x: _LN_2 * y)
derivative(ops.expm1, lambda y, x: ops.exp(x))  # y + 1 has no digits where y is almost -1
differential(ops.log, lambda v, y, x: v / x)
differential(ops.log1p, lambda v, y, x: v / (1.0 + x))
differential(ops.log2, lambda v, y, x: v / (_LN_2 * x))

# Trigonometric and hyperbolic functions
derivative(ops.sin, lambda y, x: ops.cos(x))
derivative(ops.cos, lambda y, x: -ops.sin(x))
derivative(ops.tan, lambda y, x: 1.0 + y * y)
derivative(ops.asin, lambda y, x: ops.rsqrt((1.0 - x) * (1.0 + x)))
derivative(ops.acos, lambda y, x: -ops.rsqrt((1.0 - x) * (1.0 + x)))
differential(ops.atan, lambda v, y, x: v / (1.0 + x * x))
derivative(ops.sinh, lambda y, x: ops.cosh(x))
derivative(ops.cosh, lambda y, x: ops.sinh(x))
derivative(ops.tanh, lambda y, x: 1.0 - y * y)
derivative(ops.asinh, lambda y, x: ops.rsqrt(x * x + 1.0))
derivative(ops.acosh, lambda y, x: ops.rsqrt(x - 1.0) * ops.rsqrt(x + 1.0))
differential(ops.atanh, lambda v, y, x: v / ((1.0 - x) * (1.0 + x)))
derivative(ops.erf, lambda y, x: _TWO_OVER_SQRT_PI * ops.exp(-(x * x)))
derivative(ops.erf_inv, lambda y, x: _HALF_SQRT_PI * ops.exp(y * y))
derivative(ops.erfc, lambda y, x: -_TWO_OVER_SQRT_PI * ops.exp(-(x * x)))

# Activations. Those that are formulas get a partial of their own where it is shorter.
differential(ops.relu, _relu_map)
derivative(ops.sigmoid, lambda y, x: y * (1.0 - y))
derivative(ops.softplus, lambda y, x: ops.sigmoid(x))
derivative(ops.log_sigmoid, lambda y, x: ops.sigmoid(-x))


def _silu_partial(y: Value, x: Value) -> Value:
    gate = ops.sigmoid(x)
    return gate * (1.0 + x * (1.0 - gate))


def _gelu_partial(y: Value, x: Value) -> Value:
    density = (0.5 * _SQRT_2_OVER_PI) * ops.exp(-0.5 * (x * x))
    distribution = 0.5 * ops.erfc(-math.sqrt(0.5) * x)
    return distribution + x * density


def _gelu_approx_partial(y: Value, x: Value) -> Value:
    cube = 0.044715 * (x * x)
    gate = ops.sigmoid((2.0 * _SQRT_2_OVER_PI) * x * (1.0 + cube))
    slope = (2.0 * _SQRT_2_OVER_PI) * (1.0 + 3.0 * cube)
    return gate * (1.0 + x * (1.0 - gate) * slope)


def _mish_partial(y: Value, x: Value) -> Value:
    t = ops.tanh(ops.softplus(x))
    return t + x * (1.0 - t * t) * ops.sigmoid(x)


derivative(ops.silu, _silu_partial)
derivative(ops.gelu, _gelu_partial)
derivative(ops.gelu_approx, _gelu_approx_partial)
derivative(ops.mish, _mish_partial)


# Arithmetic


def _pow_base(v: Value, y: Value, a: Value, b: Value) -> Value:
    """`b * a^(b-1)`, and 0 rather than 0 * inf for `0^0`."""
    at_zero = ops.logical_and(ops.eq(a, 0.0), ops.eq(b, 0.0))
    return v * (b * ops.pow(a, ops.where(at_zero, 1.0, b) - 1.0))


def _pow_exponent(v: Value, y: Value, a: Value, b: Value) -> Value:
    """`a^b * log(a)`, and 0 rather than 0 * inf for powers of 0."""
    is_flat = ops.eq(a, 0.0)
    if not b.dtype.is_complex:
        is_flat = ops.logical_and(is_flat, b > 0.0)
    return v * (y * ops.log(ops.where(is_flat, 1.0, a)))


def _larger_takes(v: Value, large: Value, small: Value) -> Value:
    """Ties split evenly; a NaN takes nothing."""
    return ops.where(large > small, v, ops.where(ops.eq(large, small), 0.5 * v, 0.0))


def _mod_divisor(v: Value, y: Value, a: Value, b: Value) -> Value:
    """Less the quotient that the remainder belongs to; one that is the divisor itself is of -1."""
    return v * ops.where(ops.eq(y, b), 1.0, -ops.round((a - y) / b))


def _over_divisor(v: Value, y: Value, a: Value, b: Value) -> Value:
    return v * (1.0 / b) if are_many() else v / b


def _by_divisor(v: Value, y: Value, a: Value, b: Value) -> Value:
    return v * -(y / b) if are_many() else -(v / b) * y


differential(ops.add, lambda v, y, a, b: v, lambda v, y, a, b: v)
differential(ops.sub, lambda v, y, a, b: v, lambda v, y, a, b: -v)
PRODUCT = derivative(ops.mul, lambda y, a, b: b, lambda y, a, b: a)
differential(ops.div, _over_divisor, _by_divisor)
differential(ops.divide_or_zero, lambda v, y, a, b: v / b, lambda v, y, a, b: -(v / b) * y)
differential(
    ops.hypot,
    lambda v, y, a, b: ops.divide_or_zero(v, y) * a,
    lambda v, y, a, b: ops.divide_or_zero(v, y) * b,
)
differential(
    ops.root_of_powers,
    lambda v, y, x, *, order: ops.divide_or_zero((1.0 / order) * (v * y), x),
)
differential(ops.pow, _pow_base, _pow_exponent)
differential(ops.mod, lambda v, y, a, b: v, _mod_divisor)
differential(
    ops.atan2,
    lambda v, y, a, b: v * b / (a * a + b * b),
    lambda v, y, a, b: -(v * a) / (a * a + b * b),
)
differential(
    ops.maximum,
    lambda v, y, a, b: _larger_takes(v, a, b),
    lambda v, y, a, b: _larger_takes(v, b, a),
)
differential(
    ops.minimum,
    lambda v, y, a, b: _larger_takes(v, b, a),
    lambda v, y, a, b: _larger_takes(v, a, b),
)


@vjp(ops.mul)
def mul_vjp(at: Pullback, a: Value, b: Value) -> Derivatives:
    """A square has one cotangent, not the sum of two equal ones."""
    if a is not b:
        return PRODUCT.vjp(at, a, b)
    return under_mask(lambda g: g * (2.0 * conjugate(a)), at.cotangent)


@vjp(ops.sub)
def sub_vjp(at: Pullback, a: Value, b: Value) -> Derivatives:
    """Negate after the sum over broadcast axes, where there is less to negate."""
    g = at.cotangent
    return (
        unbroadcast(g, a.shape) if at.wanted[0] else None,
        -unbroadcast(g, b.shape) if at.wanted[1] else None,
    )


# Selection, comparison, conversion
differential(
    ops.where,
    None,
    lambda v, y, c, a, b: ops.where(c, v, 0.0),
    lambda v, y, c, a, b: ops.where(c, 0.0, v),
)


@jvp(ops.where)
def where_jvp(at: Pushforward, condition: Value, a: Value, b: Value) -> Derivatives:
    """One selection of both tangents, not a sum of two selections."""
    _, t_a, t_b = at.tangents
    if t_a is None and t_b is None:
        return None
    moved = ops.where(condition, 0.0 if t_a is None else t_a, 0.0 if t_b is None else t_b)
    return expand_to(moved, at.result.shape)


def cast_transpose(at: Pullback, x: Value, *, to: DType, rounding: str) -> Derivatives:
    """Between real and complex the pairing counts the real part twice."""
    g = at.cotangent
    if x.dtype.is_complex and not to.is_complex:
        return 0.5 * ops.cast(g, to=x.dtype)
    if to.is_complex and not x.dtype.is_complex:
        return ops.cast(2.0 * ops.real(g), to=x.dtype) if x.dtype.is_float else None
    return ops.cast(g, to=x.dtype) if x.dtype.is_differentiable else None


linear(ops.cast, cast_transpose)
zero(ops.stop_gradient, because="what it is for")
zero(ops.eq, ops.ne, ops.lt, ops.le, ops.gt, ops.ge, because="the result is a bool")
zero(ops.logical_not, ops.logical_and, ops.logical_or, ops.logical_xor, because="bools only")
zero(ops.is_nan, ops.is_finite, because="the result is a bool")
zero(ops.bitwise_and, ops.bitwise_or, ops.bitwise_xor, because="integers only")
zero(ops.shift_left, ops.shift_right, because="integers only")


# Complex numbers


def complex_transpose(at: Pullback, re: Value, im: Value) -> Derivatives:
    g = at.cotangent
    return (
        unbroadcast(2.0 * ops.real(g), re.shape) if at.wanted[0] else None,
        unbroadcast(2.0 * ops.imag(g), im.shape) if at.wanted[1] else None,
    )


def imag_transpose(at: Pullback, z: Value) -> Derivatives:
    half: Value = 0.5 * at.cotangent
    return ops.complex(zeros(at.graph, half.type.with_shape(())), half)


@vjp(ops.complex_norm_sq)
def complex_norm_sq_vjp(at: Pullback, z: Value) -> Derivatives:
    """The transposed tangent rule would conjugate twice and halve what it doubled."""
    return ops.cast(at.cotangent, to=z.dtype) * z


linear(ops.conj, lambda at, z: ops.conj(at.cotangent))
linear(ops.real, lambda at, z: 0.5 * ops.cast(at.cotangent, to=z.dtype))
linear(ops.imag, imag_transpose)
linear(ops.complex, complex_transpose)
