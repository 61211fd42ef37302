"""The discrete Fourier transform along the middle axis of three, made of shorter ones.

A length n = p q is p-point transforms of columns, a turn of each element and q-point transforms
of rows. So are those that are too long for a cache, and a few long ones, whose parts are then side
by side in vectors. A large prime is a convolution of a length with small factors (Rader, 1968;
Bluestein, 1970).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.errors import ShapeError
from rlx.ir.declaration import op
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.elementwise import cast, complex, conj, imag, real, where
from rlx.ir.ops.requirements import require_dtype, require_shape
from rlx.ir.ops.shape import concat, narrow, pad, reshape, reverse, transpose
from rlx.ir.shape import upper
from rlx.ir.types import TensorType

__all__ = ["dft", "dft_of_prime", "dft_of_reals", "dft_to_reals"]

Array: TypeAlias = NDArray[Any]

LARGEST_PRIME = 61
"""Lengths with a larger prime factor are convolutions."""
_LARGEST_SHORT = 13
"""Convolutions have no larger prime factor: their stages are written out."""
LONGEST = 2048
"""Points of a transform whose vectors, in two copies, stay in a second-level cache."""
_SIDE_BY_SIDE = 16
"""Transforms that fill the widest vectors; of fewer, long ones are taken apart."""
_SHORT = 256
"""Points from which that pays."""


@op("signal", Trait.ALL_ELEMENTS)
def dft(x: TensorType, roots: TensorType, *, inverse: bool, scale: float) -> TensorType:
    """Discrete Fourier transform along axis 1 of three, times `scale`.

    `roots` are the n-th roots of unity, their real parts and then their imaginary parts, in the
    order of the exponents 0 to n - 1, of which the transform is the sum.
    """
    require_dtype(x, "complex")
    n = _length(x, "fft")
    if largest_prime(n) > LARGEST_PRIME:
        raise ShapeError(
            f"operand has shape {x.describe_shape()}; the length of the second axis needs prime "
            f"factors of at most {LARGEST_PRIME}",
            remedy="use fft, which takes any length along any axis",
        )
    require_dtype(roots, str(x.dtype.part), "roots")
    require_shape(roots, (2, n), "roots")
    del inverse, scale
    return x


@op("signal", Trait.ALL_ELEMENTS, Trait.LOWERED)
def dft_of_reals(x: TensorType, roots: TensorType, *, scale: float) -> TensorType:
    """Lower half of the spectrum of an even count of reals along axis 1 of three, times `scale`.

    `roots` are as for `dft`, of the forward direction and the whole length n; the result has
    n / 2 + 1 bins.
    """
    require_dtype(x, "f32 f64")
    n = _length(x, "rfft")
    _require_halves(n, "rfft")
    require_dtype(roots, str(x.dtype), "roots")
    require_shape(roots, (2, n), "roots")
    del scale
    return TensorType(x.dtype.with_parts, (x.shape[0], n // 2 + 1, x.shape[2]))


@op("signal", Trait.ALL_ELEMENTS, Trait.LOWERED)
def dft_to_reals(x: TensorType, roots: TensorType, *, scale: float) -> TensorType:
    """The reals whose spectrum has its lower half along axis 1 of three, unscaled times `scale`.

    `roots` are as for `dft`, of the inverse direction and the whole length n; the operand has
    n / 2 + 1 bins. The imaginary parts of the first and of the last one are not read.
    """
    require_dtype(x, "complex")
    n = 2 * (_length(x, "irfft") - 1)
    _require_halves(n, "irfft")
    require_dtype(roots, str(x.dtype.part), "roots")
    require_shape(roots, (2, n), "roots")
    del scale
    return TensorType(x.dtype.part, (x.shape[0], n, x.shape[2]))


@op("signal", Trait.ALL_ELEMENTS, Trait.LOWERED)
def dft_of_prime(
    x: TensorType, roots: TensorType, spectrum: TensorType, given: TensorType, taken: TensorType,
    *, inverse: bool, scale: float,
) -> TensorType:  # fmt: skip
    """Discrete Fourier transform of a prime length along axis 1 of three, times `scale`.

    It is a convolution of as many points as there are `roots`, as for `dft` in the forward
    direction, with what has the `spectrum`. Point i is its point `given[i]`, and bin i is at
    `taken[i]`; those of number 0 come after all others.
    """
    require_dtype(x, "complex")
    n = _length(x, "fft")
    length = roots.shape[-1] if roots.rank else 0
    if largest_prime(n) != n or not isinstance(length, int) or length < n - 1:
        raise ShapeError(
            f"operand has shape {x.describe_shape()} and roots {roots.describe_shape()}; the "
            "second axis needs a prime length n, and roots those of n - 1 points at least",
            remedy="use fft, which takes any length along any axis",
        )
    for table, name in ((roots, "roots"), (spectrum, "spectrum")):
        require_dtype(table, str(x.dtype.part), name)
        require_shape(table, (2, length), name)
    for order, name in ((given, "given"), (taken, "taken")):
        require_dtype(order, "i32", name)
        require_shape(order, (n,), name)
    del inverse, scale
    return x


def _length(x: TensorType, general: str) -> int:
    if x.rank != 3 or not isinstance(x.shape[1], int):
        raise ShapeError(
            f"operand has shape {x.describe_shape()}; it needs three axes, and the second one a "
            "length that is a number",
            remedy=f"use {general}, which takes any axis",
        )
    return x.shape[1]


def _require_halves(n: int, general: str) -> None:
    if n < 2 or n % 2 or largest_prime(n // 2) > LARGEST_PRIME:
        raise ShapeError(
            f"{n} reals are transformed; it takes an even count, and half of it prime factors of "
            f"at most {LARGEST_PRIME}",
            remedy=f"use {general}, which takes any length",
        )


def transformed(x: Value, *, inverse: bool, scale: float = 1.0) -> Value:
    """Return the transform along axis 1 of `[outer, n, inner]`."""
    outer, n, inner = x.shape
    assert isinstance(n, int)  # the op that this is the formula of has checked it
    sign = 1 if inverse else -1
    if largest_prime(n) > LARGEST_PRIME:
        if _in_few_columns(x):
            return _by_rows(x, inverse=inverse, scale=scale)
        if largest_prime(n) == n and _rader_length(n) <= LONGEST:
            return _of_prime(x, n, inverse=inverse, scale=scale)
        return _by_convolution(x, n, sign, scale)
    if _in_few_columns(x):
        return _by_rows(x, inverse=inverse, scale=scale)
    if not _is_split(n, upper(outer * inner)):
        roots = _constant(x, _parts(_roots(n, sign)))
        direct: Value = dft(x, roots, inverse=inverse, scale=scale)
        return direct
    p = _middle_divisor(n)
    q = n // p
    columns = transformed(reshape(x, shape=(outer, p, q * inner)), inverse=inverse)
    groups = (outer, p, q, inner)
    turned = reshape(columns, shape=groups) * _numbers(x, _turns(p, q, sign)[..., None])
    rows = transformed(reshape(turned, shape=(outer * p, q, inner)), inverse=inverse, scale=scale)
    gathered = transpose(reshape(rows, shape=groups), perm=(0, 2, 1, 3))
    return reshape(gathered, shape=x.shape)


def _by_rows(x: Value, *, inverse: bool, scale: float) -> Value:
    """Transform a few columns as rows."""
    found = transformed(_as_rows(x), inverse=inverse, scale=scale)
    return _as_columns(found, x)


def _as_rows(x: Value) -> Value:
    outer, n, inner = x.shape
    return reshape(transpose(x, perm=(0, 2, 1)), shape=(outer * inner, n, 1))


def _as_columns(rows: Value, given: Value) -> Value:
    shape = (given.shape[0], given.shape[2], rows.shape[1])
    return transpose(reshape(rows, shape=shape), perm=(0, 2, 1))


def spectrum_of_reals(x: Value, *, scale: float) -> Value:
    """Return the lower half of the spectrum of reals along axis 1 of `[outer, n, inner]`."""
    outer, n, inner = x.shape
    assert isinstance(n, int)  # as above
    if n % 2:
        whole = transformed(cast(x, to=x.dtype.with_parts), inverse=False, scale=scale)
        return narrow(whole, axis=1, start=0, length=n // 2 + 1)
    if _in_few_columns(x):
        return _as_columns(spectrum_of_reals(_as_rows(x), scale=scale), x)
    if _is_direct(n // 2, upper(outer * inner)):
        found: Value = dft_of_reals(x, _constant(x, _parts(_roots(n, -1))), scale=scale)
        return found
    pairs = reshape(x, shape=(outer, n // 2, 2, inner))
    parts = [_side(pairs, part) for part in (0, 1)]
    z = transformed(complex(*parts), inverse=False, scale=scale / 2)
    closed = concat(z, narrow(z, axis=1, start=0, length=1), axis=1)
    turns = -1j * _roots(n, -1)[: n // 2 + 1, None]
    return _mirrored(closed, turns)


def reals_of_spectrum(x: Value, n: int, *, scale: float) -> Value:
    """Return the n reals whose spectrum has the lower half `[outer, n // 2 + 1, inner]`."""
    outer, bins, inner = x.shape
    assert isinstance(bins, int)  # as above
    if n % 2:
        rest = reverse(narrow(x, axis=1, start=1, length=n // 2), axes=(1,))
        first = cast(real(narrow(x, axis=1, start=0, length=1)), to=x.dtype)
        whole = concat(first, narrow(x, axis=1, start=1, length=n // 2), conj(rest), axis=1)
        return real(transformed(whole, inverse=True, scale=scale))
    if _in_few_columns(x):
        return _as_columns(reals_of_spectrum(_as_rows(x), n, scale=scale), x)
    if _is_direct(n // 2, upper(outer * inner)):
        found: Value = dft_to_reals(x, _constant(x, _parts(_roots(n, 1))), scale=scale)
        return found
    ends = np.zeros((bins, 1), bool)
    ends[0] = ends[-1] = True
    clean = complex(real(x), where(x.graph.constant(ends), 0.0, imag(x)))
    both = _mirrored(clean, 1j * _roots(n, 1)[:bins, None])
    z = transformed(narrow(both, axis=1, start=0, length=n // 2), inverse=True, scale=scale)
    parts = [reshape(part, shape=(outer, n // 2, 1, inner)) for part in (real(z), imag(z))]
    return reshape(concat(*parts, axis=2), shape=(outer, n, inner))


def _side(pairs: Value, part: int) -> Value:
    taken = narrow(pairs, axis=2, start=part, length=1)
    return reshape(taken, shape=(pairs.shape[0], pairs.shape[1], pairs.shape[3]))


def _mirrored(z: Value, turns: Array) -> Value:
    """Return sums of points with mirrored conjugates, and differences times twiddle factors."""
    mirrored = conj(reverse(z, axes=(1,)))
    return z + mirrored + (z - mirrored) * z.graph.constant(turns, z.dtype)


def _in_few_columns(x: Value) -> bool:
    inner = x.shape[2]
    return inner != 1 and upper(inner) < _SIDE_BY_SIDE


def _is_direct(n: int, count: int) -> bool:
    """True if a kernel transforms n points as they are."""
    return largest_prime(n) <= LARGEST_PRIME and not _is_split(n, count)


def _by_convolution(x: Value, n: int, sign: int, scale: float) -> Value:
    length = _smooth(2 * n - 1)
    chirp, spectrum = _chirp(n, length, sign)
    padded = pad(x * _numbers(x, chirp[:, None]), low=(0, 0, 0), high=(0, length - n, 0), value=0.0)
    filtered = transformed(padded, inverse=False) * _numbers(x, spectrum[:, None])
    convolved = transformed(filtered, inverse=True)
    kept = narrow(convolved, axis=1, start=0, length=n)
    return kept * _numbers(x, scale * chirp[:, None])


def _of_prime(x: Value, n: int, *, inverse: bool, scale: float) -> Value:
    tables = prime_tables(n, inverse=inverse)
    numbers = [_constant(x, table) for table in tables[:2]]
    orders = [x.graph.constant(order, "i32") for order in tables[2:]]
    found: Value = dft_of_prime(x, *numbers, *orders, inverse=inverse, scale=scale)
    return found


def _constant(like: Value, array: Array) -> Value:
    part = like.dtype.part if like.dtype.is_complex else like.dtype
    return like.graph.constant(np.ascontiguousarray(array), part)


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
    """Return the chirp of Bluestein's convolution, and the spectrum of its filter."""
    squares = np.arange(n, dtype=np.int64) ** 2 % (2 * n)
    chirp = np.exp(1j * sign * np.pi * squares / n)
    other = np.zeros(length, np.complex128)
    other[:n] = np.conj(chirp)
    other[length - n + 1 :] = np.conj(chirp[1:][::-1])
    return chirp, np.fft.fft(other) / length


def _rader_length(n: int) -> int:
    """Return the points of the convolution that transforms a prime number of them."""
    return n - 1 if largest_prime(n - 1) <= _LARGEST_SHORT else _smooth(2 * n - 3)


@cache
def prime_tables(n: int, *, inverse: bool) -> tuple[Array, Array, Array, Array]:
    """Return the operands of `dft_of_prime`: roots, a spectrum, two permutations."""
    length, steps = _rader_length(n), np.arange(n - 1)
    generator = next(
        g for g in range(1, n) if all(pow(g, (n - 1) // p, n) != 1 for p in prime_factors(n - 1))
    )
    powers = np.array([pow(generator, step, n) for step in range(n - 1)])
    roots = _roots(n, 1 if inverse else -1)[powers[-steps]]
    other = np.zeros(length, np.complex128)
    other[: n - 1] = roots
    other[length - (n - 2) :] = roots[1:]
    given, taken = (np.full(n, length, np.int32) for _ in range(2))
    given[powers] = steps
    taken[powers[-steps]] = steps
    return _parts(_roots(length, -1)), _parts(np.fft.fft(other) / length), given, taken
