"""Distributions compared with SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import InputError, UnsupportedError
from rlx.scipy import stats

scipy = pytest.importorskip("scipy.stats")

X = np.array([-1.5, -0.2, 0.3, 0.7, 1.4, 6.0])
K = np.arange(-1, 6)
CONTINUOUS: dict[str, tuple[float, ...]] = {
    "norm": (), "expon": (), "uniform": (), "laplace": (), "logistic": (), "cauchy": (),
    "gumbel_r": (), "gumbel_l": (), "gamma": (2.5,), "chi2": (3.0,), "beta": (2.0, 3.0),
    "t": (4.0,), "pareto": (2.0,), "gennorm": (1.5,), "vonmises": (2.0,),
    "truncnorm": (-1.0, 2.5), "wrapcauchy": (0.4,),
}  # fmt: skip
DISCRETE: dict[str, tuple[float, ...]] = {
    "bernoulli": (0.3,), "binom": (4, 0.3), "poisson": (2.5,), "geom": (0.3,),
    "nbinom": (3, 0.4), "betabinom": (4, 2.0, 3.0),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities_and_distribution_functions(name: str) -> None:
    own, theirs = getattr(stats, name), getattr(scipy, name)
    shapes = CONTINUOUS[name]
    kinds = ["logpdf", "pdf", *(["cdf", "sf"] if own.below else [])]
    for kind in kinds:
        expected = getattr(theirs, kind)(X, *shapes, loc=0.1, scale=1.3)
        for found in (
            getattr(own, kind)(X, *shapes, 0.1, 1.3),
            getattr(own, kind)(X, *shapes, loc=0.1, scale=1.3),
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=kind)


SEARCHED = ("gamma", "chi2", "beta", "t", "gennorm", "truncnorm")
WITH_QUANTILES = [
    pytest.param(name, marks=[pytest.mark.slow] if name in SEARCHED else [])
    for name in CONTINUOUS
    if getattr(stats, name).quantile
]


@pytest.mark.parametrize("name", WITH_QUANTILES)
def test_quantiles(name: str) -> None:
    # None at 1/2, near which SciPy's of t are off by 3e-8
    q, shapes = np.linspace(0.05, 0.96, 7), CONTINUOUS[name]
    expected = getattr(scipy, name).ppf(q, *shapes, 0.1, 1.3)
    np.testing.assert_allclose(getattr(stats, name).ppf(q, *shapes, 0.1, 1.3), expected, rtol=1e-9)


@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities(name: str) -> None:
    expected = getattr(scipy, name).logpmf(K, *DISCRETE[name])
    np.testing.assert_allclose(getattr(stats, name).logpmf(K, *DISCRETE[name]), expected, rtol=1e-9)


def test_vectors() -> None:
    random = np.random.default_rng(0)
    a, x = random.normal(size=(3, 3)), random.normal(size=3)
    cov = a @ a.T + np.eye(3)
    found = stats.multivariate_normal.logpdf(x, np.ones(3), cov)
    np.testing.assert_allclose(found, scipy.multivariate_normal.logpdf(x, np.ones(3), cov))
    with pytest.raises(UnsupportedError, match="allow_singular"):
        stats.multivariate_normal.logpdf(x, np.ones(3), cov, allow_singular=True)
    shares, alpha = np.array([0.2, 0.3, 0.5]), np.array([1.5, 2.0, 3.0])
    found = stats.dirichlet.logpdf(shares, alpha)
    np.testing.assert_allclose(found, scipy.dirichlet.logpdf(shares, alpha))
    found = stats.multinomial.logpmf(np.array([1, 2, 0]), 3, shares)
    np.testing.assert_allclose(found, scipy.multinomial.logpmf([1, 2, 0], 3, shares))


EDGES = np.array([-np.inf, -1.0, 0.0, 1.0, 2.0, 40.0, np.inf, np.nan])


@pytest.mark.parametrize("name", CONTINUOUS)
def test_edges_of_the_support_and_nan(name: str) -> None:
    own, theirs, shapes = getattr(stats, name), getattr(scipy, name), CONTINUOUS[name]
    edges = EDGES if name != "vonmises" else EDGES[[2, 3, 4, 7]]
    for kind in ["logpdf", *(["cdf", "sf"] if own.below else [])]:
        found = getattr(own, kind)(edges, *shapes)
        with np.errstate(invalid="ignore"):
            expected = getattr(theirs, kind)(edges, *shapes)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=kind)


@pytest.mark.parametrize("a", [0.5, 1.0, 2.0])
def test_a_gamma_density_at_zero(a: float) -> None:
    np.testing.assert_allclose(stats.gamma.pdf(0.0, a), scipy.gamma.pdf(0.0, a))
    np.testing.assert_allclose(stats.chi2.pdf(0.0, 2 * a), scipy.chi2.pdf(0.0, 2 * a))


@pytest.mark.parametrize("name", ["norm", "expon", "logistic", "laplace", "gumbel_r", "gumbel_l"])
def test_logarithms_of_far_tails(name: str) -> None:
    x = np.array([3.0, 6.0, 40.0])
    expected = getattr(scipy, name).logsf(x)
    np.testing.assert_allclose(getattr(stats, name).logsf(x), expected, rtol=1e-9)


@pytest.mark.parametrize("name", WITH_QUANTILES)
def test_quantiles_of_what_is_no_probability_are_nan(name: str) -> None:
    own = getattr(stats, name)
    assert np.isnan(own.ppf(np.array([-0.1, 1.1, np.nan]), *CONTINUOUS[name])).all()


def test_shapes_go_by_their_names() -> None:
    expected = scipy.beta.pdf(0.3, 2.0, 3.0)
    for found in (stats.beta.pdf(0.3, b=3.0, a=2.0), stats.beta.pdf(0.3, 2.0, b=3.0)):
        np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(stats.binom.pmf(2, p=0.3, n=5), scipy.binom.pmf(2, 5, 0.3))


@pytest.mark.parametrize(
    "call",
    [
        lambda: stats.norm.pdf(X, mean=3.0),
        lambda: stats.norm.pdf(X, 0.0, 1.0, 2.0),
        lambda: stats.norm.pdf(X, 0.0, loc=1.0),
        lambda: stats.gamma.pdf(X),
        lambda: stats.poisson.pmf(K, rate=2.0),
    ],
)
def test_arguments_that_a_distribution_does_not_have_are_refused(call: Any) -> None:
    with pytest.raises(InputError, match="give each once"):
        call()


def test_slopes_and_compiled_code() -> None:
    def loss(mean: Any, scale: Any) -> Any:
        return stats.norm.logpdf(X, mean, scale).sum()

    by_mean, by_scale = rlx.jit(rlx.grad(loss, argnums=(0, 1)))(0.3, 1.2)
    np.testing.assert_allclose(by_mean, ((X - 0.3) / 1.2**2).sum(), rtol=1e-12)
    np.testing.assert_allclose(by_scale, (((X - 0.3) / 1.2) ** 2 - 1).sum() / 1.2, rtol=1e-12)


def test_what_a_distribution_lacks_is_reported() -> None:
    with pytest.raises(UnsupportedError, match="vonmises has no cdf"):
        stats.vonmises.cdf(X, 2.0)


@pytest.mark.parametrize(
    "ends", [(-1.0, 2.0), (3.0, 5.0), (-5.0, -3.0), (20.0, 25.0), (-30.0, 0.5)]
)
def test_truncated_normals_in_the_tails(ends: tuple[float, float]) -> None:
    z = np.linspace(ends[0] - 0.5, ends[1] + 0.5, 13)
    for kind in ("logpdf", "pdf", "logcdf", "cdf", "logsf", "sf"):
        found = getattr(stats.truncnorm, kind)(z, *ends)
        expected = getattr(scipy.truncnorm, kind)(z, *ends)
        np.testing.assert_allclose(found, expected, rtol=2e-9, atol=1e-12, err_msg=kind)
    slope = rlx.grad(lambda a: stats.truncnorm.logpdf(z[4], a, ends[1]))(ends[0])
    step = 1e-5
    one, other = (scipy.truncnorm.logpdf(z[4], ends[0] + s, ends[1]) for s in (step, -step))
    np.testing.assert_allclose(slope, (one - other) / (2 * step), rtol=1e-4, atol=1e-8)
