"""Incomplete gamma and beta functions of drawn parameters up to 1e12, with their derivatives.

Values, first derivatives by every argument and second ones by the parameters are compared with
integrals of forty digits; those of the beta function of two large parameters are NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.scipy import special
from rlx.scipy.special import shares
from tests.scipy import integrals_of_densities

Array = np.ndarray[Any, Any]


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


def test_slopes_of_the_beta_function_are_nan_where_its_fraction_is_too_long() -> None:
    run = rlx.jit(rlx.grad(special.betainc, argnums=(0, 1, 2)), backend="reference")
    by_a, by_b, by_x = run(1e12, 1e12, 0.5)
    assert np.isnan(by_a)
    assert np.isnan(by_b)
    np.testing.assert_allclose(by_x, 2 * np.sqrt(1e12 / np.pi), rtol=1e-12)


@pytest.mark.parametrize(("a", "slope"), [(0.5, np.inf), (1.0, 1.0), (2.0, 0.0)])
def test_slopes_by_the_argument_at_the_ends_are_one_sided(a: float, slope: float) -> None:
    gamma = rlx.jit(rlx.grad(special.gammainc, argnums=1), backend="reference")
    assert gamma(a, 0.0) == slope
    beta = rlx.jit(rlx.grad(special.betainc, argnums=2), backend="reference")
    assert beta(a, 3.0, 0.0) == 3 * slope
    assert beta(3.0, a, 1.0) == 3 * slope
