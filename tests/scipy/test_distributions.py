"""Six functions of distributions and their derivatives next to fifty digits, others to SciPy's.

The environment's RLX_DISTRIBUTIONS is how many arguments are drawn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.stats

import rlx
from rlx.scipy import stats
from tests.scipy import exact_distributions as exact

COUNT = int(os.environ.get("RLX_DISTRIBUTIONS", "12"))
SEARCHED = ("t", "gamma", "beta", "poisson", "binom", "nbinom", "truncnorm")
"""Whose quantiles have no formula; their tests are slow."""


COMPARED = ("norm", "truncnorm", "expon", "laplace", "logistic")


def marked(names: Iterable[str]) -> list[Any]:
    return [
        pytest.param(name, marks=[pytest.mark.slow] if name in SEARCHED else []) for name in names
    ]


@pytest.mark.parametrize("dtype", exact.DTYPES)
@pytest.mark.parametrize("name", marked(COMPARED))
def test_functions_are_within_eight_ulp(name: str, dtype: str) -> None:
    found = exact.worst(name, dtype, COUNT, backend="reference")
    assert max(error for error, _ in found.values()) < 8, found


POINTS: dict[str, tuple[float, ...]] = {
    "norm": (-1.3,), "truncnorm": (0.4, -1.0, 2.0), "t": (-0.7, 4.0), "gamma": (2.0, 2.5),
    "beta": (0.3, 2.0, 3.0), "expon": (0.7,), "laplace": (-0.4,), "logistic": (1.2,),
    "poisson": (3.0, 2.5), "binom": (3.0, 8.0, 0.3),
}  # fmt: skip


def of_share(name: str, function: str) -> Callable[..., Any]:
    """Return the exact function, of mpmath's numbers."""

    def at(*numbers: Any) -> Any:
        shares = exact.FAMILIES[name].shares(*numbers)
        share, rest = shares if "cdf" in function else shares[::-1]
        return exact.logarithm(share, rest) if "log" in function else share

    return at


def slope(function: Callable[..., Any], numbers: list[Any], place: int) -> Any:
    return mpmath.diff(function, numbers, tuple(int(i == place) for i in range(len(numbers))))


@pytest.mark.parametrize("name", marked(POINTS))
def test_derivatives_are_those_of_fifty_digits(name: str) -> None:
    family, point = exact.FAMILIES[name], POINTS[name]
    first = 0 if family.density else len(point) - 1  # counts have no slopes
    places = tuple(range(first, len(point)))
    functions = exact.FUNCTIONS if family.density else exact.FUNCTIONS[:4]
    q = 0.3

    def slopes(*numbers: Any) -> list[Any]:
        return [
            rlx.grad(getattr(getattr(stats, name), f), argnums=places)(
                *((q, *numbers[1:]) if f in ("ppf", "isf") else numbers)
            )
            for f in functions
        ]

    found = rlx.jit(slopes, backend="reference")(*point)
    with mpmath.workdps(exact.DIGITS):
        for function, values in zip(functions, found, strict=True):
            if function in ("ppf", "isf"):
                x = float(
                    getattr(scipy.stats, name).ppf(q if function == "ppf" else 1 - q, *point[1:])
                )
                numbers = [mpmath.mpf(each) for each in (x, *point[1:])]
                share = of_share(name, "cdf" if function == "ppf" else "sf")
                by = [slope(share, numbers, place) for place in places]
                expected = [1 / by[0], *(-each / by[0] for each in by[1:])]
            else:
                numbers = [mpmath.mpf(each) for each in point]
                expected = [slope(of_share(name, function), numbers, place) for place in places]
            right = [float(each) for each in expected]
            np.testing.assert_allclose([*map(float, values)], right, rtol=1e-11, err_msg=function)


@pytest.mark.parametrize("name", marked(POINTS))
def test_a_missing_observation_has_no_probability(name: str) -> None:
    family = getattr(stats, name)

    def all_of(*numbers: Any) -> list[Any]:
        return [getattr(family, f)(*numbers) for f in exact.FUNCTIONS]

    for found in rlx.jit(all_of, backend="reference")(np.array([np.nan]), *POINTS[name][1:]):
        assert np.isnan(found[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gamma", "truncnorm"])
def test_quantiles_are_compiled_mapped_and_differentiated(name: str) -> None:
    family, shapes = getattr(stats, name), POINTS[name][1:]
    q = np.array([1e-30, 0.2, 0.5, 0.99])
    run = rlx.jit(rlx.vmap(rlx.value_and_grad(lambda q: family.ppf(q, *shapes))), backend="llvm")
    x, by_q = run(q)
    with np.errstate(all="ignore"):
        theirs = getattr(scipy.stats, name)
        np.testing.assert_allclose(x, theirs.ppf(q, *shapes), rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(by_q, 1 / theirs.pdf(np.asarray(x), *shapes), rtol=1e-9)


COUNTS: dict[str, tuple[float, ...]] = {
    "poisson": (40.5,), "binom": (30, 0.3), "geom": (0.2,), "nbinom": (4, 0.3), "bernoulli": (0.3,)
}  # fmt: skip


@pytest.mark.parametrize("name", marked(COUNTS))
def test_functions_of_counts_are_scipys(name: str) -> None:
    shapes, ours, theirs = COUNTS[name], getattr(stats, name), getattr(scipy.stats, name)
    q = np.array([0, 1e-9, 0.02, 0.3, 0.5, 0.77, 0.999, 1, -0.1, np.nan])
    counts = np.array([-1.0, 0, 1, 2.5, 7, 30, 31, np.inf, np.nan, 12])

    def all_of(q: Any, counts: Any) -> list[Any]:
        given = {"ppf": q, "isf": q}
        return [getattr(ours, f)(given.get(f, counts), *shapes) for f in exact.FUNCTIONS]

    *shares, below, above = rlx.jit(all_of, backend="reference")(q, counts)
    for function, found in zip(exact.FUNCTIONS, shares, strict=False):
        expected = getattr(theirs, function)(counts, *shapes)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15, err_msg=function)
    np.testing.assert_array_equal(below, theirs.ppf(q, *shapes))
    np.testing.assert_array_equal(above[2:7], theirs.isf(q[2:7], *shapes))
