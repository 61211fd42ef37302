"""NumPy's elementwise functions. Dtypes promote as in JAX with 64-bit types enabled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec

import ml_dtypes
import numpy as np

from rlx.errors import DTypeError
from rlx.ir import ops
from rlx.ir.dtype import DType, as_array_dtype
from rlx.ir.op import OpDef
from rlx.numpy.devices import require_device
from rlx.runtime.arrays import Array
from rlx.tracing.apply import (
    as_tracer,
    convert,
    emit,
    emit_as,
    emit_inexact,
    emit_promoted,
    function,
    inexact,
    promoted,
)
from rlx.tracing.promotion import promote_types
from rlx.tracing.trace import element_type
from rlx.tracing.widths import canonical

P = ParamSpec("P")
_SIGNED = {1: DType.I8, 2: DType.I16, 4: DType.I32, 8: DType.I64}  # by bytes


def _floating(definition: OpDef, name: str, doc: str) -> Callable[[Any], Array]:
    """A function of one array that is computed, and given, in floating point."""

    def apply(x: Any, /) -> Array:
        return emit_inexact(definition, x)

    return _named(apply, name, doc)


def _comparison(definition: OpDef, name: str, doc: str) -> Callable[[Any, Any], Array]:
    def apply(x: Any, y: Any, /) -> Array:
        return emit_promoted(definition, x, y, keeps_weak=False)

    return _named(apply, name, doc)


def _named(apply: Callable[P, Array], name: str, doc: str) -> Callable[P, Array]:
    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = doc
    return function(apply)


sqrt = _floating(ops.sqrt, "sqrt", "Square root; NaN below zero.")
exp = _floating(ops.exp, "exp", "e to the power of `x`.")
exp2 = _floating(ops.exp2, "exp2", "2 to the power of `x`.")
expm1 = _floating(ops.expm1, "expm1", "`exp(x) - 1`, exact near zero.")
log = _floating(ops.log, "log", "Natural logarithm.")
log2 = _floating(ops.log2, "log2", "Logarithm to base 2.")
log1p = _floating(ops.log1p, "log1p", "`log(1 + x)`, exact near zero.")
sin = _floating(ops.sin, "sin", "Sine of an angle in radians.")
cos = _floating(ops.cos, "cos", "Cosine of an angle in radians.")
tan = _floating(ops.tan, "tan", "Tangent of an angle in radians.")
arcsin = _floating(ops.asin, "arcsin", "Inverse sine.")
arccos = _floating(ops.acos, "arccos", "Inverse cosine.")
arctan = _floating(ops.atan, "arctan", "Inverse tangent.")
sinh = _floating(ops.sinh, "sinh", "Hyperbolic sine.")
cosh = _floating(ops.cosh, "cosh", "Hyperbolic cosine.")
tanh = _floating(ops.tanh, "tanh", "Hyperbolic tangent.")
arcsinh = _floating(ops.asinh, "arcsinh", "Inverse hyperbolic sine.")
arccosh = _floating(ops.acosh, "arccosh", "Inverse hyperbolic cosine.")
arctanh = _floating(ops.atanh, "arctanh", "Inverse hyperbolic tangent.")
reciprocal = _floating(ops.reciprocal, "reciprocal", "`1 / x`.")

acos, acosh, asin, asinh = arccos, arccosh, arcsin, arcsinh
atan, atanh = arctan, arctanh

equal = _comparison(ops.eq, "equal", "`x == y`.")
not_equal = _comparison(ops.ne, "not_equal", "`x != y`.")
less = _comparison(ops.lt, "less", "`x < y`.")
less_equal = _comparison(ops.le, "less_equal", "`x <= y`.")
greater = _comparison(ops.gt, "greater", "`x > y`.")
greater_equal = _comparison(ops.ge, "greater_equal", "`x >= y`.")


# Arithmetic


@function
def add(x: Any, y: Any, /) -> Array:
    """`x + y`; of bools, `or`."""
    return emit_promoted(ops.logical_or if _is_bool(x, y) else ops.add, x, y)


@function
def subtract(x: Any, y: Any, /) -> Array:
    """`x - y`."""
    if _is_bool(x, y):
        raise DTypeError("bools have no difference", remedy="use `^`, or cast with .astype")
    return emit_promoted(ops.sub, x, y)


@function
def multiply(x: Any, y: Any, /) -> Array:
    """`x * y`; of bools, `and`."""
    return emit_promoted(ops.logical_and if _is_bool(x, y) else ops.mul, x, y)


@function
def divide(x: Any, y: Any, /) -> Array:
    """`x / y` in floating point."""
    return emit_inexact(ops.div, x, y)


true_divide = divide


@function
def floor_divide(x: Any, y: Any, /) -> Array:
    """The integer below `x / y`; for integers, x // 0 is 0."""
    # A step function of both: its derivative is 0, also where it jumps.
    x, y = (_same(ops.stop_gradient, number) for number in _numbers(x, y))
    remainder_ = emit(ops.mod, x, y, weak=x.weak)
    opposite = not_equal(less(x, 0), less(y, 0))
    if x.value.dtype.is_int:
        # One less than the truncated quotient if something is left; MIN // -1 wraps.
        below = logical_and(not_equal(remainder_, 0), opposite)
        truncated = emit(ops.div, x, y)
        return emit(ops.sub, truncated, convert(below, x.value.dtype), weak=x.weak)
    quotient = divide(x, y)
    exact = _nearest(divide(emit(ops.sub, x, remainder_, weak=x.weak), y))
    tiny = where(logical_and(opposite, not_equal(x, 0.0)), -1.0, 0.0)  # of an infinity
    exact = where(logical_and(isinf(y), isfinite(x)), tiny, exact)
    exact = where(equal(exact, 0), where(signbit(quotient), -0.0, 0.0), exact)
    return where(equal(y, 0.0), quotient, exact)


@function
def remainder(x: Any, y: Any, /) -> Array:
    """What `floor_divide` leaves; it has the sign of `y`."""
    x, y = _numbers(x, y)
    return emit(ops.mod, x, y, weak=x.weak)


mod = remainder


@function
def fmod(x: Any, y: Any, /) -> Array:
    """What division towards zero leaves; it has the sign of `x`."""
    x, y = _numbers(x, y)
    if x.value.dtype.is_int:
        rest = emit(ops.sub, x, emit(ops.mul, emit(ops.div, x, y), y))
        return where(equal(y, 0), 0, rest)
    below = signbit(x)  # unlike abs, the choice has the derivative 1 at 0
    magnitude = emit(ops.mod, where(below, negative(x), x), abs(y))
    return where(below, negative(magnitude), magnitude)


@function
def power(x: Any, y: Any, /) -> Array:
    """`x ** y`. A small Python integer `y` becomes products, without a logarithm.

    A negative power of an integer is an integer: of 1 and -1 these, else 0.
    """
    if isinstance(y, int) and not isinstance(y, bool) and -4 <= y <= 4:
        base = as_tracer(x)
        if y >= 0 or base.value.dtype.is_float or base.value.dtype.is_complex:
            return _small_power(base, y)
    if _is_bool(x, y):
        x = convert(x, DType.I32)
    return emit_promoted(ops.pow, x, y)


def _small_power(x: Any, exponent: int) -> Any:
    if x.value.dtype is DType.BOOL:
        x = convert(x, DType.I32)
    if exponent < 0:
        return _small_power(reciprocal(x), -exponent)  # its derivative overflows where x^-n does
    if exponent == 0:
        return emit_as(element_type(x), ops.expand, 1, weak=x.weak, shape=x.shape)
    result = emit(ops.square, x, weak=x.weak) if exponent > 1 else x
    if exponent == 4:
        return emit(ops.square, result, weak=x.weak)
    return multiply(result, x) if exponent == 3 else result


pow = power


@function
def float_power(x: Any, y: Any, /) -> Array:
    """`x ** y` in floats."""
    return emit_inexact(ops.pow, x, y)


@function
def negative(x: Any, /) -> Array:
    """`-x`."""
    return _same(ops.neg, x)


@function
def positive(x: Any, /) -> Array:
    """`x` itself."""
    return as_tracer(x)


@function
def abs(x: Any, /) -> Array:
    """Magnitude, of complex numbers too."""
    x = as_tracer(x)
    if x.value.dtype.is_complex:
        return hypot(emit(ops.real, x), emit(ops.imag, x))
    unsigned = x.value.dtype is DType.BOOL or x.value.dtype.is_unsigned_int
    return x if unsigned else _same(ops.abs, x)


absolute = abs


@function
def fabs(x: Any, /) -> Array:
    """Magnitude of real numbers, as floats."""
    return abs(inexact(x)[0])


@function
def sign(x: Any, /) -> Array:
    """-1, 0 or 1; of complex numbers their direction `x / abs(x)`, 0 at 0."""
    x = as_tracer(x)
    if not x.value.dtype.is_complex:
        return _same(ops.sign, x)
    parts = real(x), imag(x)
    largest = emit(ops.stop_gradient, maximum(*(abs(part) for part in parts)))
    scale = where(equal(largest, 0), 1, largest)  # what is tiny or large has a direction, too
    near = [where(isinf(scale), _of_infinite(part), divide(part, scale)) for part in parts]
    size = where(logical_and(*(isinf(part) for part in parts)), np.nan, hypot(*near))
    return emit(ops.complex, *(divide(part, where(equal(size, 0), 1, size)) for part in near))


def _of_infinite(part: Any) -> Any:
    """An infinity is 1 or -1, a number nothing; two infinities have no direction."""
    return where(isinf(part), _same(ops.sign, part), where(isnan(part), part, 0))


@function
def square(x: Any, /) -> Array:
    """`x * x`."""
    return _same(ops.square, convert(x, DType.I32) if _is_bool(x) else x)


@function
def cbrt(x: Any, /) -> Array:
    """The real cube root."""
    (x,) = inexact(x)
    below = signbit(x)  # unlike abs, the choice has a derivative at 0: the root's is infinite
    size = where(below, negative(x), x)
    root = emit(ops.pow, size, as_tracer(np.asarray(1 / 3, x.dtype)))
    return where(below, negative(root), root)


@function
def round(a: Any, decimals: int = 0, out: None = None) -> Array:
    """Nearest multiple of `10 ** -decimals`, halves to even."""
    a = as_tracer(a)
    if a.value.dtype is DType.BOOL or (a.value.dtype.is_int and decimals >= 0):
        return a
    if a.value.dtype.is_complex:
        return emit(ops.complex, *(round(part(a), decimals) for part in (real, imag)))
    if decimals == 0:
        return _nearest(a)
    scale = 10.0**decimals
    return convert(divide(_nearest(multiply(inexact(a)[0], scale)), scale), a.value.dtype)


def _nearest(x: Any) -> Any:
    """Return the nearest integers, which have no slope; the op's own passes straight through."""
    return _same(ops.round, _same(ops.stop_gradient, x))


around = round


@function
def rint(x: Any, /) -> Array:
    """Nearest integer as a float, halves to even."""
    is_float = element_type(x).dtype.is_differentiable
    return _nearest(x if is_float else convert(x, DType.F64))


@function
def floor(x: Any, /) -> Array:
    """Largest integer not above `x`."""
    return as_tracer(x) if _is_bool(x) else _same(ops.floor, x)


@function
def ceil(x: Any, /) -> Array:
    """Smallest integer not below `x`."""
    return as_tracer(x) if _is_bool(x) else _same(ops.ceil, x)


@function
def trunc(x: Any, out: None = None) -> Array:
    """Integer part, towards zero."""
    return as_tracer(x) if _is_bool(x) else _same(ops.trunc, x)


fix = trunc


@function
def log10(x: Any, /) -> Array:
    """Logarithm to base 10."""
    natural, scale = log(x), 1 / np.log(10.0).item()
    if natural.value.dtype.is_complex:  # a complex factor would make NaN of infinities
        return emit(ops.complex, multiply(real(natural), scale), multiply(imag(natural), scale))
    return multiply(natural, scale)


@function
def logaddexp(x: Any, y: Any, /) -> Array:
    """`log(exp(x) + exp(y))`, without overflow."""
    x, y = inexact(x, y)
    # Choices, where maximum and abs would have no second derivative at equal numbers
    above = greater_equal(x, y)
    larger, below = where(above, x, y), subtract(where(above, y, x), where(above, x, y))
    # Equal infinities have a NaN difference and need no correction.
    none = logical_and(equal(x, y), isinf(x))
    return where(none, x, add(larger, log1p(exp(where(none, 0, below)))))


@function
def hypot(x: Any, y: Any, /) -> Array:
    """`sqrt(x * x + y * y)`, without overflow."""
    return emit_inexact(ops.hypot, x, y)


@function
def arctan2(y: Any, x: Any, /) -> Array:
    """Angle of the point (x, y)."""
    return emit_inexact(ops.atan2, y, x)


atan2 = arctan2


@function
def sinc(x: Any) -> Array:
    """`sin(pi x) / (pi x)`, 1 at 0."""
    (x,) = inexact(x)
    angle = multiply(x, np.pi)
    is_small = less(abs(angle), 0.02)
    # Where the quotient cancels, and its derivatives more so, the first terms of the series.
    series: Any = 1
    for factor in (72, 42, 20, 6):
        series = subtract(1, multiply(divide(square(angle), factor), series))
    # The unused branch must stay finite, for the derivative's sake.
    safe = where(is_small, 1, angle)
    return where(is_small, series, divide(sin(safe), safe))


@function
def deg2rad(x: Any, /) -> Array:
    """Degrees in radians."""
    return multiply(inexact(x)[0], np.pi / 180)


@function
def rad2deg(x: Any, /) -> Array:
    """Radians in degrees."""
    return multiply(inexact(x)[0], 180 / np.pi)


radians, degrees = deg2rad, rad2deg


# Choices


@function
def maximum(x: Any, y: Any, /) -> Array:
    """The larger; NaN if either is."""
    return emit_promoted(ops.maximum, x, y)


@function
def minimum(x: Any, y: Any, /) -> Array:
    """The smaller; NaN if either is."""
    return emit_promoted(ops.minimum, x, y)


@function
def fmax(x: Any, y: Any, /) -> Array:
    """The larger; the other if one is NaN."""
    x, y = promoted([x, y])
    return where(isnan(x), y, where(isnan(y), x, maximum(x, y)))


@function
def fmin(x: Any, y: Any, /) -> Array:
    """The smaller; the other if one is NaN."""
    x, y = promoted([x, y])
    return where(isnan(x), y, where(isnan(y), x, minimum(x, y)))


@function
def clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: None = None,
    *,
    min: Any = None,
    max: Any = None,
) -> Array:
    """`a` limited to [a_min, a_max], which are also called min and max; `None` is no limit."""
    a = as_tracer(a)
    least, most = (a_min if min is None else min), (a_max if max is None else max)
    if least is not None:
        a = maximum(a, least)
    return a if most is None else minimum(a, most)


@function
def where(condition: Any, x: Any = None, y: Any = None) -> Array:
    """`x` where `condition` holds, else `y`."""
    if x is None or y is None:
        raise DTypeError(
            "where is given one of x and y; it takes both or neither",
            remedy="call where(condition, x, y), or where(condition) for indices",
        )
    type = promote_types([element_type(x), element_type(y)])
    branches = [convert(each, type.dtype) for each in (x, y)]
    return emit(ops.where, _as_bool(condition), *branches, weak=type.weak)


@function
def nan_to_num(
    x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None
) -> Array:
    """`x` with NaN and infinities replaced by finite numbers."""
    del copy  # arrays do not change
    x = as_tracer(x)
    if x.value.dtype.is_complex:
        parts = (emit(part, x) for part in (ops.real, ops.imag))
        return emit(ops.complex, *(nan_to_num(p, True, nan, posinf, neginf) for p in parts))
    if not x.value.dtype.is_float:
        return x
    limit = float(ml_dtypes.finfo(x.value.dtype.numpy).max)  # type: ignore[no-untyped-call]
    x = where(isnan(x), nan, x)
    x = where(equal(x, np.inf), limit if posinf is None else posinf, x)
    return where(equal(x, -np.inf), -limit if neginf is None else neginf, x)


# Logic


@function
def logical_and(x: Any, y: Any, /) -> Array:
    """Both are nonzero."""
    return emit(ops.logical_and, _as_bool(x), _as_bool(y))


@function
def logical_or(x: Any, y: Any, /) -> Array:
    """One is nonzero."""
    return emit(ops.logical_or, _as_bool(x), _as_bool(y))


@function
def logical_xor(x: Any, y: Any, /) -> Array:
    """Exactly one is nonzero."""
    return emit(ops.logical_xor, _as_bool(x), _as_bool(y))


@function
def logical_not(x: Any, /) -> Array:
    """`x` is zero."""
    return emit(ops.logical_not, _as_bool(x))


@function
def bitwise_and(x: Any, y: Any, /) -> Array:
    """`x & y`, of bools or of the bits of integers."""
    return _bitwise("&", ops.logical_and, ops.bitwise_and, x, y)


@function
def bitwise_or(x: Any, y: Any, /) -> Array:
    """`x | y`, of bools or of the bits of integers."""
    return _bitwise("|", ops.logical_or, ops.bitwise_or, x, y)


@function
def bitwise_xor(x: Any, y: Any, /) -> Array:
    """`x ^ y`, of bools or of the bits of integers."""
    return _bitwise("^", ops.logical_xor, ops.bitwise_xor, x, y)


@function
def bitwise_not(x: Any, /) -> Array:
    """`~x`; of integers, `-x - 1`."""
    x = as_tracer(x)
    if x.value.dtype.is_int:
        return subtract(negative(x), 1)
    _require_bits("~", x)
    return emit(ops.logical_not, x)


@function
def left_shift(x: Any, y: Any, /) -> Array:
    """`x << y`: bits moved up, zeros moved in."""
    return _shift("<<", ops.shift_left, x, y)


@function
def right_shift(x: Any, y: Any, /) -> Array:
    """`x >> y`: bits moved down; the sign of signed integers moves in."""
    return _shift(">>", ops.shift_right, x, y)


bitwise_left_shift, bitwise_right_shift = left_shift, right_shift
invert = bitwise_invert = bitwise_not


@function
def isnan(x: Any, /) -> Array:
    """True where `x` is NaN."""
    x = as_tracer(x)
    return emit(ops.is_nan, x) if x.value.dtype.is_float else not_equal(x, x)


@function
def isfinite(x: Any, /) -> Array:
    """True where `x` is neither NaN nor infinite."""
    x = as_tracer(x)
    if x.value.dtype.is_complex:
        return logical_and(isfinite(real(x)), isfinite(imag(x)))
    return emit(ops.is_finite, x) if x.value.dtype.is_float else equal(x, x)


@function
def isinf(x: Any, /) -> Array:
    """True where `x` is an infinity."""
    x = as_tracer(x)
    if x.value.dtype.is_complex:
        return logical_or(isinf(real(x)), isinf(imag(x)))
    return equal(abs(x), np.inf) if x.value.dtype.is_float else not_equal(x, x)


@function
def signbit(x: Any, /) -> Array:
    """True where the bit of the sign is set: of negative numbers, -0.0 and NaN with a sign."""
    x = as_tracer(x)
    if x.value.dtype.is_float:
        x = emit(ops.bitcast, emit(ops.stop_gradient, x), to=_SIGNED[x.value.dtype.size])
    return less(x, 0)


@function
def isclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Array:
    """True where `a` and `b` agree within `atol + rtol * abs(b)`."""
    a, b = inexact(a, b)
    near = less_equal(abs(subtract(a, b)), add(atol, multiply(rtol, abs(b))))
    near = logical_or(equal(a, b), logical_and(near, logical_and(isfinite(a), isfinite(b))))
    return logical_or(near, logical_and(isnan(a), isnan(b))) if equal_nan else near


# Complex numbers


@function
def real(val: Any) -> Array:
    """The real part."""
    val = as_tracer(val)
    return emit(ops.real, val) if val.value.dtype.is_complex else val


@function
def imag(val: Any) -> Array:
    """The imaginary part; zeros for real numbers."""
    val = as_tracer(val)
    if val.value.dtype.is_complex:
        return emit(ops.imag, val)
    return emit(ops.expand, zero_of(val), shape=val.shape)


@function
def conj(x: Any, /) -> Array:
    """The complex conjugate."""
    x = as_tracer(x)
    return emit(ops.conj, x) if x.value.dtype.is_complex else x


conjugate = conj


@function
def angle(z: Any, deg: bool = False) -> Array:
    """The argument of a complex number, with `deg` in degrees; of a real one 0 or pi, no slope."""
    z = as_tracer(z)
    if not z.value.dtype.is_complex:
        z = emit(ops.stop_gradient, inexact(z)[0])
    found = arctan2(imag(z), real(z))
    return rad2deg(found) if deg else found


# Dtypes


@function
def astype(x: Any, dtype: Any, *, copy: bool = True, device: Any = None) -> Array:
    """`x` converted; floats truncate to integers, complex numbers lose the imaginary part."""
    require_device(device)
    del copy  # not observable: arrays do not change
    target = canonical(as_array_dtype(_python_type(dtype)))
    x = as_tracer(x)
    if x.value.dtype.is_complex and not target.is_differentiable and target is not DType.BOOL:
        x = real(x)
    return convert(x, target)


def _python_type(dtype: Any) -> Any:
    """Return the dtype of Python's `float`, `int`, `bool`."""
    return {float: "f64", int: "i64", bool: "bool", complex: "c128"}.get(dtype, dtype)


def zero_of(x: Any) -> Any:
    """Return the zero of the dtype of `x`, bool included."""
    return np.zeros((), element_type(x).dtype.numpy)


def _same(definition: OpDef, x: Any) -> Any:
    x = as_tracer(x)
    return emit(definition, x, weak=x.weak)


def _numbers(x: Any, y: Any) -> Any:
    """Promote; bools count as integers."""
    if _is_bool(x, y):
        return convert(x, DType.I32), convert(y, DType.I32)
    return promoted([x, y])


def _is_bool(*arrays: Any) -> bool:
    return all(element_type(x).dtype is DType.BOOL for x in arrays)


def _as_bool(x: Any) -> Any:
    return convert(x, DType.BOOL)


def _bitwise(symbol: str, of_bools: OpDef, of_integers: OpDef, x: Any, y: Any) -> Any:
    _require_bits(symbol, x, y)
    return emit_promoted(of_bools if _is_bool(x, y) else of_integers, x, y)


def _shift(symbol: str, definition: OpDef, x: Any, y: Any) -> Any:
    _require_bits(symbol, x, y)
    if _is_bool(x, y):
        raise DTypeError(
            f"`{symbol}` takes integers and was given bools",
            remedy="convert with .astype('i64'), or use rlx.numpy.logical_xor",
        )
    return emit_promoted(definition, x, y)


def _require_bits(symbol: str, *arrays: Any) -> None:
    for x in arrays:
        dtype = element_type(x).dtype
        if dtype is not DType.BOOL and not dtype.is_int:
            raise DTypeError(
                f"`{symbol}` takes bools or integers and was given {dtype}",
                remedy="compare first, as in (x > 0) & (y > 0)",
            )
