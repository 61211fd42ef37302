"""`reduce_precision`: numbers rounded to a format of fewer bits."""

from __future__ import annotations

from typing import Any

from rlx.errors import DTypeError, InputError
from rlx.ir import ops
from rlx.ir.dtype import DType, as_array_dtype
from rlx.numpy import elementwise
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function
from rlx.transforms.custom_modes import CustomModes


@function
def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Array:
    """`operand` rounded to a format of fewer bits, halves to even, without denormal numbers.

    Beyond its range are infinities and, too close to 0, zeros. Derivatives are rounded, too.
    """
    x, bits = as_tracer(operand), (int(exponent_bits), int(mantissa_bits))
    if x.value.dtype not in _FORMATS:
        raise DTypeError(
            f"operand has dtype {x.value.dtype}; only f16, bf16, f32 and f64 are rounded",
            remedy="convert it with .astype('f32'), or round its real and imaginary parts",
        )
    if bits[0] < 1 or bits[1] < 0:
        raise InputError(
            f"exponent_bits is {bits[0]} and mantissa_bits {bits[1]}; they must be at least 1 and "
            "0",
            remedy="5 and 10 are the bits of f16, 8 and 7 those of bf16",
        )
    return _rounded_as(x, *bits)


_FORMATS = {DType.F16: (5, 10), DType.BF16: (8, 7), DType.F32: (8, 23), DType.F64: (11, 52)}
"""Bits of exponent and of mantissa."""


def _in_fewer_bits(x: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    dtype = as_tracer(x).value.dtype
    unsigned = as_array_dtype(f"uint{8 * dtype.size}")
    word = emit(ops.bitcast, x, to=unsigned)
    if mantissa_bits < _FORMATS[dtype][1]:
        word = _shorter_mantissa(word, dtype, mantissa_bits)
    if exponent_bits < _FORMATS[dtype][0]:
        word = _shorter_exponent(word, dtype, exponent_bits)
    return elementwise.where(elementwise.isnan(x), x, emit(ops.bitcast, word, to=dtype))


def _shorter_mantissa(word: Any, dtype: DType, mantissa_bits: int) -> Any:
    """Round to even; what a mantissa carries counts the exponent up."""
    cut = _FORMATS[dtype][1] - mantissa_bits
    odd = elementwise.bitwise_and(elementwise.right_shift(word, cut), 1)
    half = elementwise.add(odd, (1 << (cut - 1)) - 1)
    kept = convert((1 << (8 * dtype.size)) - (1 << cut), word.value.dtype)
    return elementwise.bitwise_and(elementwise.add(word, half), kept)


def _shorter_exponent(word: Any, dtype: DType, exponent_bits: int) -> Any:
    widest, longest = _FORMATS[dtype]
    middle, reach = (1 << (widest - 1)) - 1, (1 << (exponent_bits - 1)) - 1
    sign, infinity, largest, smallest = (
        convert(bits << longest, word.value.dtype)
        for bits in (1 << widest, (1 << widest) - 1, middle + reach, middle - reach)
    )
    negative, exponent = (
        elementwise.bitwise_and(word, sign),
        elementwise.bitwise_and(word, infinity),
    )
    unbounded = elementwise.bitwise_or(negative, infinity)
    word = elementwise.where(elementwise.greater(exponent, largest), unbounded, word)
    return elementwise.where(elementwise.less_equal(exponent, smallest), negative, word)


def _tangent_in_fewer_bits(exponent: int, mantissa: int, primals: Any, tangents: Any) -> Any:
    rounded, moved = (_rounded_as(each[0], exponent, mantissa) for each in (primals, tangents))
    return rounded, moved


def _cotangent_in_fewer_bits(
    exponent: int, mantissa: int, primals: Any, result: Any, cotangent: Any
) -> Any:
    del primals, result
    return (_rounded_as(cotangent, exponent, mantissa),)


_rounded_as = CustomModes(
    _in_fewer_bits, _tangent_in_fewer_bits, _cotangent_in_fewer_bits, nondiff_argnums=(1, 2)
)
