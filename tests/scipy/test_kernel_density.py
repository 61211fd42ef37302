"""Kernel density estimates compared with SciPy's; their gradients with finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError, RlxError
from rlx.scipy import stats

RNG = np.random.default_rng(7)
SAMPLES = {d: RNG.standard_normal((d, 20)) for d in (1, 3)}
POINTS = {d: RNG.standard_normal((d, 6)) for d in (1, 3)}
WEIGHTS = RNG.random(20)


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("bandwidth", [None, "silverman", 0.4, lambda k: 2 / k.n])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "weighted"])
def test_densities_and_integrals_are_scipys(d: int, bandwidth: Any, weights: Any) -> None:
    ours, theirs = (home.gaussian_kde(SAMPLES[d], bandwidth, weights) for home in (stats, scipy))
    other = SAMPLES[d][:, ::2] + 0.5
    for found, expected in (
        (ours(POINTS[d]), theirs(POINTS[d])),
        (ours.logpdf(POINTS[d] * 9), theirs.logpdf(POINTS[d] * 9)),
        (ours.covariance, theirs.covariance),
        (ours.inv_cov, theirs.inv_cov),
        (ours.neff, theirs.neff),
        (
            ours.integrate_gaussian(np.ones(d), 2 * np.eye(d)),
            theirs.integrate_gaussian(np.ones(d), 2 * np.eye(d)),
        ),
        (
            ours.integrate_kde(stats.gaussian_kde(other)),
            theirs.integrate_kde(scipy.gaussian_kde(other)),
        ),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    if d == 1:
        found, expected = ours.integrate_box_1d(-1, 0.5), theirs.integrate_box_1d(-1, 0.5)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_one_point_of_several_numbers_is_a_column() -> None:
    estimate = stats.gaussian_kde(SAMPLES[3])
    np.testing.assert_array_equal(estimate(POINTS[3][:, 0]), estimate(POINTS[3][:, :1]))


def test_gradients_by_points_and_sample_are_finite_differences() -> None:
    def total(sample: Any, points: Any) -> Any:
        return rnp.sum(stats.gaussian_kde(sample, weights=WEIGHTS).logpdf(points))

    given = [SAMPLES[3], POINTS[3]]
    gradients = rlx.grad(total, (0, 1))(*given)
    for place, gradient in enumerate(gradients):
        way = RNG.standard_normal(given[place].shape)
        ends = [
            [*given[:place], given[place] + h * way, *given[place + 1 :]] for h in (1e-5, -1e-5)
        ]
        slope = (total(*ends[0]) - total(*ends[1])) / 2e-5
        np.testing.assert_allclose(np.sum(gradient * way), slope, rtol=1e-7)


def test_an_estimate_is_a_tree_for_jit_and_vmap() -> None:
    samples = np.stack([SAMPLES[3], SAMPLES[3] ** 2])
    estimates = rlx.vmap(stats.gaussian_kde)(samples)
    found = rlx.jit(rlx.vmap(lambda e, p: e.logpdf(p), in_axes=(0, None)))(estimates, POINTS[3])
    expected = [scipy.gaussian_kde(sample).logpdf(POINTS[3]) for sample in samples]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_draws_have_the_moments_of_the_density() -> None:
    estimate = stats.gaussian_kde(SAMPLES[3], weights=WEIGHTS)
    drawn = estimate.resample(rlx.random.key(0), (200, 500))
    assert drawn.shape == (3, 200, 500)
    flat = np.reshape(drawn, (3, -1))
    mean = np.average(SAMPLES[3], axis=1, weights=WEIGHTS)
    spread = np.cov(SAMPLES[3], aweights=WEIGHTS, ddof=0) + estimate.covariance
    np.testing.assert_allclose(flat.mean(1), mean, atol=0.02)
    np.testing.assert_allclose(np.cov(flat), spread, atol=0.03)


@pytest.mark.parametrize(
    "call",
    [
        lambda: stats.gaussian_kde(np.ones(1)),
        lambda: stats.gaussian_kde(SAMPLES[3], weights=WEIGHTS[1:]),
        lambda: stats.gaussian_kde(SAMPLES[3])(POINTS[1]),
        lambda: stats.gaussian_kde(SAMPLES[3]).integrate_box_1d(0, 1),
        lambda: stats.gaussian_kde(SAMPLES[3]).integrate_kde(stats.gaussian_kde(SAMPLES[1])),
        lambda: stats.gaussian_kde(SAMPLES[3]).integrate_gaussian(np.ones(2), np.eye(2)),
    ],
)
def test_shapes_that_do_not_fit_are_reported(call: Callable[[], Any]) -> None:
    with pytest.raises(RlxError, match=r"ha(s|ve) ") as caught:
        call()
    assert caught.value.source is not None


def test_an_unknown_bandwidth_is_refused() -> None:
    with pytest.raises(InputError, match="bw_method is 'wide'"):
        stats.gaussian_kde(SAMPLES[1], "wide")
