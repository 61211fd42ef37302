"""Elementwise ops in NumPy: one line each."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rlx.ir import ops
from rlx.ir.dtype import as_dtype
from rlx.ir.op import OpDef
from rlx.ir.reference.cast import cast
from rlx.ir.reference.inverse_erf import erf_inv
from rlx.ir.reference.registry import Array, reference

_erfc = np.frompyfunc(math.erfc, 1, 1)
_erf = np.frompyfunc(math.erf, 1, 1)


def _of_floats(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return `function` for floats and the identity for integers."""
    return lambda x: function(x) if np.issubdtype(x.dtype, np.floating) else x


def _sigmoid(x: Array) -> Array:
    decayed, one = np.exp(-np.abs(x)), np.ones_like(x)  # NumPy 1 adds Python's 1 in f64
    return np.where(x < 0, decayed, one) / (one + decayed)


_PI = np.longdouble("3.14159265358979323846264338327950288")


def _wide(x: Array) -> Array:
    """Return `x` with as many bits and as long a range as this machine has."""
    return x.astype(np.longdouble)


def _silu(x: Array) -> Array:
    bounded = np.maximum(_wide(x), -1e4)  # where infinity times zero would be NaN
    return bounded / (1 + np.exp(-bounded))


def _mish(x: Array) -> Array:
    bounded = np.maximum(_wide(x), -5e3)
    grown = np.exp(np.minimum(bounded, 1e3))
    weight = grown * (grown + 2)
    return bounded * (weight / (weight + 2))


def _gelu_approx(x: Array) -> Array:
    bounded = np.maximum(_wide(x), -30.0)
    slope, cubic = 2 * np.sqrt(2 / _PI), np.longdouble("0.044715")
    return bounded / (1 + np.exp(-slope * bounded * (1 + cubic * bounded * bounded)))


def _gelu(x: Array) -> Array:
    """`x * erfc(-x / sqrt(2)) / 2`; erfc has f64 only, so the argument's rounding is corrected."""
    bounded = np.maximum(_wide(x), -40.0)
    exact = -bounded / np.sqrt(np.longdouble(2))
    near = exact.astype(np.float64)
    slope = -2 / np.sqrt(np.pi) * np.exp(-near * near)
    rest = np.where(np.isinf(near), 0, exact - near)
    tail = np.asarray(_erfc(near)).astype(np.longdouble) + slope * rest
    return bounded * tail / 2


def _square(x: Array) -> Array:
    """Of complex numbers by a product whose factors do not overflow sooner than the result."""
    if not np.iscomplexobj(x):
        return np.square(x)
    found = np.empty_like(x)
    found.real, found.imag = (x.real - x.imag) * (x.real + x.imag), (x.real + x.real) * x.imag
    return found


def _div(a: Array, b: Array) -> Array:
    if np.iscomplexobj(a):
        vanishes = np.isinf(b) & np.isfinite(a)  # also where only one part is (C11, annex G)
        return np.where(vanishes, a.dtype.type(0), np.divide(a, b))
    if not np.issubdtype(a.dtype, np.integer):
        return np.divide(a, b)
    divisor = np.where(b == 0, b.dtype.type(1), b)
    quotient = np.floor_divide(a, divisor)
    remainder = a - quotient * divisor
    quotient = quotient + ((remainder != 0) & ((a < 0) != (divisor < 0))).astype(a.dtype)
    return np.where(b == 0, a.dtype.type(0), quotient)


def _pow(a: Array, b: Array) -> Array:
    if np.issubdtype(b.dtype, np.integer):
        positive = np.power(a, np.where(b < 0, b & 1, b))  # 1 and -1 have the period 2
        return np.where((b < 0) & (a != 1) & (a != -1), a.dtype.type(0), positive)
    # Of an exponent for all elements, 0.5, NumPy takes square roots: NaN of -inf, -0.0 of -0.0.
    base, exponent = np.broadcast_arrays(a, b)
    return np.power(np.atleast_1d(base), np.array(exponent, ndmin=1, order="C")).reshape(base.shape)


def _expm1(x: Array) -> Array:
    """Of complex numbers with the special values of the standard, some of which NumPy has not."""
    if not np.iscomplexobj(x):
        return np.expm1(x)
    found, half = np.asarray(np.exp(x)), np.sin(0.5 * x.imag)
    near = np.expm1(x.real) * np.cos(x.imag) - 2 * half * half
    near = np.where(x.imag == 0, np.expm1(x.real), near)
    found.real = np.where(np.isinf(x.real), found.real - 1, near)
    return found


def _log1p(x: Array) -> Array:
    """Of complex numbers with the digits of small ones, which NumPy loses."""
    if not np.iscomplexobj(x):
        return np.log1p(x)
    found = np.asarray(np.log1p(x))  # keeps the sign of -0.0, the side of the cut: `1 + x` does not
    small = (np.abs(x.real) < 0.5) & (np.abs(x.imag) < 0.5)
    re, im = np.where(small, x.real, 0), np.where(small, x.imag, 0)
    found.real = np.where(small, 0.5 * np.log1p(re * (2 + re) + im * im), found.real)
    return found


_FUNCTIONS: dict[OpDef, Callable[..., Array]] = {
    ops.neg: np.negative,
    ops.abs: np.abs,
    ops.sign: np.sign,
    ops.round: _of_floats(np.rint),
    ops.floor: _of_floats(np.floor),
    ops.ceil: _of_floats(np.ceil),
    ops.trunc: _of_floats(np.trunc),
    ops.square: _square,
    ops.reciprocal: lambda x: _div(np.ones_like(x), x),
    ops.sqrt: np.sqrt,
    ops.rsqrt: lambda x: 1 / np.sqrt(x),
    ops.exp: np.exp,
    ops.exp2: np.exp2,
    ops.expm1: _expm1,
    ops.log: np.log,
    ops.log1p: _log1p,
    ops.log2: np.log2,
    ops.sin: np.sin,
    ops.cos: np.cos,
    ops.tan: np.tan,
    ops.asin: np.arcsin,
    ops.acos: np.arccos,
    ops.atan: np.arctan,
    ops.sinh: np.sinh,
    ops.cosh: np.cosh,
    ops.tanh: np.tanh,
    ops.asinh: np.arcsinh,
    ops.acosh: np.arccosh,
    ops.atanh: np.arctanh,
    ops.erf: lambda x: np.asarray(_erf(x.astype(np.float64))).astype(x.dtype),
    ops.erfc: lambda x: np.asarray(_erfc(x.astype(np.float64))).astype(x.dtype),
    ops.erf_inv: erf_inv,
    ops.gelu: lambda x: _gelu(x).astype(x.dtype),
    ops.gelu_approx: lambda x: _gelu_approx(x).astype(x.dtype),
    ops.silu: lambda x: _silu(x).astype(x.dtype),
    ops.mish: lambda x: _mish(x).astype(x.dtype),
    ops.relu: lambda x: np.where(x < 0, x.dtype.type(0), x),  # -0.0 stays
    ops.sigmoid: _sigmoid,
    ops.logical_not: np.logical_not,
    ops.is_nan: np.isnan,
    ops.is_finite: np.isfinite,
    ops.add: np.add,
    ops.sub: np.subtract,
    ops.mul: np.multiply,
    ops.div: _div,
    ops.pow: _pow,
    ops.mod: np.mod,
    ops.atan2: np.arctan2,
    ops.maximum: np.maximum,
    ops.minimum: np.minimum,
    ops.logical_and: np.logical_and,
    ops.logical_or: np.logical_or,
    ops.logical_xor: np.logical_xor,
    ops.bitwise_and: np.bitwise_and,
    ops.bitwise_or: np.bitwise_or,
    ops.bitwise_xor: np.bitwise_xor,
    ops.shift_left: np.left_shift,
    ops.shift_right: np.right_shift,
    ops.eq: np.equal,
    ops.ne: np.not_equal,
    ops.lt: np.less,
    ops.le: np.less_equal,
    ops.gt: np.greater,
    ops.ge: np.greater_equal,
    ops.complex_norm_sq: lambda z: np.square(z.real) + np.square(z.imag),
    ops.conj: np.conj,
    ops.real: np.real,
    ops.imag: np.imag,
}
for _definition, _function in _FUNCTIONS.items():
    reference.register(_definition, _function)

reference.exact(ops.cast)(cast)
reference.exact(ops.bitcast)(lambda x, to: np.ascontiguousarray(x).view(to.numpy).reshape(x.shape))
reference.absent(ops.stop_gradient, because="a view: the interpreter returns the operand")


@reference.exact(ops.where)
def where(condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition != 0, a, b)


@reference(ops.complex)
def complex_from_parts(re: Array, im: Array) -> Array:
    result = np.empty(np.broadcast_shapes(re.shape, im.shape), as_dtype(re.dtype).with_parts.numpy)
    result.real, result.imag = re, im  # `re + 1j * im` would turn an infinity into NaN
    return result
