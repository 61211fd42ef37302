"""Quantiles without a formula, compared with distribution functions of 60 digits, in both tails."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import rlx
from rlx.scipy import stats

INF = np.inf
SHARES = [1e-30, 1e-10, 0.01, 0.4, 0.6, 0.99]


def share(low: Any, high: Any) -> Any:
    """Return the normal share from `low` to `high`, by the tail that they are in."""
    if low > 0:
        return mpmath.ncdf(-low) - mpmath.ncdf(-high)
    return mpmath.ncdf(high) - mpmath.ncdf(low)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize(
    "bounds", [(3.0, INF), (-INF, -5.0), (-8.0, 6.0), (10.0, 10.5), (-1.0, 2.0), (0.5, 0.75)]
)
def test_quantiles_of_truncated_normals_are_within_eight_ulp(
    bounds: tuple[float, float], upper: bool, dtype: str
) -> None:
    p = np.array(SHARES, dtype)
    ends = np.array(bounds, dtype)
    run = stats.truncnorm.isf if upper else stats.truncnorm.ppf
    found = np.asarray(rlx.jit(run, backend="reference")(p, *ends))
    assert found.dtype == dtype
    with mpmath.workdps(60):
        a, b = (mpmath.mpf(float(end)) for end in ends)
        for q, x in zip(p, found, strict=True):
            at = mpmath.mpf(float(x))
            excess = (share(at, b) if upper else share(a, at)) / share(a, b) - mpmath.mpf(float(q))
            error = excess * share(a, b) / mpmath.npdf(at)
            assert abs(error) <= 8 * float(np.spacing(np.abs(x))), (q, x)


@pytest.mark.slow
def test_quantiles_of_truncated_normals_at_their_ends() -> None:
    p = np.array([0, 1, -0.1, 1.1, np.nan])
    for bounds in ((3.0, INF), (-1.0, 2.0)):
        ends = [*bounds, np.nan, np.nan, np.nan]
        np.testing.assert_array_equal(stats.truncnorm.ppf(p, *bounds), ends)
        ends[:2] = ends[1::-1]
        np.testing.assert_array_equal(stats.truncnorm.isf(p, *bounds), ends)
    assert np.isnan(stats.truncnorm.ppf(0.5, 2.0, 1.0))


@pytest.mark.slow
def test_quantiles_of_truncated_normals_have_derivatives() -> None:
    def f(x: Any) -> Any:
        return stats.truncnorm.ppf(x[0], x[1], x[2]) + stats.truncnorm.isf(x[0], x[1], x[2])

    x, step = np.array([0.2, -1.0, 2.0]), 1e-6
    run = rlx.jit(f, backend="reference")
    expected = [(run(x + s) - run(x - s)) / (2 * step) for s in step * np.eye(3)]
    np.testing.assert_allclose(rlx.jit(rlx.grad(f), backend="reference")(x), expected, rtol=1e-7)
