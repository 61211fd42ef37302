"""Incomplete gamma and beta functions of orders whose series would be of thousands of terms."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

from rlx.scipy import special


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
