"""The discrete Fourier transform along the middle axis of three, made of shorter ones.

A length n = p q is p-point transforms of columns, a turn of each element and q-point transforms
of rows. So are those that are too long for a cache, and a few long ones, whose parts then lie side
by side in vectors. A large prime is a convolution of a length with small factors (Bluestein, 1970).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.errors import ShapeError
from rlx.ir.graph import Value
from rlx.ir.op import Trait, op
from rlx.ir.ops.requirements import require_dtype, require_shape
from rlx.ir.ops.shape import narrow, pad, reshape, transpose
from rlx.ir.shape import upper
from rlx.ir.types import TensorType

__all__ = ["dft"]

Array: TypeAlias = NDArray[Any]

LARGEST_PRIME = 61
"""Lengths with a larger prime factor are convolutions."""
LONGEST = 2048
"""Points of a transform whose vectors, in two copies, stay in a second-level cache."""
_SIDE_BY_SIDE = 16
"""Transforms that fill the widest vectors; of fewer, long ones are taken apart."""
_SHORT = 256
"""Points from which that pays."""


@op("signal", Trait.WHOLE)
def dft(x: TensorType, roots: TensorType, *, inverse: bool, scale: float) -> TensorType:
    """Discrete Fourier transform along axis 1 of three, times `scale`.

    `roots` are the n-th roots of unity, their real parts and then their imaginary parts, in the
    order of the exponents 0 to n - 1, of which the transform is the sum.
    """
    require_dtype(x, "complex")
    if x.rank != 3 or not isinstance(x.shape[1], int) or largest_prime(x.shape[1]) > LARGEST_PRIME:
        raise ShapeError(
            f"operand has shape {x.describe_shape()}; it needs three axes, and the length of the "
            f"second one prime factors of at most {LARGEST_PRIME}",
            remedy="use fft, which takes any length along any axis",
        )
    require_dtype(roots, str(x.dtype.part), "roots")
    require_shape(roots, (2, x.shape[1]), "roots")
    del inverse, scale
    return x


def transformed(x: Value, *, inverse: bool, scale: float = 1.0) -> Value:
    """Return the transform along axis 1 of `[outer, n, inner]`."""
    _, n, inner = x.shape
    assert isinstance(n, int)  # the op that this is the formula of has checked it
    sign = 1 if inverse else -1
    if largest_prime(n) > LARGEST_PRIME:
        return _by_convolution(x, n, sign, scale)
    if inner != 1 and upper(inner) < _SIDE_BY_SIDE:
        return _by_rows(x, inverse=inverse, scale=scale)
    if not _is_split(n, upper(x.shape[0] * inner)):
        roots = _constant(x, _parts(_roots(n, sign)))
        direct: Value = dft(x, roots, inverse=inverse, scale=scale)
        return direct
    p = _middle_divisor(n)
    q = n // p
    columns = transformed(reshape(x, shape=(-1, p, q * inner)), inverse=inverse)
    turned = reshape(columns, shape=(-1, p, q, inner)) * _numbers(x, _turns(p, q, sign)[..., None])
    rows = transformed(reshape(turned, shape=(-1, q, inner)), inverse=inverse, scale=scale)
    gathered = transpose(reshape(rows, shape=(-1, p, q, inner)), perm=(0, 2, 1, 3))
    return reshape(gathered, shape=x.shape)


def _by_rows(x: Value, *, inverse: bool, scale: float) -> Value:
    """Transform a few columns as rows."""
    outer, n, inner = x.shape
    rows = reshape(transpose(x, perm=(0, 2, 1)), shape=(outer * inner, n, 1))
    found = reshape(transformed(rows, inverse=inverse, scale=scale), shape=(outer, inner, n))
    return transpose(found, perm=(0, 2, 1))


def _by_convolution(x: Value, n: int, sign: int, scale: float) -> Value:
    length = _smooth(2 * n - 1)
    chirp, spectrum = _chirp(n, length, sign)
    padded = pad(x * _numbers(x, chirp[:, None]), low=(0, 0, 0), high=(0, length - n, 0), value=0.0)
    filtered = transformed(padded, inverse=False) * _numbers(x, spectrum[:, None])
    convolved = transformed(filtered, inverse=True)
    kept = narrow(convolved, axis=1, start=0, length=n)
    return kept * _numbers(x, scale * chirp[:, None])


def _constant(like: Value, array: Array) -> Value:
    return like.graph.constant(np.ascontiguousarray(array), like.dtype.part)


def _numbers(like: Value, array: Array) -> Value:
    return like.graph.constant(np.ascontiguousarray(array), like.dtype)


# Lengths


def prime_factors(n: int) -> list[int]:
    """Return the prime factors of `n`, ascending, with multiplicity; none for `n` below 2."""
    found, divisor = [], 2
    while divisor * divisor <= n:
        while n % divisor == 0:
            found.append(divisor)
            n //= divisor
        divisor += 1
    return [*found, n] if n > 1 else found


def largest_prime(n: int) -> int:
    return max(prime_factors(n), default=1)


def _is_split(n: int, count: int) -> bool:
    """True if `count` transforms of n points are made of shorter ones."""
    if len(prime_factors(n)) <= 1:
        return False
    return n > LONGEST or (n >= _SHORT and count < _SIDE_BY_SIDE)


def _middle_divisor(n: int) -> int:
    """Return the divisor of a composite number that is nearest to its square root."""
    divisors = {d for c in range(2, math.isqrt(n) + 1) if n % c == 0 for d in (c, n // c)}
    return min(divisors, key=lambda d: (abs(math.log(d * d / n)), d))


def _smooth(least: int) -> int:
    """Return the first number from `least` on without prime factors above 5."""
    n = least
    while largest_prime(n) > 5:
        n += 1
    return n


# Numbers


@cache
def _roots(n: int, sign: int) -> Array:
    """Return the n-th roots of unity; those on the axes are exact."""
    angles = 2 * np.pi * np.arange(n) / n
    roots = np.cos(angles) + 1j * sign * np.sin(angles)
    for quarter, exact in enumerate((1, 1j, -1, -1j)):
        if quarter * n % 4 == 0:
            roots[quarter * n // 4] = exact if sign > 0 else np.conj(exact)
    return roots


def _parts(numbers: Array) -> Array:
    return np.stack([numbers.real, numbers.imag])


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
