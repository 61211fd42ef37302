"""Functions by recurrences: Kummer's function, Bessel functions, spherical harmonics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.ir import ops
from rlx.runtime.arrays import Array
from rlx.tracing.apply import emit, function, inexact
from rlx.tracing.trace import TracedArray
from rlx.transforms.control import fori_loop

_MOST_TERMS = 600


@function
def hyp1f1(a: Any, b: Any, x: Any, /) -> Any:
    """Kummer's confluent function, by its series at |x|, for |x| up to 200 (80 in f32).

    Digits cancel where `a` (for negative x, `b - a`) is far below zero.
    """
    a, b, x = inexact(a, b, x)
    under = x < 0
    size = rnp.abs(x)
    first = rnp.where(under, b - a, a)
    one = rnp.ones_like(first + b + size)

    def step(k: Any, state: Any) -> Any:
        total, term = state
        k = rnp.astype(k, one.dtype)
        term = term * (first + k) / (b + k) * size / (k + 1)
        return total + term, term

    total, _ = fori_loop(0, _MOST_TERMS, step, (one, one))
    return rnp.where(under, rnp.exp(rnp.minimum(x, 0)) * total, total)


@function
def bessel_jn(z: Any, *, v: int, n_iter: int = 50) -> Array:
    """The Bessel functions of orders 0 to `v` along a new first axis (Miller).

    The recurrence runs down from order `n_iter`, which is to be above |z| and `v` by 15 or more.
    It is that of `p_k = J_k k! (2 / z)^k`, which neither grows nor vanishes near zero.
    """
    (z,) = inexact(z)
    half = z / 2
    square = half * half
    last = max(n_iter, v + 1)
    factors: list[Any] = [rnp.ones_like(z)]
    for k in range(1, last + 1):
        factors.append(factors[-1] * half / k)
    values = [rnp.ones_like(z)] * (last + 2)
    for k in range(last, 0, -1):
        values[k - 1] = values[k] - square / (k * (k + 1)) * values[k + 1]
    found = [p * factor for p, factor in zip(values, factors, strict=False)]
    total = found[0]
    for even in found[2::2]:
        total = total + 2 * even
    return rnp.stack(found[: v + 1]) / total


def sph_harm_y(
    n: Any, m: Any, theta: Any, phi: Any, diff_n: int | None = None, n_max: int | None = None
) -> Array:
    """Spherical harmonics of degree `n` and order `m`, of polar `theta` and azimuth `phi`.

    `n_max` is the largest degree; it is needed where `n` is traced.
    """
    if diff_n:
        raise InputError(
            f"diff_n is {diff_n}; it must be 0",
            remedy="leave diff_n out, and differentiate by rlx.grad",
        )
    if n_max is None and isinstance(n, TracedArray):
        raise InputError(
            "n is traced and n_max is not given", remedy="pass the largest degree as n_max="
        )
    most = int(np.max(np.asarray(n), initial=0)) if n_max is None else n_max
    return _sph_harm(n, m, theta, phi, most)


@function
def _sph_harm(n: Any, m: Any, theta: Any, phi: Any, most: int) -> Any:
    theta, phi = inexact(theta, phi)
    order = rnp.abs(m)
    degree, size = rnp.astype(n, theta.dtype), rnp.astype(order, theta.dtype)
    now = _legendre(degree, size, rnp.cos(theta), rnp.sin(theta), most)
    odd = rnp.logical_and(rnp.less(m, 0), rnp.equal(rnp.remainder(order, 2), 1))
    now = rnp.where(odd, -now, now)
    angle = rnp.astype(m, theta.dtype) * phi
    return emit(ops.complex, now * rnp.cos(angle), now * rnp.sin(angle))


def _legendre(n: Any, m: Any, c: Any, s: Any, most: int) -> Any:
    """Normalized associated Legendre functions: up the diagonal, then up the degrees."""
    now: Any = math.sqrt(0.25 / math.pi) * rnp.ones_like(c + n + m)
    for k in range(1, most + 1):
        now = rnp.where(m >= k, -math.sqrt((2 * k + 1) / (2 * k)) * s * now, now)
    before = rnp.zeros_like(now)
    for degree in range(1, most + 1):
        active = rnp.logical_and(m < degree, n >= degree)
        m2 = rnp.square(rnp.where(active, m, 0))
        gain = rnp.sqrt((4 * degree**2 - 1) / (degree**2 - m2))
        below = (degree - 1) ** 2
        carried = rnp.sqrt(rnp.maximum(below - m2, 0) / abs(4 * below - 1)) * before
        before, now = (
            rnp.where(active, now, before),
            rnp.where(active, gain * (c * now - carried), now),
        )
    return rnp.where(m > n, 0, now)
