"""The error function of complex numbers, and its relatives: Dawson's and the scaled one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.ir import ops
from rlx.numpy.polynomials import polyval
from rlx.runtime.arrays import Array
from rlx.scipy.special.elementary import erfc
from rlx.tracing.apply import emit, function, inexact
from rlx.transforms.control import fori_loop
from rlx.transforms.custom_jvp import custom_jvp

_ROOT_PI = math.sqrt(math.pi)
_TERMS = 64
_WIDTH = math.sqrt(_TERMS / math.sqrt(2))


def _weideman() -> tuple[float, ...]:
    """Coefficients, the highest first (Weideman, 1994, Computation of the complex error function).

    They are those of Fourier of `exp(-t^2) (L^2 + t^2)` at t = L tan(theta / 2).
    """
    angles = np.arange(1 - 2 * _TERMS, 2 * _TERMS) * np.pi / (2 * _TERMS)
    t = _WIDTH * np.tan(angles / 2)
    values = np.concatenate([[0.0], np.exp(-t * t) * (_WIDTH**2 + t * t)])
    found = np.fft.fft(np.fft.fftshift(values)).real / (4 * _TERMS)
    return tuple(float(each) for each in found[1 : _TERMS + 1][::-1])


_COEFFICIENTS = _weideman()


def upper_half(x: Any, y: Any) -> Any:
    """`wofz(x + i y)` for y of 0 or more, of real parts."""
    below: Any = emit(ops.complex, _WIDTH + y, -x)  # L - i z
    above: Any = emit(ops.complex, _WIDTH - y, x)
    ratio = above / below
    total: Any = _COEFFICIENTS[0]
    for coefficient in _COEFFICIENTS[1:]:
        total = total * ratio + coefficient
    return (2 * total / below + 1 / _ROOT_PI) / below


@function
def wofz(z: Any, /) -> Array:
    """Faddeeva's function `exp(-z^2) erfc(-i z)`, to 1e-13 of its magnitude."""
    (z,) = inexact(z)
    x, y = rnp.real(z), rnp.imag(z)
    under = y < 0
    found = upper_half(rnp.where(under, -x, x), rnp.abs(y))
    shown = rnp.where(under, x, 0), rnp.where(under, y, 0)
    growth = rnp.exp(shown[1] ** 2 - shown[0] ** 2)
    angle = -2 * shown[0] * shown[1]
    mirrored = emit(ops.complex, 2 * growth * rnp.cos(angle), 2 * growth * rnp.sin(angle)) - found
    return rnp.where(under, mirrored, found)


# Dawson's integral

_STEP = 0.25
_REACH = 27


@function
def _dawsn(x: Any) -> Any:
    """Rybicki's sum of Gaussians, a series near zero and another far away."""
    (x,) = inexact(x)
    size = rnp.abs(x)
    near = rnp.minimum(size, 1)
    terms = [(-2.0) ** k / math.prod(range(1, 2 * k + 2, 2)) for k in range(24)]
    low = near * polyval(np.array(terms[::-1]).astype(x.dtype), near * near)
    middle = rnp.clip(size, 1, 40)
    origin = 2 * rnp.round(middle / (2 * _STEP))
    rest = middle - origin * _STEP
    total: Any = 0.0
    for n in range(-_REACH, _REACH + 1, 2):
        total = total + rnp.exp(-rnp.square(rest - n * _STEP)) / (origin + n)
    inverse = 1 / rnp.maximum(size, 40)
    square = inverse * inverse / 2
    far = (
        inverse
        / 2
        * (1 + square * (1 + 3 * square * (1 + 5 * square * (1 + 7 * square * (1 + 9 * square)))))
    )
    found = rnp.where(size < 1, low, rnp.where(size < 40, total / _ROOT_PI, far))
    return rnp.where(rnp.isnan(x), rnp.nan, rnp.where(x < 0, -found, found))


@custom_jvp
def dawsn(x: Any, /) -> Array:
    """`exp(-x^2)` times the integral of `exp(t^2)` from 0 to x."""
    return _dawsn(x)


@dawsn.defjvp
def _dawsn_jvp(primals: Any, tangents: Any) -> Any:
    (x,) = primals
    found = dawsn(x)
    return found, tangents[0] * (1 - 2 * x * found)


# The scaled complementary error function

_LEVELS = 60


@function
def scaled_erfc(x: Any) -> Any:
    (x,) = inexact(x)
    near = rnp.minimum(x, 2)
    low = rnp.exp(near * near) * erfc(near)
    high = rnp.maximum(x, 2)

    def level(i: Any, fraction: Any) -> Any:
        return high + 0.5 * (_LEVELS - rnp.astype(i, x.dtype)) / fraction

    fraction = fori_loop(0, _LEVELS, level, high)
    found = rnp.where(x < 2, low, 1 / (_ROOT_PI * fraction))
    return rnp.where(rnp.isnan(x), rnp.nan, found)


@custom_jvp
def erfcx(x: Any, /) -> Array:
    """`exp(x^2) erfc(x)`, without underflow."""
    return scaled_erfc(x)


@erfcx.defjvp
def _erfcx_jvp(primals: Any, tangents: Any) -> Any:
    (x,) = primals
    found = erfcx(x)
    return found, tangents[0] * (2 * x * found - 2 / _ROOT_PI)
