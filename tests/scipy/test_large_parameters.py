"""Special functions of drawn parameters up to 1e12: values and slopes by every argument.

All are compared with differences of 90 digits; no finite number may be off by more than rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.scipy import special

Array = np.ndarray[Any, Any]
COUNT, MOST = 24, 1e12


def log_gamma(x: Any) -> Any:
    return mpmath.loggamma(x)


def log_beta(a: Any, b: Any) -> Any:
    return log_gamma(a) + log_gamma(b) - log_gamma(a + b)


def ways(n: Any, k: Any) -> Any:
    return mpmath.exp(log_gamma(n + 1) - log_gamma(k + 1) - log_gamma(n - k + 1))


def volume(a: Any) -> Any:
    halves = (log_gamma(a - mpmath.mpf(i) / 2) for i in range(3))
    return mpmath.log(mpmath.pi) * 3 / 2 + sum(halves)


ANY, SMALL = (1e-6, MOST), (1e-3, 20.0)
"""Intervals in which logarithms of numbers are uniform."""
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[tuple[float, float]]]] = {
    "gammaln": (special.gammaln, log_gamma, [ANY]),
    "digamma": (special.digamma, mpmath.digamma, [ANY]),
    "betaln": (special.betaln, log_beta, [ANY, ANY]),
    "beta": (special.beta, lambda a, b: mpmath.exp(log_beta(a, b)), [ANY, SMALL]),
    "poch": (special.poch, lambda z, m: mpmath.rf(z, m), [ANY, SMALL]),
    "poch down": (
        lambda z, m: special.poch(z, -m), lambda z, m: mpmath.rf(z, -m), [(30, MOST), SMALL]
    ),
    "comb": (special.comb, ways, [(30.0, MOST), SMALL]),
    "multigammaln": (lambda a: special.multigammaln(a, 3), volume, [(2, MOST)]),
    "trigamma": (lambda x: special.polygamma(1, x), lambda x: mpmath.polygamma(1, x), [ANY]),
    "polygamma": (lambda x: special.polygamma(4, x), lambda x: mpmath.polygamma(4, x), [ANY]),
    "zeta": (special.zeta, mpmath.zeta, [(1.01, 60), (1e-3, MOST)]),
    "boxcox": (
        special.boxcox, lambda x, p: mpmath.expm1(p * mpmath.log(x)) / p, [(1e-20, MOST), SMALL]
    ),
    "boxcox1p": (
        special.boxcox1p, lambda x, p: mpmath.expm1(p * mpmath.log1p(x)) / p, [ANY, SMALL]
    ),
    "xlogy": (special.xlogy, lambda x, y: x * mpmath.log(y), [ANY, ANY]),
    "xlog1py": (special.xlog1py, lambda x, y: x * mpmath.log1p(y), [ANY, ANY]),
    "rel_entr": (special.rel_entr, lambda x, y: x * mpmath.log(x / y), [ANY, ANY]),
}  # fmt: skip

WIDER = {"zeta": 1e-9}
"""Whose slope near the pole is a difference."""


def slope(exact: Callable[..., Any], place: int, numbers: list[Any]) -> Any:
    step = abs(numbers[place]) * mpmath.mpf(10) ** -30
    ends = [
        exact(*numbers[:place], numbers[place] + side * step, *numbers[place + 1 :])
        for side in (1, -1)
    ]
    return (ends[0] - ends[1]) / (2 * step)


def with_slopes(function: Callable[..., Any], arrays: tuple[Any, ...]) -> list[Any]:
    found = [function(*arrays)]
    for place in range(len(arrays)):
        directions = (
            rnp.ones_like(x) if i == place else rnp.zeros_like(x) for i, x in enumerate(arrays)
        )
        found.append(rlx.jvp(function, arrays, tuple(directions))[1])
    return found


@pytest.mark.parametrize("name", CASES)
def test_no_finite_value_or_slope_is_wrong(name: str) -> None:
    function, exact, intervals = CASES[name]
    draw = np.random.default_rng(len(name))
    logs = [draw.uniform(np.log(low), np.log(high), COUNT) for low, high in intervals]
    numbers = [np.exp(each) for each in logs]
    run = rlx.jit(lambda *x: with_slopes(function, x), backend="reference")
    value, *slopes = (np.asarray(x) for x in run(*numbers))
    assert np.isfinite(value).mean() > 0.9
    for index, row in enumerate(zip(*numbers, strict=True)):
        with mpmath.workdps(90):
            wide = [mpmath.mpf(float(x)) for x in row]
            expected = [exact(*wide), *(slope(exact, i, wide) for i in range(len(wide)))]
        for found, right in zip((value, *slopes), expected, strict=True):
            if np.isfinite(found[index]) and 1e-290 < abs(right) < 1e300:
                error = abs(float(mpmath.mpf(float(found[index])) / right - 1))
                assert error < WIDER.get(name, 2e-13), (row, float(found[index]), float(right))
