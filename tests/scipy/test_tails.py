"""Distributions and their special functions in both tails, compared with 40 digits and SciPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats

import rlx
from rlx.scipy import special, stats

mpmath = pytest.importorskip("mpmath")
mpmath.mp.dps = 40
DTYPES = ("f4", "f8")


def ulps(found: Any, exact: list[Any]) -> float:
    """Return the largest error in units in the last place of the exact value."""
    errors = []
    for got, want in zip(np.asarray(found), exact, strict=True):
        unit = float(np.spacing(np.abs(got.dtype.type(float(want)))))
        errors.append(abs(float((mpmath.mpf(float(got)) - want) / unit)))
    return max(errors)


def quantile(p: Any) -> Any:
    x = mpmath.mpf(float(scipy.stats.norm.ppf(float(p))))
    for _ in range(6):
        x -= (mpmath.ncdf(x) - p) / mpmath.npdf(x)
    return x


def log_normal(x: Any) -> Any:
    return mpmath.log(mpmath.ncdf(x)) if x < 0 else mpmath.log1p(-mpmath.ncdf(-x))


SHARES = [1e-37, 1e-30, 1e-20, 1e-10, 1e-5, 0.01, 0.05, 0.0749, 0.0751, 0.3, 0.49, 0.51, 0.7, 0.99]
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any], list[float]]] = {
    "ndtri": (special.ndtri, quantile, SHARES),
    "erfinv": (special.erfinv, mpmath.erfinv, [1e-8, 0.01, 0.3, 0.5, 0.84, 0.86, 0.99, 0.9999]),
    "gammaln": (special.gammaln, mpmath.loggamma,
                [0.1, 0.5, 0.9, 0.999, 1.001, 1.4, 1.6, 1.999, 2.001, 2.4, 2.6, 3.4, 3.6, 10, 100]),
    "ndtr": (special.ndtr, mpmath.ncdf, [-12.5, -9, -5, -3, -1, -0.1, 0, 0.1, 1, 3]),
    "log_ndtr": (special.log_ndtr, log_normal, [-30, -11, -9, -3, -1, 0, 1, 3, 5, 10, 12.5]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_functions_are_within_eight_ulp(name: str, dtype: str) -> None:
    ours, exact, points = FUNCTIONS[name]
    x = np.array(points, dtype)
    assert ulps(ours(x), [exact(mpmath.mpf(float(value))) for value in x]) < 8


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_functions_at_their_ends(dtype: str) -> None:
    ends = np.array([0, 1, -0.1, 1.1, np.nan], dtype)
    np.testing.assert_array_equal(special.ndtri(ends), [-np.inf, np.inf, np.nan, np.nan, np.nan])
    ends = np.array([-1, 1, 1.1, 0.0, -0.0], dtype)
    found = np.asarray(special.erfinv(ends))
    np.testing.assert_array_equal(found, [-np.inf, np.inf, np.nan, 0.0, -0.0])
    assert np.signbit(found[4])
    np.testing.assert_array_equal(special.gammaln(np.array([1, 2], dtype)), [0, 0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_slopes_of_the_normal_distribution_are_within_four_ulp(dtype: str) -> None:
    points = [-37.3, -32.1, -25.3] if dtype == "f8" else []
    x = np.array([*points, -12.7, -10.3, -5.3, -0.7, 0.3, 3.3, 9.1], dtype)
    exact = [mpmath.mpf(float(value)) for value in x]
    for function in (special.ndtr, special.log_ndtr):
        shares = [1 if function is special.ndtr else mpmath.ncdf(value) for value in exact]
        want = [mpmath.npdf(z) / share for z, share in zip(exact, shares, strict=True)]
        assert ulps(rlx.vmap(rlx.grad(function))(x), want) < 4


def test_quantiles_of_beta_of_small_shapes_and_next_to_one_are_within_eight_ulp() -> None:
    """Exact quantiles are roots in fifty digits of mpmath's regularized function."""
    p, a, b = 0.07663036743210906, 0.03343980774555905, 0.0955237013034488
    assert ulps([stats.beta.ppf(p, a, b)], [mpmath.mpf("2.9812113501908622797e-30")]) < 8
    p, a, b = 4.398975256536724e-120, 59828.01978715939, 10.485077123880998
    assert stats.beta.isf(p, a, b) == 1 - 3 * 2.0**-53


def test_slopes_in_the_tail() -> None:
    slope = rlx.grad(special.ndtri)(1e-20)
    np.testing.assert_allclose(slope, 1 / float(mpmath.npdf(quantile(1e-20))), rtol=1e-12)
    slope = rlx.grad(special.log_ndtr)(10.0)
    np.testing.assert_allclose(slope, float(mpmath.npdf(10) / mpmath.ncdf(10)), rtol=1e-12)
    slope = rlx.grad(special.gammaln)(2.0)
    np.testing.assert_allclose(slope, float(mpmath.digamma(2)), rtol=1e-13)


CONTINUOUS: dict[str, tuple[float, ...]] = {
    "norm": (), "expon": (), "uniform": (), "laplace": (), "logistic": (), "cauchy": (),
    "gumbel_r": (), "gumbel_l": (), "gamma": (2.5,), "chi2": (3.0,), "beta": (2.0, 3.0),
    "t": (4.0,), "pareto": (2.5,), "truncnorm": (-1.0, 2.0), "gennorm": (1.5,),
}  # fmt: skip
X = np.array([-30, -5.0, -2, -0.7, -1e-3, 0, 1e-5, 0.3, 0.5, 0.999, 1, 1.5, 4, 12, 60, np.nan])
Q = np.array([0, 1e-300, 1e-20, 1e-9, 0.1, 0.3, 0.5, 0.7, 0.999999, 1.0, -0.1, 2.0, np.nan])
WITH_QUANTILES = (
    *("norm", "expon", "uniform", "laplace", "logistic", "cauchy"),
    *("gumbel_r", "gumbel_l", "pareto"),
)


@pytest.mark.whole
@pytest.mark.parametrize("function", ["cdf", "sf", "logcdf", "logsf", "logpdf"])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_distributions_are_scipys_in_both_tails(name: str, function: str) -> None:
    shapes = CONTINUOUS[name]
    found = getattr(getattr(stats, name), function)(X, *shapes)
    with np.errstate(all="ignore"):
        expected = getattr(getattr(scipy.stats, name), function)(X, *shapes)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("function", ["ppf", "isf"])
@pytest.mark.parametrize("name", WITH_QUANTILES)
def test_quantiles_are_scipys_in_both_tails(name: str, function: str) -> None:
    shapes = CONTINUOUS[name]
    found = getattr(getattr(stats, name), function)(Q, *shapes)
    expected = getattr(getattr(scipy.stats, name), function)(Q, *shapes)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [("bernoulli", (0.3,)), ("binom", (5, 0.3)), ("poisson", (2.5,)), ("geom", (0.3,))],
)
def test_a_missing_count_has_no_probability(name: str, shapes: tuple[float, ...]) -> None:
    found = getattr(stats, name).logpmf(np.array([math.nan, 1.0]), *shapes)
    assert np.isnan(found[0])
    assert np.isfinite(found[1])


def test_counts_below_infinity_are_certain() -> None:
    found = stats.poisson.cdf(np.array([np.inf, np.nan, -1.0]), 2.5)
    np.testing.assert_array_equal(found, [1, np.nan, 0])


@pytest.mark.slow
def test_infinite_parameters_give_the_limits() -> None:
    inf = np.inf
    a, b, x = np.array([
        (inf, 1, 0.5), (1, inf, 0.5), (inf, inf, 0.5), (1, inf, 0), (inf, 1, 1), (2, 3, 0.5),
        (0, 1, 0.5), (1, 0, 0.5), (0, 0, 0.5), (2, inf, 1),
    ]).T  # fmt: skip
    np.testing.assert_allclose(special.betainc(a, b, x), scipy.special.betainc(a, b, x), 1e-14)
    a, x = np.array([(inf, 1), (1, inf), (inf, inf), (0, 1), (0, 0), (1, 0), (2, inf)]).T
    np.testing.assert_array_equal(special.gammainc(a, x), scipy.special.gammainc(a, x))
    np.testing.assert_array_equal(special.gammaincc(a, x), scipy.special.gammaincc(a, x))
    np.testing.assert_array_equal(stats.poisson.cdf(3.0, np.array([inf, 0.0])), [0, 1])
    slopes = rlx.grad(lambda x: special.betainc(inf, 2.0, x) + special.gammainc(inf, x))(0.5)
    assert slopes == 0


@pytest.mark.parametrize("z", [-700.0, -40.0, 0.5, 40.0, 700.0])
def test_the_slope_of_the_logistic_distribution_is_its_density_in_both_tails(z: float) -> None:
    density = np.exp(-abs(z)) / (1 + np.exp(-abs(z))) ** 2
    of = stats.logistic
    np.testing.assert_allclose(rlx.grad(of.cdf)(z), density, rtol=4e-16)
    np.testing.assert_allclose(rlx.grad(of.sf)(z), -density, rtol=4e-16)
    bend = rlx.grad(rlx.grad(of.cdf))(z)
    np.testing.assert_allclose(bend, -density * np.tanh(z / 2), rtol=1e-15)


def test_shares_do_not_depend_on_what_is_computed_with_them() -> None:
    """How many levels a fraction takes is chosen for each element."""
    x, df = -1.7664206788839536, 39.374933423746846
    exact = 0.04253869816354243
    np.testing.assert_allclose(stats.t.cdf(x, df), exact, rtol=1e-15)
    found = stats.t.cdf(np.array([x, -30.0]), np.array([df, 1e6]))
    np.testing.assert_allclose(found[0], exact, rtol=1e-15)
