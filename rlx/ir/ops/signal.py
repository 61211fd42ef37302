"""The discrete Fourier transform of any length, by products with small matrices.

A transform of length n = p q is p-point transforms of columns, a turn of each element and
q-point transforms of rows. Each is a product with a constant matrix, which the kernels of
products do in vectors on all threads. A large prime is a convolution of a length that is a
power of two (Bluestein, 1970).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.errors import DTypeError, ShapeError
from rlx.ir.composite import composite
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.elementwise import complex, imag, log, maximum, ne, real, where
from rlx.ir.ops.linalg import matmul
from rlx.ir.ops.reduction import reduce_max
from rlx.ir.ops.requirements import require_dtype, require_rank
from rlx.ir.ops.shape import concat, narrow, pad, reshape, transpose
from rlx.ir.types import TensorType

Array: TypeAlias = NDArray[Any]

LARGEST_RADIX = 64
LARGEST_PRIME = 61
"""Lengths with a larger prime factor are convolutions."""


@composite("signal", Trait.WHOLE, Trait.LINEAR)
def fft(x: Value, *, inverse: bool = False, scale: float = 1.0) -> Value:
    """Discrete Fourier transform along the last axis, times `scale`.

    Complex numbers, or an axis of floats with all real parts before all imaginary parts. The
    sign of the exponent is -1, for the inverse +1; neither divides by the length.
    """
    n = transform_length(x.type)
    planes = _planes(x, n)
    turned = _scaled(_transform(planes, n, 1 if inverse else -1), scale)
    if not x.dtype.is_complex:
        return reshape(turned, shape=x.shape)
    shape = (*x.shape[:-1], n)
    parts = (reshape(_plane(turned, index), shape=shape) for index in (0, 1))
    return complex(*parts)


def transform_length(type: TensorType) -> int:
    """Return how many complex numbers a row has."""
    if not (type.dtype.is_complex or type.dtype.value in ("f32", "f64")):
        raise DTypeError(
            f"operand has dtype {type.dtype}; it must be complex, f32 or f64",
            remedy="convert it first",
        )
    require_rank(type, 1)
    extent = type.shape[-1]
    if not isinstance(extent, int):
        raise ShapeError(
            f"the last axis of {type.describe_shape()} is symbolic; the length of a transform "
            "must be a number",
            remedy="build the graph for one length, or pad to one",
        )
    length = extent if type.dtype.is_complex else extent // 2
    if length < 1 or (not type.dtype.is_complex and extent % 2):
        raise ShapeError(
            f"the last axis of {type.describe_shape()} holds no transform; it needs an element, "
            "and floats as many imaginary as real parts",
            remedy="pass at least one element; put the imaginary parts behind the real ones",
        )
    return length


def _planes(x: Value, n: int) -> Value:
    """Return rows of two planes, real and imaginary."""
    if not x.dtype.is_complex:
        return reshape(x, shape=(-1, 2, n))
    parts = [reshape(part, shape=(-1, 1, n)) for part in (real(x), imag(x))]
    return concat(*parts, axis=1)


def _plane(x: Value, index: int) -> Value:
    """Return one plane of [rows, 2, ...], without its axis."""
    rest = x.shape[2:]
    part = narrow(x, axis=1, start=index, length=1)
    return reshape(part, shape=(-1, *rest))


def _scaled(x: Value, scale: float) -> Value:
    return x if scale == 1.0 else x * scale


def _transform(x: Value, n: int, sign: int) -> Value:
    """Transform the rows of [rows, 2, n]."""
    radix = first_radix(n)
    if radix is None:
        return _by_convolution(x, n, sign)
    if radix == n:
        product = matmul(reshape(x, shape=(-1, 2 * n)), _constant(x, _matrix(n, sign).T))
        return reshape(product, shape=(-1, 2, n))
    rest = n // radix
    columns = matmul(_constant(x, _matrix(radix, sign)), reshape(x, shape=(-1, 2 * radix, rest)))
    split = reshape(columns, shape=(-1, 2, radix, rest))
    turned = _multiplied(split, _turns(radix, rest, sign))  # [rows, radix, 2, rest]
    rows = _transform(reshape(turned, shape=(-1, 2, rest)), rest, sign)
    gathered = transpose(reshape(rows, shape=(-1, radix, 2, rest)), perm=(0, 2, 3, 1))
    return reshape(gathered, shape=(-1, 2, n))


def _multiplied(x: Value, factors: Array) -> Value:
    """Multiply [rows, 2, p, q] by complex numbers [p, q]; the planes go behind p."""
    re, im = _plane(x, 0), _plane(x, 1)
    c, s = _constant(x, factors.real), _constant(x, factors.imag)
    shape = (-1, factors.shape[0], 1, factors.shape[1])
    parts = [reshape(part, shape=shape) for part in (re * c - im * s, re * s + im * c)]
    return concat(*parts, axis=2)


def _by_convolution(x: Value, n: int, sign: int) -> Value:
    length = 1 << (2 * n - 2).bit_length()
    chirp, spectrum = _chirp(n, length, sign)
    turned = _flat(_multiplied(reshape(x, shape=(-1, 2, 1, n)), chirp[None]), n)
    padded = pad(turned, low=(0, 0, 0), high=(0, 0, length - n), value=0.0)
    filtered = _transform(padded, length, -1)
    filtered = _multiplied(reshape(filtered, shape=(-1, 2, 1, length)), spectrum[None])
    convolved = _transform(_flat(filtered, length), length, 1)
    kept = narrow(convolved, axis=2, start=0, length=n)
    return _flat(_multiplied(reshape(kept, shape=(-1, 2, 1, n)), chirp[None]), n)


def _flat(x: Value, n: int) -> Value:
    return reshape(x, shape=(-1, 2, n))


def _constant(like: Value, array: Array) -> Value:
    return like.graph.constant(np.ascontiguousarray(array), like.dtype)


# Numbers


def prime_factors(n: int) -> list[int]:
    """Return the prime factors of `n`, ascending, with multiplicity; none for `n` below 2."""
    found, divisor = [], 2
    while divisor * divisor <= n:
        while n % divisor == 0:
            found.append(divisor)
            n //= divisor
        divisor += 1
    return [*found, n] if n > 1 else found


def first_radix(n: int) -> int | None:
    """Return the length of the columns' transforms; `n` if it is one product, None if none is."""
    factors = prime_factors(n)
    if max(factors, default=1) > LARGEST_PRIME:
        return None
    if n <= LARGEST_RADIX or len(factors) == 1:
        return n
    passes = math.ceil(math.log(n) / math.log(LARGEST_RADIX))
    wanted = n ** (1 / passes)
    divisors = [d for d in range(2, max(LARGEST_RADIX, factors[-1]) + 1) if n % d == 0]
    return min(divisors, key=lambda d: abs(math.log(d / wanted)))


@cache
def _roots(n: int, sign: int) -> Array:
    """Return the n-th roots of unity; those on the axes are exact."""
    angles = 2 * np.pi * np.arange(n) / n
    roots = np.cos(angles) + 1j * sign * np.sin(angles)
    for quarter, exact in enumerate((1, 1j, -1, -1j)):
        if quarter * n % 4 == 0:
            roots[quarter * n // 4] = exact if sign > 0 else np.conj(exact)
    return roots


@cache
def _matrix(n: int, sign: int) -> Array:
    """Return the transform of n points as a real matrix of the planes."""
    rows = np.arange(n)
    w = _roots(n, sign)[np.outer(rows, rows) % n]
    return np.block([[w.real, -w.imag], [w.imag, w.real]])


def _turns(p: int, q: int, sign: int) -> Array:
    turns: Array = _roots(p * q, sign)[np.outer(np.arange(p), np.arange(q))]
    return turns


def _chirp(n: int, length: int, sign: int) -> tuple[Array, Array]:
    """Return the turns of Bluestein's convolution, and the spectrum of its other side."""
    squares = np.arange(n, dtype=np.int64) ** 2 % (2 * n)
    chirp = np.exp(1j * sign * np.pi * squares / n)
    other = np.zeros(length, np.complex128)
    other[:n] = np.conj(chirp)
    other[length - n + 1 :] = np.conj(chirp[1:][::-1])
    return chirp, np.fft.fft(other) / length


# Formulas over spectra


@composite("signal", Trait.WHOLE)
def fft_butterfly_stage(
    state: Value, gate: Value, rev: Value, tw_re: Value, tw_im: Value, *, stage: int, n_fft: int
) -> Value:
    """One stage of a transform of radix 2, whose pairs may be left alone or exchanged.

    `state` holds `n_fft` complex numbers per row, each its real and its imaginary part. Pair
    number b is (i, i + 2**stage); it becomes sum and difference of the first and the second
    times the twiddle b, where `gate` b is not 0, and changes places where `rev` b is 1/2 or more.
    """
    stride = _stride(state.type, stage, n_fft)
    rows = reshape(state, shape=(-1, n_fft // 2 // stride, 2, stride, 2))
    pair = (n_fft // 2 // stride, stride)
    gate, rev, w_re, w_im = (reshape(each, shape=pair) for each in (gate, rev, tw_re, tw_im))
    parts = []
    (a_re, a_im), (b_re, b_im) = (_parts_of(rows, side) for side in (0, 1))
    t_re, t_im = w_re * b_re - w_im * b_im, w_re * b_im + w_im * b_re
    for first, second, turned in ((a_re, b_re, t_re), (a_im, b_im, t_im)):
        total, difference = first + turned, first - turned
        exchanged, active = rev >= 0.5, ne(gate, 0.0)
        top = where(active, where(exchanged, difference, total), first)
        bottom = where(active, where(exchanged, total, difference), second)
        sides = [reshape(each, shape=(-1, pair[0], 1, stride, 1)) for each in (top, bottom)]
        parts.append(concat(*sides, axis=2))
    return reshape(concat(*parts, axis=4), shape=state.shape)


def _stride(state: TensorType, stage: int, n_fft: int) -> int:
    fits = n_fft >= 2 and n_fft & (n_fft - 1) == 0 and 0 <= stage < n_fft.bit_length() - 1
    if not fits or state.shape[-1:] != (2 * n_fft,):
        raise ShapeError(
            f"stage {stage} of a transform of {n_fft} points on {state.describe_shape()}; the "
            "points are a power of two, their logarithm exceeds the stage, and rows hold two "
            "numbers for each point",
            remedy="give n_fft, stage and state that fit each other",
        )
    return 1 << stage


def _parts_of(rows: Value, side: int) -> tuple[Value, Value]:
    """Return the real and the imaginary parts of one number of each pair."""
    groups, stride = rows.shape[1], rows.shape[3]
    numbers = narrow(rows, axis=2, start=side, length=1)
    real_part, imaginary_part = (
        reshape(narrow(numbers, axis=4, start=part, length=1), shape=(-1, groups, stride))
        for part in (0, 1)
    )
    return real_part, imaginary_part


@composite("signal", Trait.WHOLE)
def log_mel(spec: Value, filters: Value) -> Value:
    """Logarithms of the energy in bands, at most 8 below the largest of a row, scaled.

    `spec` has rows of real parts and then imaginary parts, `filters` a row of weights per band
    for the first half of the spectrum and one more.
    """
    require_dtype(spec.type, "f32", "spec")
    n_fft = transform_length(spec.type)
    bins = n_fft // 2 + 1
    if filters.rank != 2 or filters.shape[1] != bins:
        raise ShapeError(
            f"filters have shape {filters.type.describe_shape()}; rows of {n_fft} points have "
            f"{bins} bins, so it must be (bands, {bins})",
            remedy="give one weight for each bin",
        )
    re, im = (narrow(spec, axis=-1, start=start, length=bins) for start in (0, n_fft))
    power = reshape(re * re + im * im, shape=(-1, bins))
    energy = matmul(power, transpose(filters, perm=(1, 0)))
    levels = log(maximum(energy, 1e-10)) * (1.0 / math.log(10.0))
    floor = reduce_max(levels, axes=(1,), keepdims=True) - 8.0
    scaled = (maximum(levels, floor) + 4.0) * 0.25
    return reshape(scaled, shape=(*spec.shape[:-1], filters.shape[0]))
