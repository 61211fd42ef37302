"""Special functions of drawn parameters up to 1e12: values and slopes by every argument.

All are compared with differences of 90 digits; no finite number may be off by more than rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

import rlx
import rlx.numpy as rnp
from rlx.scipy import special
from rlx.scipy.special import betainc, gammainc, shares
from tests.scipy import integrals_of_densities

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


@pytest.mark.slow
@pytest.mark.whole
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


def between(draw: np.random.Generator, low: float, high: float, count: int) -> Array:
    """Draw numbers whose logarithms are uniform."""
    return np.exp(draw.uniform(np.log(low), np.log(high), count))


def gamma_points(count: int, most: float) -> tuple[Array, ...]:
    draw = np.random.default_rng(0)
    a = between(draw, 1, most, count)
    near = np.maximum(a + np.sqrt(a) * draw.uniform(-6, 8, count), a * 1e-3)
    return a, np.where(draw.random(count) < 0.5, near, a * between(draw, 0.4, 2.5, count))


def beta_points(count: int, most: float) -> tuple[Array, ...]:
    draw = np.random.default_rng(1)
    a, b = between(draw, 0.4, most, count), between(draw, 0.4, 1e5, count)
    is_first = draw.random(count) < 0.5
    a, b = np.where(is_first, a, b), np.where(is_first, b, a)
    width = np.sqrt(a * b / (a + b + 1)) / (a + b)
    return a, b, np.clip(a / (a + b) + width * draw.uniform(-6, 6, count), 1e-12, 1 - 1e-12)


def exact_of(exact: Callable[..., list[Any]], points: tuple[Array, ...]) -> Array:
    return np.array([[*map(float, exact(*x))] for x in zip(*points, strict=True)]).T


def derivatives(function: Callable[..., Any], points: tuple[Array, ...]) -> list[Array]:
    """Return values, slopes by every argument, and those by the parameters by parameters."""
    one = [np.ones_like(x) for x in points]

    def slope(place: int, of: Callable[..., Any]) -> Callable[..., Any]:
        def along(*x: Any) -> Any:
            def moved(each: Any) -> Any:
                return of(*x[:place], each, *x[place + 1 :])

            return rlx.jvp(moved, (x[place],), (rnp.asarray(one[place]),))[1]

        return along

    firsts = [slope(place, function) for place in range(len(points))]
    shapes = range(len(points) - 1)
    seconds = [slope(i, firsts[j]) for j in shapes for i in shapes if i >= j]

    def all_of(*x: Any) -> list[Any]:
        return [f(*x) for f in (function, *firsts, *seconds)]

    return [np.asarray(x) for x in rlx.jit(all_of, backend="reference")(*points)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_derivatives_of_the_gamma_functions_up_to_orders_of_1e12(name: str) -> None:
    points = gamma_points(60, 1e12)
    exact = exact_of(integrals_of_densities.gamma, points)
    found = np.array(derivatives(getattr(special, name), points))
    if name == "gammaincc":
        found, exact = found[1:], -exact[1:]
    np.testing.assert_allclose(found, exact, rtol=2e-12, atol=1e-290)


@pytest.mark.slow
def test_derivatives_of_the_beta_function_up_to_parameters_of_1e12() -> None:
    def found(*x: Any) -> list[Any]:
        (by_aa, by_ab, _), (_, by_bb, _), _ = shares.second_beta_slopes(*x)
        return [shares.beta(*x).lower, *shares.beta_slopes(*x), by_aa, by_ab, by_bb]

    points = beta_points(24, 1e12)
    exact = exact_of(integrals_of_densities.beta, points)
    run = rlx.jit(found, backend="reference")
    np.testing.assert_allclose(np.array(run(*points)), exact, rtol=2e-13, atol=1e-290)


@pytest.mark.slow
def test_slopes_of_the_beta_function_are_nan_where_its_fraction_is_too_long() -> None:
    run = rlx.jit(rlx.grad(special.betainc, argnums=(0, 1, 2)), backend="reference")
    by_a, by_b, by_x = run(1e12, 1e12, 0.5)
    assert np.isnan(by_a)
    assert np.isnan(by_b)
    np.testing.assert_allclose(by_x, 2 * np.sqrt(1e12 / np.pi), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize(("a", "slope"), [(0.5, np.inf), (1.0, 1.0), (2.0, 0.0)])
def test_slopes_by_the_argument_at_the_ends_are_one_sided(a: float, slope: float) -> None:
    gamma = rlx.jit(rlx.grad(special.gammainc, argnums=1), backend="reference")
    assert gamma(a, 0.0) == slope
    beta = rlx.jit(rlx.grad(special.betainc, argnums=2), backend="reference")
    assert beta(a, 3.0, 0.0) == 3 * slope
    assert beta(3.0, a, 1.0) == 3 * slope


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_incomplete_gamma_functions_of_large_orders(name: str) -> None:
    orders = np.array([1e6, 1e8, 1e8, 1e9, 1e12])
    numbers = np.array([1e6, 1e8, 1.0002e8, 1.00001e9, 1e12])
    expected = getattr(scipy.special, name)(orders, numbers)
    np.testing.assert_allclose(getattr(special, name)(orders, numbers), expected, rtol=1e-13)


def test_incomplete_gamma_functions_far_from_large_orders_are_at_their_ends() -> None:
    numbers = np.array([1e7, 1e9])
    np.testing.assert_array_equal(special.gammainc(1e8, numbers), [0, 1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parameters", "expected"),
    [((1e6, 1e6, 0.5), 0.5), ((1e8, 1e8, 0.5), 0.5), ((1e5, 1e2, 0.999), 0.48273508558170547)],
)
def test_the_incomplete_beta_function_of_large_parameters(parameters: Any, expected: float) -> None:
    found = special.betainc(*map(np.float64, parameters))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_shares_of_parameters_past_the_longest_fraction_are_ends_or_nan() -> None:
    found = special.betainc(np.float64(1e12), np.float64(1e12), np.array([0.3, 0.5, 0.7]))
    np.testing.assert_array_equal(found, [0, np.nan, 1])


@pytest.mark.slow
def test_small_shares_have_small_relative_errors() -> None:
    with mpmath.workdps(40):
        lower = mpmath.gammainc(500, 0, 350, regularized=True)
        upper = mpmath.gammainc(500, 700, mpmath.inf, regularized=True)
        beta = mpmath.betainc(200, 300, 0, mpmath.mpf(0.25), regularized=True)
    found = special.gammainc(500.0, 350.0), special.gammaincc(500.0, 700.0)
    np.testing.assert_allclose([*found, special.betainc(200.0, 300.0, 0.25)],
                               [float(lower), float(upper), float(beta)], rtol=2e-15)  # fmt: skip


GAMMA = np.array([
    (0.7, 0.4, 0.4739137373713449), (2, 9, -0.00359916414750417),
    (30, 25.5, 0.008863813643347858), (800, 810, -0.0001636971396190705),
    (3000, 2950, 8.100642033815555e-5), (3000, 3100, -4.600891492373887e-5),
    (20000, 20100, -1.093927779606854e-5),
]).T  # fmt: skip
"""Order, argument, and the second derivative by the order."""

BETA = np.array([
    (0.7, 0.4, 0.3, 0.8123297981943771, -0.4873217141715748),
    (2, 9, 0.2, 0.005130136914278342, 0.01551838838041933),
    (900, 1200, 0.43, -2.837440247024547e-5, 2.550120127378029e-5),
    (4000, 2500, 0.62, -2.127051638467432e-5, 3.495529162062408e-5),
]).T  # fmt: skip
"""Orders, argument, the second derivative by the first order, and the mixed one."""


@pytest.mark.slow
def test_those_of_the_gamma_function_hold_at_large_orders() -> None:
    found = rlx.jit(rlx.vmap(rlx.grad(rlx.grad(gammainc))))(*GAMMA[:2])
    np.testing.assert_allclose(found, GAMMA[2], rtol=2e-11)


@pytest.mark.slow
def test_those_of_the_beta_function_hold_at_large_orders() -> None:
    run = rlx.jit(rlx.vmap(rlx.grad(rlx.grad(betainc), argnums=(0, 1))))
    for found, expected in zip(run(*BETA[:3]), BETA[3:], strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-11)
