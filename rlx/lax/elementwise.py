"""Elementwise operators that `rlx.numpy` has not, or not with these arguments."""

from __future__ import annotations

from typing import Any

from rlx.errors import InputError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType, as_array_dtype
from rlx.numpy import elementwise
from rlx.numpy.axes import static_shape
from rlx.numpy.components import bitwise_count
from rlx.numpy.shaping import stack
from rlx.runtime.arrays import Array
from rlx.scipy.special import gammainc
from rlx.scipy.special.incomplete import slope_over_density
from rlx.tracing.apply import as_tracer, convert, emit, function, inexact, promoted
from rlx.tracing.trace import element_type
from rlx.tracing.widths import canonical
from rlx.transforms.differentiate import jvp


@function
def population_count(x: Any) -> Array:
    """The number of bits set in each integer (two's complement), in the dtype of `x`."""
    dtype = as_tracer(x).value.dtype
    bits = x if dtype.is_unsigned_int else emit(ops.bitcast, x, to=_UNSIGNED[dtype.size])
    return convert(bitwise_count(bits), dtype)


_UNSIGNED = {1: DType.U8, 2: DType.U16, 4: DType.U32, 8: DType.U64}


@function
def conj(x: Any) -> Array:
    """The complex conjugate; a real number becomes complex."""
    x = as_tracer(x)
    real = elementwise.real(x)
    imaginary = elementwise.imag(x)
    return emit(ops.complex, real, elementwise.negative(imaginary))


@function
def div(x: Any, y: Any) -> Array:
    """`x / y`; of integers, cut off towards zero."""
    x, y = promoted([x, y])
    return emit(ops.div, x, y) if x.value.dtype.is_int else elementwise.divide(x, y)


@function
def rsqrt(x: Any) -> Array:
    """`1 / sqrt(x)`."""
    (x,) = inexact(x)
    return emit(ops.rsqrt, x)


@function
def integer_pow(x: Any, y: int) -> Array:
    """`x ** y` for a known integer."""
    return elementwise.power(x, y)


@function
def round(x: Any, rounding_method: Any = 0) -> Array:
    """The nearest integer: halves away from zero, or to even for rounding method 1."""
    if int(getattr(rounding_method, "value", rounding_method)) == 1:
        return elementwise.round(x)
    whole = elementwise.trunc(x)  # adding a half first would round 0.49999997 up, and large numbers
    is_far = elementwise.greater_equal(elementwise.abs(elementwise.subtract(x, whole)), 0.5)
    return elementwise.where(is_far, elementwise.add(whole, elementwise.sign(x)), whole)


@function
def clamp(min: Any, x: Any, max: Any) -> Array:
    """`x` limited to [min, max]."""
    return elementwise.clip(x, min, max)


@function
def complex(x: Any, y: Any) -> Array:
    """The number of real part `x` and imaginary part `y`."""
    return emit(ops.complex, x, y)


@function
def select(pred: Any, on_true: Any, on_false: Any) -> Array:
    """`on_true` where `pred` holds."""
    return elementwise.where(pred, on_true, on_false)


@function
def select_n(which: Any, *cases: Any) -> Array:
    """The case whose number is in `which`; of two, the second where it is true."""
    if not cases or (len(cases) > 2 and element_type(which).dtype is DType.BOOL):
        raise InputError(
            f"select_n has {len(cases)} cases and a selector of dtype {element_type(which).dtype}",
            remedy="pass one case or more, and an integer selector for more than two",
        )
    found = cases[0]
    for number, case in enumerate(cases[1:], 1):
        found = elementwise.where(elementwise.equal(which, number), case, found)
    return found


@function
def convert_element_type(operand: Any, new_dtype: Any) -> Array:
    """`operand` in another type; complex numbers as real ones lose their imaginary parts."""
    to = as_array_dtype(new_dtype)
    if element_type(operand).dtype.is_complex and not to.is_complex and to is not DType.BOOL:
        operand = elementwise.real(operand)
    return elementwise.astype(operand, new_dtype)


@function
def bitcast_convert_type(operand: Any, new_dtype: Any) -> Array:
    """The bits of each element as another type; the parts of a wider one are on a last axis."""
    x, to = as_tracer(operand), canonical(as_array_dtype(new_dtype))
    size = x.value.dtype.size
    if x.value.dtype is to:
        return x
    if size == to.size:
        return emit(ops.bitcast, x, to=to)
    return _parts(x, to) if size > to.size else _joined(x, to)


def _parts(x: Any, to: DType) -> Any:
    """Return each element cut in words of the size of `to`, the lowest first."""
    bits, count = 8 * to.size, x.value.dtype.size // to.size
    word = emit(ops.bitcast, x, to=as_array_dtype(f"uint{bits * count}"))
    cut = [elementwise.right_shift(word, bits * place) for place in range(count)]
    parts = convert(stack(cut, -1), as_array_dtype(f"uint{bits}"))
    return emit(ops.bitcast, parts, to=to)


def _joined(x: Any, to: DType) -> Any:
    """Return the words of the last axis, the lowest first, as one element."""
    bits, count = 8 * x.value.dtype.size, to.size // x.value.dtype.size
    if static_shape(x)[-1:] != (count,):
        raise ShapeError(
            f"an array of shape {x.shape} of {x.value.dtype} is read as {to}",
            remedy=f"its last axis must hold the {count} parts of an element",
        )
    words: Any = convert(emit(ops.bitcast, x, to=as_array_dtype(f"uint{bits}")),
                    as_array_dtype(f"uint{bits * count}"))  # fmt: skip
    total = words[..., 0]
    for place in range(1, count):
        moved = elementwise.left_shift(words[..., place], bits * place)
        total = elementwise.bitwise_or(total, moved)
    return emit(ops.bitcast, total, to=to)


@function
def max(x: Any, y: Any) -> Array:
    """The larger; NaN if either is. Complex numbers compare by real, then imaginary parts."""
    return _extremum(elementwise.maximum, elementwise.greater, x, y)


@function
def min(x: Any, y: Any) -> Array:
    """The smaller; NaN if either is. Complex numbers compare by real, then imaginary parts."""
    return _extremum(elementwise.minimum, elementwise.less, x, y)


def _extremum(of_reals: Any, precedes: Any, x: Any, y: Any) -> Array:
    if not element_type(x).dtype.is_complex:
        return of_reals(x, y)
    x, y = promoted([x, y])
    by_real = precedes(elementwise.real(x), elementwise.real(y))
    by_imag = precedes(elementwise.imag(x), elementwise.imag(y))
    are_tied = elementwise.equal(elementwise.real(x), elementwise.real(y))
    found = elementwise.where(elementwise.where(are_tied, by_imag, by_real), x, y)
    either = complex(
        of_reals(elementwise.real(x), elementwise.real(y)),
        of_reals(elementwise.imag(x), elementwise.imag(y)),
    )
    return elementwise.where(elementwise.equal(x, y), either, found)  # whose slope both share


@function
def shift_right_logical(x: Any, y: Any) -> Array:
    """`x >> y`, zeros moved in; 0 for shifts below 0 and of all bits or more."""
    return _shifted(x, y, "uint")


@function
def shift_right_arithmetic(x: Any, y: Any) -> Array:
    """`x >> y`, copies of the highest bit moved in, as far as there are bits."""
    return _shifted(x, y, "int")


def _shifted(x: Any, y: Any, kind: str) -> Any:
    """Return `x >> y` as integers of the kind shift them."""
    x, y = promoted([x, y])
    dtype = x.value.dtype
    if not dtype.is_int:
        return elementwise.right_shift(x, y)  # raises
    same = as_array_dtype(f"{kind}{8 * dtype.size}")
    words = [emit(ops.bitcast, each, to=same) if dtype is not same else each for each in (x, y)]
    found = elementwise.right_shift(*words)
    return found if dtype is same else emit(ops.bitcast, found, to=dtype)


@function
def clz(x: Any) -> Array:
    """The number of leading zero bits of each integer, in the dtype of `x`."""
    x = as_tracer(x)
    bits = x.value.dtype.size * 8
    word = emit(ops.bitcast, x, to=as_array_dtype(f"uint{bits}"))
    shift = 1
    while shift < bits:  # copies of the highest bit that is set, to all lower places
        word = elementwise.bitwise_or(word, elementwise.right_shift(word, shift))
        shift *= 2
    return convert(elementwise.subtract(bits, bitwise_count(word)), x.value.dtype)


@function
def mulhi(x: Any, y: Any) -> Array:
    """The upper half of the bits of each product of integers."""
    x, y = promoted([x, y])
    dtype = x.value.dtype
    half = dtype.size * 4
    mask = (1 << half) - 1

    def parts(a: Any) -> tuple[Any, Any]:
        low = elementwise.bitwise_and(a, convert(mask, dtype))
        return elementwise.right_shift(a, half), low

    (a, b), (c, d) = parts(x), parts(y)
    # (a B + b)(c B + d) with B = 2**half: what the lower products carry is added in turn.
    carried = elementwise.add(a * d, shift_right_logical(b * d, half))
    low = elementwise.add(b * c, elementwise.bitwise_and(carried, convert(mask, dtype)))
    high = elementwise.add(a * c, elementwise.right_shift(carried, half))
    return elementwise.add(high, elementwise.right_shift(low, half))


@function
def igamma_grad_a(a: Any, x: Any) -> Any:
    """The slope of `igamma(a, x)` by `a`."""
    a, x = inexact(a, x)
    return jvp(lambda a: gammainc(a, x), (a,), (elementwise.add(0 * a, 1.0),))[1]


@function
def random_gamma_grad(a: Any, sample: Any) -> Array:
    """The slope of a gamma number by its shape `a`, at a fixed probability below it."""
    a, sample = inexact(a, sample)
    return -slope_over_density(a + 0 * sample, sample + 0 * a)


def _ordered(x: Any) -> Any:
    """Return integers in IEEE 754's total order of floats: -NaN, -inf, -0, 0, inf, NaN."""
    dtype = as_tracer(x).value.dtype
    if not dtype.is_float:
        return x
    bits = dtype.size * 8
    signed = as_array_dtype(f"int{bits}")
    word = emit(ops.bitcast, x, to=signed)
    magnitude = convert((1 << (bits - 1)) - 1, signed)
    flips = elementwise.bitwise_and(elementwise.right_shift(word, bits - 1), magnitude)
    return elementwise.bitwise_xor(word, flips)


@function
def total_order_eq(x: Any, y: Any) -> Array:
    """`x == y` in IEEE 754's total order: zeros differ by their sign, a NaN equals itself."""
    return elementwise.equal(_ordered(x), _ordered(y))


@function
def total_order_lt(x: Any, y: Any) -> Array:
    """`x < y` in IEEE 754's total order."""
    return elementwise.less(_ordered(x), _ordered(y))


@function
def total_order_le(x: Any, y: Any) -> Array:
    """`x <= y` in IEEE 754's total order."""
    return elementwise.less_equal(_ordered(x), _ordered(y))
