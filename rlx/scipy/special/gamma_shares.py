"""The regularized incomplete gamma functions in f64, each by the side on which it is accurate.

Shares are `exp(e) m` with the exponent `e = a log(x / a) - x + a`, which is a pair of doubles.
Sources: Temme, The asymptotic expansion of the incomplete gamma functions (1979); Gil, Segura and
Temme, Efficient and accurate algorithms for the incomplete gamma function ratios (2012).
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import rlx.numpy as rnp
from rlx.scipy.special import pairs
from rlx.scipy.special.faddeeva import scaled_erfc
from rlx.scipy.special.scaled import Scaled, Shares, shares_of
from rlx.scipy.special.small_orders import gamma_power
from rlx.scipy.special.stirling import STIRLING, polynomial, root_of_gamma
from rlx.transforms.control import fori_loop

LARGE = 100.0
"""Orders from which the function near its middle is an expansion in `1 / a`."""
_NEAR = 0.3
"""The middle: numbers that differ from the order by less than this share of it."""
_SERIES, _FRACTION = 130, 105
"""Terms that are enough for f64, of the lower and the upper function."""
_POWERS, _COEFFICIENTS = 8, 20
"""Terms of the expansion in `1 / a`, and of the first in eta; each next has two less."""


def gamma_shares(a: Any, x: Any) -> Shares:
    """Return the shares below and above `x` of positive, finite `a` and `x`, f64."""
    a, x = pairs.bounded(a), pairs.bounded(x)
    exponent = gamma_exponent(a, x)
    root = root_of_gamma(a)
    right, middle = sides(a, x)
    above, below = rnp.where(right, x, bound(a)), rnp.where(right, 0.0, x)
    factor = rnp.where(right, upper(a, above) * a, lower(a, below)) / root
    large, past = near_order(a, x, middle)
    side = rnp.where(right, 1.0, -1.0)
    factor = rnp.where(middle, around(large, past * root_of_past(past), side), factor)
    share = Scaled(exponent, factor)
    is_small = rnp.logical_not(right) & rnp.less(a, 1.1)
    power = gamma_power(rnp.where(is_small, a, 1.0))
    rest = power.rest(rnp.where(is_small, x, 1.0))
    rest = rnp.where(is_small, rest, 1 - rnp.minimum(share.value(), 1.0))
    return shares_of(share, rest=rest).swapped(right)


def gamma_exponent(a: Any, x: Any) -> pairs.Pair:
    """Return `a log(x / a) - x + a`."""
    inverse = pairs.quotient(pairs.Pair(1.0, 0.0), a)
    return pairs.log_of_product(pairs.Pair(x, 0.0), inverse) * a + pairs.two_sum(a, -x)


def gamma_density(a: Any, x: Any) -> Scaled:
    """Return the slope of the lower share by `x`."""
    a, x = pairs.bounded(a), pairs.bounded(x)
    return Scaled(gamma_exponent(a, x), a / x / root_of_gamma(a))


def bound(a: Any) -> Any:
    """Return the number above which the upper share is computed."""
    return rnp.maximum(a, 1.1)


def sides(a: Any, x: Any) -> tuple[Any, Any]:
    """Return where the upper share is computed, and where shares are expansions in `1 / a`."""
    middle = rnp.greater(a, LARGE) & rnp.less(rnp.abs(x - a), _NEAR * a)
    return rnp.greater(x, bound(a)), middle


def lower(a: Any, x: Any) -> Any:
    """Return `sum x**n / ((a + 1) ... (a + n))`, from its end, so that errors do not add up."""

    def term(i: Any, total: Any) -> Any:
        return 1 + x / (a + (_SERIES - rnp.astype(i, x.dtype))) * total

    return fori_loop(0, _SERIES, term, rnp.ones_like(a + x))


def upper(a: Any, x: Any, is_needed: Any = True) -> Any:
    """Return the continued fraction of the upper function, from its end (DLMF 8.9.2)."""

    def level(i: Any, fraction: Any) -> Any:
        n = _FRACTION - rnp.astype(i, x.dtype)
        return (x - a) + (2 * n - 1) + n * (a - n) / fraction

    return 1 / fori_loop(0, _FRACTION * is_needed, level, (x - a) + (2 * _FRACTION + 1))


def near_order(a: Any, x: Any, middle: Any) -> tuple[Any, Any]:
    """Return the order and `x / a - 1` where the expansion holds, and numbers for it elsewhere."""
    return rnp.where(middle, a, LARGE), rnp.where(middle, (x - a) / a, 0.0)


def root_of_past(past: Any) -> Any:
    """Return `eta / past` of DLMF 8.12.1: `eta**2 / 2` is `past - log(1 + past)`.

    By the series of `atanh` of `past / (2 + past)`, of which no number up to 0.3 is off.
    """
    s = past / (2 + past)
    odd = polynomial(_ATANH, s * s)
    return rnp.sqrt(2 * (1 - 2 * s * odd / (2 + past)) / (2 + past))


_ATANH = tuple(1 / (2 * k + 3) for k in range(11))


def around(a: Any, eta: Any, side: Any) -> Any:
    """Return the smaller share over `exp(-a eta**2 / 2)` (DLMF 8.12.3, 8.12.4)."""
    inverse = 1 / a
    tail = 0.5 * scaled_erfc(side * eta * rnp.sqrt(0.5 * a))
    return tail + side * corrections(inverse, eta) * rnp.sqrt(inverse / (2 * math.pi))


def corrections(inverse: Any, eta: Any) -> Any:
    """Return the sum of DLMF 8.12.7, of `1 / a` and eta."""
    total: Any = 0.0
    for row in reversed(_expansion()):
        total = total * inverse + polynomial(row, eta)
    return total


@functools.cache
def _expansion() -> tuple[tuple[float, ...], ...]:
    """Return the coefficients of eta**n / a**k, DLMF 8.12.12 and 8.12.13."""
    count = _COEFFICIENTS + 2 * _POWERS + 3
    alpha = [Fraction(0), Fraction(1)]
    for n in range(2, count + 1):
        known = sum(j * alpha[j] * alpha[n - j + 1] for j in range(2, n))
        alpha.append((alpha[n - 1] - known) / (n + 1))
    first = [Fraction(-1, 3), *((n + 2) * alpha[n + 2] for n in range(1, count - 1))]
    stirling = _stirling_of_gamma(_POWERS)
    rows = [first]
    for k in range(1, _POWERS):
        before = rows[-1]
        rows.append(
            [
                (-1) ** k * stirling[k] * first[n] + (n + 2) * before[n + 2]
                for n in range(len(before) - 2)
            ]
        )
    return tuple(
        tuple(float(each) for each in row[: _COEFFICIENTS - 2 * k]) for k, row in enumerate(rows)
    )


def _stirling_of_gamma(count: int) -> list[Fraction]:
    """Return the coefficients of 1, 1 / a, .. of `gamma(a) exp(a) / a**a sqrt(a / 2 pi)`."""
    logarithm = [Fraction(0)] * (count + 1)
    for k, number in enumerate(STIRLING[: (count + 1) // 2]):
        logarithm[2 * k + 1] = Fraction(number).limit_denominator(10**6)
    found = [Fraction(1)]
    for n in range(1, count + 1):
        terms = (k * logarithm[k] * found[n - k] for k in range(1, n + 1))
        found.append(sum(terms, Fraction(0)) / n)
    return found
