"""Incomplete gamma and beta functions and their derivatives as integrals, by mpmath.

Derivatives by the parameters are integrals of the density times slopes of its logarithm. All are
over the side that holds less, whose integrand decays from where it begins.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import mpmath
from mpmath.calculus.quadrature import GaussLegendre

DIGITS = 40
_STEPS = (0, 0.5, 1, 2, 3, 5, 8, 12, 18, 27, 40, 60, 80)
"""Ends of the intervals, in lengths over which the integrand decays."""


@functools.cache
def _nodes(precision: int) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = GaussLegendre(mpmath.mp).calc_nodes(4, precision)
    return found


def _integrals(
    density: Callable[[Any], Any], factors: Sequence[Callable[[Any], Any]], ends: Sequence[Any]
) -> list[Any]:
    """Return the integrals of the density times each of the factors."""
    total = [mpmath.mpf(0)] * len(factors)
    for low, high in itertools.pairwise(ends):
        half, middle = (high - low) / 2, (high + low) / 2
        for node, weight in _nodes(mpmath.mp.prec):
            u = middle + half * node
            mass = density(u) * weight * half
            total = [sum_ + mass * factor(u) for sum_, factor in zip(total, factors, strict=True)]
    return total


def gamma(a: float, x: float) -> list[Any]:
    """Return the lower function of `a` from 1 up, its slopes by `a` and `x`, and by `a` twice."""
    with mpmath.workdps(DIGITS):
        order, point = mpmath.mpf(a), mpmath.mpf(x)
        log_gamma, mean = mpmath.loggamma(order), mpmath.digamma(order)
        bend, begin = mpmath.polygamma(1, order), mpmath.log(point)
        is_low = point < order
        step = 1 / max(abs(order - point), mpmath.sqrt(order)) * (-1 if is_low else 1)

        def density(v: Any) -> Any:
            return mpmath.exp(order * v - mpmath.exp(v) - log_gamma)

        factors = (lambda _: 1, lambda v: v - mean, lambda v: (v - mean) ** 2 - bend)
        ends = [begin + step * each for each in _STEPS]
        share, by_a, by_aa = (-each for each in _integrals(density, factors, ends))
        return [share if is_low else 1 + share, by_a, density(begin) / point, by_aa]


def beta(a: float, b: float, x: float) -> list[Any]:
    """Return the lower function, its slopes by `a`, `b` and `x`, and by `aa`, `ab` and `bb`."""
    with mpmath.workdps(DIGITS):
        c, d, point = mpmath.mpf(a), mpmath.mpf(b), mpmath.mpf(x)
        rest, total = 1 - point, c + d
        log_beta = mpmath.loggamma(c) + mpmath.loggamma(d) - mpmath.loggamma(total)
        mean = [mpmath.digamma(total) - mpmath.digamma(each) for each in (c, d)]
        both, *bend = (mpmath.polygamma(1, each) for each in (total, c, d))
        is_low, begin = point < c / total, mpmath.log(point / rest)
        step = 1 / max(abs(c * rest - d * point), 1 / mpmath.sqrt(1 / c + 1 / d))
        step *= -1 if is_low else 1

        def log_share(u: Any) -> Any:
            return -mpmath.log1p(mpmath.exp(-u)) if u > 0 else u - mpmath.log1p(mpmath.exp(u))

        def density(u: Any) -> Any:
            return mpmath.exp(c * log_share(u) + d * log_share(-u) - log_beta)

        def of_a(u: Any) -> Any:
            return log_share(u) + mean[0]

        def of_b(u: Any) -> Any:
            return log_share(-u) + mean[1]

        factors = (
            lambda _: 1, of_a, of_b, lambda u: of_a(u) ** 2 + both - bend[0],
            lambda u: of_a(u) * of_b(u) + both, lambda u: of_b(u) ** 2 + both - bend[1],
        )  # fmt: skip
        ends = [begin + step * each for each in _STEPS]
        share, *slopes = (-each for each in _integrals(density, factors, ends))
        by_x = density(begin) / point / rest
        return [share if is_low else 1 + share, *slopes[:2], by_x, *slopes[2:]]
