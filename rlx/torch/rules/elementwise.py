"""Arithmetic, comparisons and functions of one element."""

from __future__ import annotations

import math
from typing import Any

import rlx.numpy as rnp
import rlx.scipy.special as special
from rlx import lax
from rlx.ir.dtype import DType
from rlx.torch.registry import elementwise, enter, rule

enter({
    "acos": rnp.arccos, "acosh": rnp.arccosh, "asin": rnp.arcsin, "asinh": rnp.arcsinh,
    "atan": rnp.arctan, "atanh": rnp.arctanh, "atan2": rnp.arctan2,
    "ceil": rnp.ceil, "floor": rnp.floor, "trunc fix": rnp.trunc,
    "cos": rnp.cos, "cosh": rnp.cosh, "sin": rnp.sin, "sinh": rnp.sinh, "tan": rnp.tan,
    "tanh": rnp.tanh,
    "exp": rnp.exp, "exp2 special_exp2": rnp.exp2, "expm1": rnp.expm1,
    "log": rnp.log, "log2": rnp.log2, "log10": rnp.log10, "log1p": rnp.log1p,
    "sqrt": rnp.sqrt, "rsqrt": lax.rsqrt, "reciprocal": rnp.reciprocal, "square": rnp.square,
    "neg": rnp.negative, "positive": rnp.positive,
    "sigmoid": lax.logistic, "erf": lax.erf, "erfc special_erfc": lax.erfc,
    "erfinv special_erfinv": lax.erf_inv, "lgamma": lax.lgamma,
    "i0 special_i0 special_modified_bessel_i0": special.i0, "special_i0e": special.i0e,
    "special_i1 special_modified_bessel_i1": special.i1,
    "special_i1e": special.i1e,
    "mul multiply": rnp.multiply,
    "maximum": rnp.maximum, "minimum": rnp.minimum, "fmax": rnp.fmax, "fmin": rnp.fmin,
    "hypot": rnp.hypot, "copysign": rnp.copysign, "nextafter": rnp.nextafter,
    "gcd": rnp.gcd, "lcm": rnp.lcm, "clamp_max": rnp.minimum,
    "logaddexp": rnp.logaddexp, "logaddexp2": rnp.logaddexp2,
    "bitwise_and __and__": rnp.bitwise_and, "bitwise_or __or__": rnp.bitwise_or,
    "bitwise_xor __xor__": rnp.bitwise_xor, "bitwise_not": rnp.bitwise_not,
    "_conj conj_physical _conj_physical": rnp.conj,
    "sinc special_sinc": rnp.sinc,
    "special_ndtr": special.ndtr, "special_log_ndtr": special.log_ndtr,
    "special_ndtri": special.ndtri, "special_entr": special.entr, "special_erfcx": special.erfcx,
    "special_zeta": lax.zeta,
    "igamma special_gammainc": lambda a, x: lax.igamma(_in_f64(a), _in_f64(x)),
    "igammac special_gammaincc": lambda a, x: lax.igammac(_in_f64(a), _in_f64(x)),
    "xlogy special_xlogy": lambda x, y: _product_with(rnp.log, x, y),
    "special_xlog1py": lambda x, y: _product_with(rnp.log1p, x, y),
    "prims.fma": lambda x, y, z: x * y + z,  # rounded twice
}, promotion="result")  # fmt: skip

enter({
    "eq": rnp.equal, "ne": rnp.not_equal, "lt": rnp.less, "le": rnp.less_equal,
    "gt": rnp.greater, "ge": rnp.greater_equal,
    "logical_and": rnp.logical_and, "logical_or": rnp.logical_or, "logical_xor": rnp.logical_xor,
    "logical_not": rnp.logical_not,
    "isnan": rnp.isnan, "isinf": rnp.isinf, "isfinite": rnp.isfinite, "signbit": rnp.signbit,
    "isposinf": rnp.isposinf, "isneginf": rnp.isneginf,
}, promotion="operands")  # fmt: skip

enter({
    "abs absolute": rnp.abs,
    "real view_as_real_part": rnp.real, "imag": rnp.imag, "angle": rnp.angle,
    "complex": lax.complex,
    "polar": lambda r, angle: lax.complex(r * rnp.cos(angle), r * rnp.sin(angle)),
    "view_as_real": lambda x: rnp.stack([rnp.real(x), rnp.imag(x)], -1),
    "view_as_complex": lambda x: lax.complex(x[..., 0], x[..., 1]),
    "frexp prims.frexp": lambda x: tuple(rnp.frexp(x)),
})  # fmt: skip


@rule("sgn")
def sgn(x: Any) -> Any:
    return rnp.sign(x) if x.value.dtype.is_complex else sign(x)


@elementwise("sign")
def sign(x: Any) -> Any:
    """0 at NaN, as in PyTorch."""
    if x.value.dtype is DType.BOOL:
        return x
    found = rnp.sign(x)
    return rnp.where(rnp.isnan(x), 0, found) if x.value.dtype.is_float else found


@elementwise("add")
def add(x: Any, y: Any, alpha: Any = 1) -> Any:
    return rnp.add(x, _scaled(y, alpha))


@elementwise("sub subtract", "sub", "subtract")
def subtract(x: Any, y: Any, alpha: Any = 1) -> Any:
    return rnp.subtract(x, _scaled(y, alpha))


def _scaled(x: Any, alpha: Any) -> Any:
    return x if isinstance(alpha, (int, float)) and alpha == 1 else rnp.multiply(x, alpha)


@elementwise("div", "divide", "true_divide")
def divide(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return floor_divide(x, y)
    if rounding_mode == "trunc":
        if _is_integer(x, y):
            return lax.div(x, y)
        return rnp.trunc(rnp.true_divide(x, y))
    return rnp.true_divide(x, y)


@elementwise("floor_divide")
def floor_divide(x: Any, y: Any) -> Any:
    """The floor of the quotient; where a float is divided by 0, the quotient."""
    if _is_integer(x, y):
        return rnp.floor_divide(x, y)
    quotient = rnp.true_divide(x, y)
    return rnp.where(rnp.equal(y, 0), quotient, rnp.floor_divide(x, y))


def _is_integer(*operands: Any) -> bool:
    arrays = [x for x in operands if not isinstance(x, (int, float, complex))]
    numbers = [x for x in operands if isinstance(x, (float, complex))]
    return not numbers and all(not x.value.dtype.is_differentiable for x in arrays)


enter({"remainder": rnp.remainder, "fmod": rnp.fmod}, promotion="result")


@elementwise("pow", "float_power")
def power(x: Any, y: Any) -> Any:
    if _is_integer(x, y):
        return _integer_power(x, y)
    if isinstance(y, float) and y.is_integer() and abs(y) < 64:
        y = int(y)
    if isinstance(y, float) and y == 0.5:
        return rnp.sqrt(x)
    if isinstance(y, float) and y == -0.5:
        return rnp.reciprocal(rnp.sqrt(x))
    return rnp.power(x, y)


def _integer_power(x: Any, y: Any) -> Any:
    """Powers below 0 are rounded towards 0: they are 0 but for 1 and -1."""
    if isinstance(y, int) and y >= 0:
        return rnp.power(x, y)
    is_odd = rnp.not_equal(rnp.bitwise_and(y, 1), 0)
    at_minus_one = rnp.where(is_odd, -1, 1)
    below = rnp.where(rnp.equal(x, 1), 1, rnp.where(rnp.equal(x, -1), at_minus_one, 0))
    return rnp.where(rnp.less(y, 0), below, rnp.power(x, rnp.maximum(y, 0)))


@elementwise("clamp", "clip", "clamp_min")
def clamp(x: Any, low: Any = None, high: Any = None, **named: Any) -> Any:
    low, high = named.get("min", low), named.get("max", high)
    if low is not None:
        x = rnp.maximum(x, low)
    return x if high is None else rnp.minimum(x, high)


@elementwise("round")
def round_(x: Any, *, decimals: int = 0) -> Any:
    """Half to even; with `decimals` of x scaled, as PyTorch computes it."""
    if decimals == 0 or not x.value.dtype.is_float:
        return rnp.rint(x) if x.value.dtype.is_float else x
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return rnp.rint(x * scale) / scale
    return rnp.rint(x / scale) * scale


@rule("bitwise_left_shift", "__lshift__")
def left_shift(x: Any, y: Any) -> Any:
    """0 for a shift that is negative or as wide as the type."""
    inside, _ = _within_width(x, y)
    return rnp.where(inside, rnp.left_shift(x, rnp.where(inside, y, 0)), 0)


@rule("bitwise_right_shift", "__rshift__")
def right_shift(x: Any, y: Any) -> Any:
    """As by the largest shift, for one that is negative or as wide as the type."""
    inside, width = _within_width(x, y)
    return rnp.right_shift(x, rnp.where(inside, y, width - 1))


def _within_width(x: Any, y: Any) -> tuple[Any, int]:
    width = 8 * int(rnp.asarray(x).dtype.itemsize)
    return rnp.logical_and(rnp.greater_equal(y, 0), rnp.less(y, width)), width


def _in_f64(x: Any) -> Any:
    """Widen what incomplete gammas are of: computed in f32, some would have three digits."""
    return rnp.asarray(x).astype("f64")


def _product_with(logarithm: Any, x: Any, y: Any) -> Any:
    """`x * logarithm(y)`, 0 where x is 0 and y a number."""
    is_zero = rnp.logical_and(rnp.equal(x, 0), rnp.logical_not(rnp.isnan(y)))
    return rnp.where(is_zero, 0, rnp.multiply(x, logarithm(rnp.where(is_zero, 1, y))))


@elementwise("digamma", "special_psi", "special_digamma")
def digamma(x: Any) -> Any:
    """-inf with the sign of zero at 0, NaN at negative integers, as in PyTorch."""
    at_zero = rnp.copysign(math.inf, -x)
    is_pole = rnp.logical_and(rnp.less(x, 0), rnp.equal(x, rnp.floor(x)))
    found = rnp.where(is_pole, math.nan, lax.digamma(x))
    return rnp.where(rnp.equal(x, 0), at_zero, found)


@rule("polygamma", "special_polygamma")
def polygamma(n: int, x: Any) -> Any:
    x = _floating(x)
    return digamma(x) if n == 0 else special.polygamma(n, x)


def _floating(x: Any) -> Any:
    return x if x.value.dtype.is_differentiable else x.astype("f32")


@rule("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar", typed=True)
def where(result: Any, condition: Any, x: Any, y: Any) -> Any:
    def cast(value: Any) -> Any:
        return rnp.asarray(value).astype(result.dtype)

    return rnp.where(condition.astype("bool"), cast(x), cast(y))


@rule("masked_fill.Scalar", "masked_fill.Tensor", typed=True)
def masked_fill(result: Any, x: Any, mask: Any, value: Any) -> Any:
    filling = rnp.asarray(value).astype(result.dtype)
    return rnp.where(mask, filling, x)


@rule("_to_copy", "to.dtype", "to.device", "prims.convert_element_type", typed=True)
def convert(result: Any, x: Any, *_: Any, **named: Any) -> Any:
    del named
    return cast(x, result.dtype)


def cast(x: Any, dtype: DType) -> Any:
    """Convert as PyTorch does: the real part of complex numbers."""
    x = rnp.asarray(x)
    if x.value.dtype.is_complex and not dtype.is_complex and dtype is not DType.BOOL:
        x = rnp.real(x)
    return x.astype(dtype)


@rule(
    "clone", "detach", "alias", "lift_fresh", "lift_fresh_copy", "lift", "contiguous",
    "detach_copy", "alias_copy", "resolve_conj", "resolve_neg", "_neg_view_identity",
    "prims.device_put", "fill_empty", "view_copy_identity",
)  # fmt: skip
def identity(x: Any, *_: Any, **named: Any) -> Any:
    del named
    return x


@rule("copy", typed=True)
def copy(result: Any, x: Any, source: Any, non_blocking: bool = False) -> Any:
    del x, non_blocking
    return rnp.broadcast_to(cast(source, result.dtype), result.shape)


@rule("fill", typed=True)
def fill(result: Any, x: Any, value: Any) -> Any:
    return rnp.broadcast_to(rnp.asarray(value).astype(result.dtype), x.shape)


enter({"_neg_view": rnp.negative})
