"""sin, cos and tan, right for every finite argument.

The quadrant and the remainder come from a fixed-point product with as many bits of 2 / pi as
the argument's exponent asks for (Payne and Hanek, 1983), without branches: a window of the bits
is picked by selects, so that the same code vectorizes for small and huge arguments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from rlx.codegen.loops.expr import E, call, const, fma, lshr, maximum, select
from rlx.codegen.loops.math import coefficients
from rlx.codegen.loops.math.define import FunctionBuilder, math_function
from rlx.codegen.loops.nodes import Function, Prim

HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
# The first 1216 bits of 2 / pi after the binary point.
TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424d"
    "d2e006492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639"
    "835339f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f46"
    "3f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6bab",
    16,
)
_BITS = 1216


def two_over_pi_words(size: int, count: int, zeros: int) -> list[int]:
    """Words of `size` bits: `zeros` zero words, then 2 / pi from its binary point on."""
    mask = (1 << size) - 1
    words = [(TWO_OVER_PI >> (_BITS - size * (i + 1))) & mask for i in range(count - zeros)]
    return [0] * zeros + words


def signed(word: int, bits: int) -> int:
    return word - (1 << bits) if word >> (bits - 1) else word


def reduce_argument(m: FunctionBuilder, magnitude: E) -> tuple[E, E, E]:
    """Return the quadrant, an integer, and the remainder from it in two numbers."""
    reduced = (_reduce_f32 if m.prim is Prim.F32 else _reduce_f64)(m, magnitude)
    return unless_small(m, magnitude, reduced)


def unless_small(m: FunctionBuilder, magnitude: E, reduced: tuple[E, E, E]) -> tuple[E, E, E]:
    """Return what is reduced, or a magnitude that is small as it is."""
    quadrant, high, low = reduced
    small = m.let("small", magnitude < math.pi / 4)
    return (
        m.let("quadrant", select(small, const(0, quadrant.type.prim), quadrant)),
        m.let("r", select(small, magnitude, high)),
        m.let("r_low", select(small, m.constant(0.0), low)),
    )


def pick_window(
    m: FunctionBuilder, words: Sequence[int], start: E, count: int, prim: Prim
) -> list[E]:
    """Return `count` words from `start` (below a power of two) on, by a tree of selects."""
    bits = prim.size * 8
    row = [const(signed(word, bits), prim) for word in words]
    stage = 1 << (len(words) - count).bit_length()
    while stage > 1:
        stage //= 2
        chosen = m.let("chosen", (start & stage).ne(0))
        keep = count + stage - 1
        row = [
            m.let("word", select(chosen, row[i + stage], row[i]))
            if i + stage < len(row)
            else row[i]
            for i in range(min(keep, len(row)))
        ]
    return row


def shift_window(m: FunctionBuilder, words: Sequence[E], shift: E, bits: int) -> list[E]:
    """Shift a row of words left by `shift` < `bits`; the last word only feeds its neighbor."""
    back = m.let("back", (bits - 1) - shift)
    return [
        m.let("window", (high << shift) | lshr(lshr(low, 1), back)) for high, low in pairwise(words)
    ]


def _reduce_f32(m: FunctionBuilder, magnitude: E) -> tuple[E, E, E]:
    quadrant, fraction = _fixed_point_f32(m, magnitude)
    upper = (fraction >> 32).cast(Prim.I32).cast(Prim.F64)
    lower = (lshr(fraction, 1) & 0x7FFFFFFF).cast(Prim.I32).cast(Prim.F64)
    unit = HALF_PI[0] * 2.0**-32
    exact = m.let("exact", fma(lower, 2.0**-31, upper) * unit)
    r = m.let("rounded", exact.cast(Prim.F32))
    return quadrant, r, (exact - r.cast(Prim.F64)).cast(Prim.F32)


def reduce_far_single(m: FunctionBuilder, magnitude: E) -> tuple[E, E, E]:
    """Return the same of a large f32 without doubles, on targets with fused multiply-adds."""
    quadrant, fraction = _fixed_point_f32(m, magnitude)
    upper = m.let("upper", (fraction >> _UPPER).cast(Prim.I32).cast(Prim.F32))
    rest = fraction - (upper.cast(Prim.I32).cast(Prim.I64) << _UPPER)
    lower = m.let("lower", (rest >> _LOWER).cast(Prim.I32).cast(Prim.F32))
    total, lost = m.exact_sum(upper * 2.0 ** (_UPPER - 64), lower * 2.0 ** (_LOWER - 64))
    half_pi, past = m.split(*HALF_PI)
    r, rounded = m.exact_product(total, m.constant(half_pi))
    return quadrant, r, m.let("low", rounded + fma(total, past, lost * half_pi))


_UPPER, _LOWER = 34, 8
"""The lowest bit of the leading part of a fraction, which has 30 bits, and of what it rounds."""


def _fixed_point_f32(m: FunctionBuilder, magnitude: E) -> tuple[E, E]:
    """Return the quadrant and the signed fraction of it, in units of 2**-64.

    They are 64 bits of `x * 2 / pi`, two of them before the point, from 96 bits of 2 / pi.
    """
    bits = m.let("bits", magnitude.bitcast(Prim.I32))
    significand = ((bits & 0x7FFFFF) | 0x800000).cast(Prim.I64)
    factor = m.let("factor", significand)
    position = m.let("position", maximum((bits >> 23) - 120, 0))
    start = m.let("start", position >> 5)
    words = pick_window(m, two_over_pi_words(32, 8, zeros=1), start, 4, Prim.I32)
    window = shift_window(m, words, m.let("shift", position & 31), 32)
    high, middle, low = (word.cast(Prim.I64) & 0xFFFFFFFF for word in window)
    product = m.let("product", ((factor * high) << 32) + factor * middle + lshr(factor * low, 32))
    quadrant = (lshr(product, 62) + (lshr(product, 61) & 1)).cast(Prim.I32)
    return quadrant, m.let("fraction", product << 2)


def _reduce_f64(m: FunctionBuilder, magnitude: E) -> tuple[E, E, E]:
    """128 bits of `x * 2 / pi`, two of them before the point, from 192 bits of 2 / pi."""
    bits = m.let("bits", magnitude.bitcast(Prim.I64))
    significand = m.let("significand", (bits & ((1 << 52) - 1)) | (1 << 52))
    position = m.let("position", maximum((bits >> 52) - 1013, 0))
    start = m.let("start", position >> 6)
    words = pick_window(m, two_over_pi_words(64, 20, zeros=1), start, 4, Prim.I64)
    window = shift_window(m, words, m.let("shift", position & 63), 64)
    limbs = _multiply(m, significand, window)
    upper = m.let("upper", (limbs[0] << 32) | limbs[1])
    lower = m.let("lower", (limbs[2] << 32) | limbs[3])
    quadrant = lshr(upper, 62) + (lshr(upper, 61) & 1)
    return quadrant, *_fraction_to_radians(m, m.let("upper", (upper << 2) | lshr(lower, 62)), lower)


def _multiply(m: FunctionBuilder, significand: E, window: Sequence[E]) -> list[E]:
    """The product modulo 2**128 as four limbs of 32 bits, highest first."""
    mask = 0xFFFFFFFF
    digits = [m.let("digit", part) for word in window for part in (lshr(word, 32), word & mask)]
    low, high = m.let("low", significand & mask), m.let("high", lshr(significand, 32))
    lows = [m.let("low_product", low * digit) for digit in digits]
    highs = [m.let("high_product", high * digit) for digit in digits]
    limbs: list[E] = []
    carry = lshr(lows[5], 32) + (highs[5] & mask)
    carry = m.let("carry", lshr(carry + (lows[4] & mask), 32))
    for column in (3, 2, 1, 0):
        total = (lows[column] & mask) + lshr(lows[column + 1], 32) + (highs[column + 1] & mask)
        total = m.let("column", total + lshr(highs[column + 2], 32) + carry)
        limbs.insert(0, m.let("limb", total & mask))
        carry = lshr(total, 32)
    return limbs


def _fraction_to_radians(m: FunctionBuilder, upper: E, lower: E) -> tuple[E, E]:
    """A signed fraction of 126 bits times pi / 2, as an f64 and its correction."""
    magic = m.format.magic
    top = (upper >> 32) + m.format.bits(magic)
    first = (top.bitcast(Prim.F64) - magic) * 2.0**-32
    second = _low_word(m, upper & 0xFFFFFFFF) * 2.0**-64
    third = _low_word(m, lshr(lower, 30) & 0xFFFFFFFF) * 2.0**-96
    fourth = _low_word(m, (lower << 2) & 0xFFFFFFFF) * 2.0**-128
    total, rest = m.exact_sum(m.let("first", first), m.let("second", second))
    fraction, tail = m.exact_sum(total, m.let("third", rest + (third + fourth)))
    r, r_rest = m.exact_product(fraction, m.constant(HALF_PI[0]))
    return r, r_rest + fma(fraction, HALF_PI[1], tail * HALF_PI[0])


def _low_word(m: FunctionBuilder, word: E) -> E:
    """An integer below 2**32 as an f64, by its bits."""
    offset = 2.0**m.format.mantissa
    return (word | m.format.bits(offset)).bitcast(Prim.F64) - offset


def sine_and_cosine(m: FunctionBuilder, r: E, low: E) -> tuple[E, E]:
    """sin and cos of `r + low` for |r| <= pi / 4."""
    y = m.let("y", r * r)
    half = m.let("half", 0.5 * y)
    top = m.let("top", 1.0 - half)
    rest = ((1.0 - top) - half) + fma(y * y, m.polynomial(y, coefficients.COS), -r * low)
    cosine = m.let("cosine", top + rest)
    sine = m.let("sine", r + fma(r * y, m.polynomial(y, coefficients.SIN), low * top))
    return sine, cosine


def flip_sign(m: FunctionBuilder, value: E, quadrant: E) -> E:
    """Negate where bit 1 of the quadrant is set."""
    shift = m.format.integer.size * 8 - 2
    sign = (quadrant & 2).cast(m.format.integer) << shift
    return (m.bits(value) ^ sign).bitcast(m.prim)


def sine_of(m: FunctionBuilder, x: E, quadrant: E, r: E, low: E) -> E:
    """The sine of x, whose magnitude is `r + low` from a quadrant."""
    sine, cosine = sine_and_cosine(m, r, low)
    value = flip_sign(m, select((quadrant & 1).ne(0), cosine, sine), quadrant)
    return (m.bits(value) ^ (m.bits(x) & m.format.sign_bit)).bitcast(m.prim)


def cosine_of(m: FunctionBuilder, quadrant: E, r: E, low: E) -> E:
    """The cosine of what is `r + low` from a quadrant."""
    sine, cosine = sine_and_cosine(m, r, low)
    value = select((quadrant & 1).ne(0), sine, cosine)
    return flip_sign(m, value, m.let("turned", quadrant + (quadrant & 1)))


def tangent_of(m: FunctionBuilder, x: E, quadrant: E, r: E, low: E) -> E:
    """The tangent of x, whose magnitude is `r + low` from a quadrant."""
    y = m.let("y", r * r)
    tail = m.let("tail", r * y * m.polynomial(y, coefficients.TAN))
    near = m.let("near", r + tail)
    tangent = m.let("tangent", r + fma(low, fma(near, near, 1.0), tail))
    value = m.let("value", select((quadrant & 1).ne(0), -1.0 / tangent, tangent))
    return (m.bits(value) ^ (m.bits(x) & m.format.sign_bit)).bitcast(m.prim)


@cache
def sine_of_turned(prim: Prim) -> Function:
    """Return the function of an angle and a number of quarters, 0 or 1, that turn it.

    It has the sine's sign of a negative angle, and the cosine's where it is turned.
    """
    m = FunctionBuilder(prim)
    params = m.parameter("x", prim), m.parameter("quarters", m.format.integer)
    x, quarters = map(E, params)
    magnitude = m.let("magnitude", abs(x))
    quadrant, r, low = reduce_argument(m, magnitude)
    turned = m.let("turned", quadrant + quarters)
    sine, cosine = sine_and_cosine(m, r, low)
    value = m.bits(flip_sign(m, select((turned & 1).ne(0), cosine, sine), turned))
    sign = m.bits(x) & m.format.sign_bit & (quarters - 1)
    value = (value ^ sign).bitcast(prim)
    result = select(magnitude < math.inf, value, m.constant(math.nan))
    doc = "Sine of an angle plus no or one quarter of a turn, for the full range."
    return Function(f"sine_of_turned_{prim}", params, tuple(m.lets), result.node, doc)


def _turned(m: FunctionBuilder, x: E, quarters: int) -> E:
    return call(sine_of_turned(m.prim), x, const(quarters, m.format.integer))


@math_function(f32=1.0, f64=1.0)
def sin(m: FunctionBuilder, x: E) -> E:
    """Sine, for the full range; NaN at infinity."""
    return _turned(m, x, 0)


@math_function(f32=1.0, f64=1.0)
def cos(m: FunctionBuilder, x: E) -> E:
    """Cosine, for the full range; NaN at infinity."""
    return _turned(m, x, 1)


@math_function(f32=2.0, f64=2.0)
def tan(m: FunctionBuilder, x: E) -> E:
    """Tangent, for the full range; NaN at infinity."""
    magnitude = m.let("magnitude", abs(x))
    value = tangent_of(m, x, *reduce_argument(m, magnitude))
    return select(magnitude < math.inf, value, m.constant(math.nan))
