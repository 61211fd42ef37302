"""Polynomials, whose coefficients begin with that of the highest power; convolutions of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.numpy import elementwise
from rlx.numpy.axes import count_from, static_shape
from rlx.numpy.creation import zeros_like
from rlx.numpy.decompositions import lstsq
from rlx.numpy.dtypes import finfo
from rlx.numpy.indexing import take
from rlx.numpy.products import matmul
from rlx.numpy.reductions import sum
from rlx.numpy.shaping import atleast_1d, concatenate, flip, stack
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, emit, function, inexact, promoted


@function
def polyval(p: Any, x: Any, *, unroll: int = 16) -> Array:
    """The polynomial at `x`, by Horner's rule."""
    p, x = promoted([p, x])
    found = zeros_like(x)
    for index in range(static_shape(p)[0]):
        found = elementwise.add(elementwise.multiply(found, x), p[index])
    return found


@function
def polyadd(a1: Any, a2: Any) -> Array:
    """The sum of two polynomials."""
    a1, a2 = (atleast_1d(each) for each in promoted([a1, a2]))
    count = np.maximum(a1.shape[0], a2.shape[0]).item()
    return elementwise.add(_extended(a1, count), _extended(a2, count))


@function
def polysub(a1: Any, a2: Any) -> Array:
    """The difference of two polynomials."""
    return polyadd(a1, elementwise.negative(a2))


@function
def polymul(a1: Any, a2: Any) -> Array:
    """The product of two polynomials."""
    return convolve(atleast_1d(a1), atleast_1d(a2))


@function
def polyder(p: Any, m: int = 1) -> Array:
    """The derivative of order `m`."""
    p = as_tracer(p)
    for _ in range(count_from(m, "m")):
        degree = p.shape[0] - 1
        p = elementwise.multiply(p[:-1], np.arange(degree, 0, -1))
    return p


@function
def polyint(p: Any, m: int = 1, k: Any = None) -> Array:
    """The integral of order `m`, with constants `k`, by default 0."""
    (p,) = inexact(p)
    k = 0 if k is None else k
    constants = np.broadcast_to(np.atleast_1d(k), (m,)) if isinstance(k, (int, float, list)) else k
    for order in range(count_from(m, "m")):
        p = elementwise.divide(p, np.arange(p.shape[0], 0, -1))
        p = concatenate([p, atleast_1d(constants[order])])
    return p


@function
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Array:
    """The powers of each element in a row, the highest first unless `increasing`."""
    x = as_tracer(x)
    count = x.shape[0] if N is None else count_from(N, "N")
    powers: list[Any] = []
    for _ in range(count):
        ones = emit(ops.expand, as_tracer(np.ones((), x.dtype)), shape=x.shape)
        powers.append(elementwise.multiply(powers[-1], x) if powers else ones)
    return stack(powers if increasing else powers[::-1], -1)


@function
def convolve(a: Any, v: Any, mode: str = "full", *, precision: Any = None) -> Array:
    """The convolution of two vectors: full, same (as long as the longer) or valid (inner) part."""
    return _slid(a, v, mode, turns=True)


@function
def correlate(a: Any, v: Any, mode: str = "valid", *, precision: Any = None) -> Array:
    """The products of one vector with another, conjugated, at each shift."""
    return _slid(a, elementwise.conj(v), mode, turns=False)


def _slid(a: Any, v: Any, mode: str, *, turns: bool) -> Any:
    """Sum products over a window of the longer vector that moves on by one."""
    a, v = promoted([a, v])
    if a.ndim != 1 or v.ndim != 1 or 0 in (a.shape[0], v.shape[0]):
        raise ShapeError(
            f"shapes {a.shape} and {v.shape}; both must be vectors, and not empty",
            remedy="flatten them with .ravel()",
        )
    longer, shorter, swaps = (a, v, False) if a.shape[0] >= v.shape[0] else (v, a, True)
    rows, width = longer.shape[0], shorter.shape[0]
    outside = {"full": width - 1, "same": width // 2, "valid": 0}
    if mode not in outside:
        raise ShapeError(f"mode is {mode!r}", remedy="use full, same or valid")
    before = outside[mode]
    total = {"full": rows + width - 1, "same": rows, "valid": rows - width + 1}[mode]
    high = total + width - 1 - rows - before
    if high < 0:
        longer, high = longer[:high], 0
    padded = emit(ops.pad, longer, low=(before,), high=(high,))
    places = np.arange(total)[:, None] + np.arange(width)
    windows, taps = take(padded, places), flip(shorter) if turns else shorter
    if before or high:  # products with what is outside are none, also where a tap is infinite
        inside = (places >= before) & (places < before + longer.shape[0])
        found = sum(elementwise.where(inside, elementwise.multiply(windows, taps), 0), -1)
    else:
        found = matmul(windows, taps)
    return flip(found) if swaps and not turns else found


def _extended(p: Any, count: int) -> Any:
    return emit(ops.pad, p, low=(count - p.shape[0],), high=(0,))


@function
def poly(seq_of_zeros: Any) -> Array:
    """The polynomial with these zeros, and 1 at the highest power."""
    zeros = atleast_1d(as_tracer(seq_of_zeros))
    found = as_tracer(np.ones(1, zeros.dtype))
    for index in range(static_shape(zeros)[0]):
        factor = stack([as_tracer(np.ones((), zeros.dtype)), elementwise.negative(zeros[index])])
        found = polymul(found, factor)
    return found


@function
def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Any, Any]:
    """The quotient and the remainder of two polynomials."""
    if trim_leading_zeros:
        raise ShapeError(
            "trim_leading_zeros makes the shape of the result depend on values",
            remedy="leave trim_leading_zeros out",
        )
    u, v = (atleast_1d(each) for each in inexact(u, v))
    steps, width = u.shape[0] - v.shape[0] + 1, v.shape[0]
    quotient = []
    for index in range(steps):
        factor = elementwise.divide(u[index], v[0])
        quotient.append(factor)
        low, high = (index,), (u.shape[0] - index - width,)
        u = elementwise.subtract(
            u, emit(ops.pad, elementwise.multiply(factor, v), low=low, high=high)
        )
    return (stack(quotient) if quotient else zeros_like(u[:1])), u


@function
def polyfit(
    x: Any,
    y: Any,
    deg: int,
    rcond: Any = None,
    full: bool = False,
    w: Any = None,
    cov: bool = False,
) -> Array:
    """The polynomial of degree `deg` of the least sum of squares; columns of `y` are apart."""
    if full or cov:
        raise ShapeError("polyfit gives the coefficients only", remedy="leave full and cov out")
    x, y = inexact(x, y)
    powers, rows = vander(x, deg + 1), y
    if w is not None:
        powers = elementwise.multiply(powers, w[:, None])
        rows = elementwise.multiply(y, w[:, None] if y.ndim == 2 else w)
    if rcond is None:
        rcond = static_shape(x)[0] * float(finfo(powers.dtype).eps)
    scale = sqrt_of_squares(powers)
    scaled = elementwise.divide(powers, scale)
    found = lstsq(scaled, rows, rcond)[0]
    return elementwise.divide(found, scale[:, None] if found.ndim == 2 else scale)


def sqrt_of_squares(columns: Any) -> Any:
    """Return the length of each column."""
    return elementwise.sqrt(sum(elementwise.square(columns), 0))
