"""Incomplete gamma and beta functions and their derivatives as integrals, by mpmath.

Derivatives by the parameters are integrals of the density times slopes of its logarithm. All are
over the side that holds less, whose integrand decays from where it begins.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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


class _Side(NamedTuple):
    """A density, of a number that runs from `begin`, the ends of its intervals, and the side."""

    density: Callable[[Any], Any]
    begin: Any
    ends: list[Any]
    is_low: bool

    def integrals(self, *factors: Callable[[Any], Any]) -> list[Any]:
        """Return what the lower function and its slopes are but for a constant."""
        return [-each for each in _integrals(self.density, factors, self.ends)]

    def shares(self) -> tuple[Any, Any]:
        """Return the lower and the upper function."""
        (share,) = self.integrals(lambda _: 1)
        return (share, 1 - share) if self.is_low else (1 + share, -share)


def _side(density: Callable[[Any], Any], begin: Any, rate: Any, *, is_low: bool) -> _Side:
    step = (-1 if is_low else 1) / rate
    return _Side(density, begin, [begin + step * each for each in _STEPS], is_low)


def _gamma_side(order: Any, point: Any) -> _Side:
    log_gamma = mpmath.loggamma(order)

    def density(v: Any) -> Any:
        return mpmath.exp(order * v - mpmath.exp(v) - log_gamma)

    rate = max(abs(order - point), mpmath.sqrt(order))
    return _side(density, mpmath.log(point), rate, is_low=point < order)


def gamma_shares(order: Any, point: Any) -> tuple[Any, Any]:
    """Return the lower and the upper function."""
    return _gamma_side(order, point).shares()


def gamma(a: float, x: float) -> list[Any]:
    """Return the lower function of `a` from 1 up, its slopes by `a` and `x`, and by `a` twice."""
    with mpmath.workdps(DIGITS):
        order, point = mpmath.mpf(a), mpmath.mpf(x)
        mean, bend = mpmath.digamma(order), mpmath.polygamma(1, order)
        side = _gamma_side(order, point)
        share, by_a, by_aa = side.integrals(
            lambda _: 1, lambda v: v - mean, lambda v: (v - mean) ** 2 - bend
        )
        lower = share if side.is_low else 1 + share
        return [lower, by_a, side.density(side.begin) / point, by_aa]


def _log_share(u: Any) -> Any:
    return -mpmath.log1p(mpmath.exp(-u)) if u > 0 else u - mpmath.log1p(mpmath.exp(u))


def _beta_side(c: Any, d: Any, point: Any) -> _Side:
    rest = 1 - point
    log_beta = mpmath.loggamma(c) + mpmath.loggamma(d) - mpmath.loggamma(c + d)

    def density(u: Any) -> Any:
        return mpmath.exp(c * _log_share(u) + d * _log_share(-u) - log_beta)

    rate = max(abs(c * rest - d * point), 1 / mpmath.sqrt(1 / c + 1 / d))
    return _side(density, mpmath.log(point / rest), rate, is_low=point < c / (c + d))


def beta_shares(c: Any, d: Any, point: Any) -> tuple[Any, Any]:
    """Return the lower and the upper function."""
    return _beta_side(c, d, point).shares()


def beta(a: float, b: float, x: float) -> list[Any]:
    """Return the lower function, its slopes by `a`, `b` and `x`, and by `aa`, `ab` and `bb`."""
    with mpmath.workdps(DIGITS):
        c, d, point = mpmath.mpf(a), mpmath.mpf(b), mpmath.mpf(x)
        mean = [mpmath.digamma(c + d) - mpmath.digamma(each) for each in (c, d)]
        both, *bend = (mpmath.polygamma(1, each) for each in (c + d, c, d))

        def of_a(u: Any) -> Any:
            return _log_share(u) + mean[0]

        def of_b(u: Any) -> Any:
            return _log_share(-u) + mean[1]

        side = _beta_side(c, d, point)
        share, *slopes = side.integrals(
            lambda _: 1, of_a, of_b, lambda u: of_a(u) ** 2 + both - bend[0],
            lambda u: of_a(u) * of_b(u) + both, lambda u: of_b(u) ** 2 + both - bend[1],
        )  # fmt: skip
        by_x = side.density(side.begin) / point / (1 - point)
        return [share if side.is_low else 1 + share, *slopes[:2], by_x, *slopes[2:]]
