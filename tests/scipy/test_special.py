"""Special functions compared with SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import InputError
from rlx.scipy import special

X = np.concatenate([np.linspace(-5.3, 30, 80), [0.5, 1, 2, 10, 150.0]])
P = np.concatenate([np.linspace(-0.999, 0.999, 41), [1 - 1e-12, -1 + 1e-9, 1e-20]])


@pytest.mark.parametrize("name", ["gammaln", "digamma", "gamma", "ndtr", "log_ndtr", "entr"])
def test_functions_of_one_number(name: str) -> None:
    scipy = pytest.importorskip("scipy.special")
    expected = getattr(scipy, name)(X)
    np.testing.assert_allclose(rlx.jit(getattr(special, name))(X), expected, rtol=3e-13, atol=3e-14)


def test_nan_stays_nan() -> None:
    for found in (
        special.erfinv(np.nan),
        special.ndtri(np.nan),
        special.betainc(2.0, 3.0, np.nan),
        special.gammainc(2.0, np.nan),
    ):
        assert np.isnan(found)


def test_inverses_and_their_slopes() -> None:
    scipy = pytest.importorskip("scipy.special")
    np.testing.assert_allclose(rlx.jit(special.erfinv)(P), scipy.erfinv(P), rtol=1e-12)
    np.testing.assert_array_equal(special.erfinv(np.array([1.0, -1.0])), [np.inf, -np.inf])
    slope = rlx.jit(rlx.vmap(rlx.grad(special.erfinv)))(P[:41])
    np.testing.assert_allclose(slope, np.sqrt(np.pi) / 2 * np.exp(scipy.erfinv(P[:41]) ** 2))
    np.testing.assert_allclose(rlx.grad(special.gammaln)(2.5), scipy.digamma(2.5))


@pytest.mark.parametrize("name", ["xlogy", "xlog1py", "rel_entr", "kl_div", "betaln", "beta"])
def test_functions_of_two_numbers(name: str) -> None:
    scipy = pytest.importorskip("scipy.special")
    x, y = np.meshgrid([0.0, 0.5, 2.0], [0.1, 1.0, 3.0])
    x = x + (name.startswith("beta"))
    np.testing.assert_allclose(
        getattr(special, name)(x, y), getattr(scipy, name)(x, y), rtol=1e-12, atol=2e-15
    )


GAMMA_SLOPES = rlx.jit(rlx.grad(special.gammainc, argnums=(0, 1)))
BETA_SLOPES = rlx.jit(rlx.grad(special.betainc, argnums=(0, 1, 2)))
DRAW_SLOPES = rlx.jit(rlx.lax.random_gamma_grad)
"""Compiled once for all tests: that takes seconds."""

A, Z = np.meshgrid([0.3, 1.0, 2.5, 10.0, 100.0], [0.01, 0.5, 3.0, 20.0, 110.0])
POSITIVE = np.linspace(0.01, 40.0, 40)
OTHERS = {
    "i0": (X,), "i0e": (X,), "i1": (X,), "i1e": (X,), "exp1": (POSITIVE,),
    "gammainc": (A, Z), "gammaincc": (A, Z), "betainc": (A, 2.5, Z / 111),
    "zeta": (A + 1, Z), "poch": (POSITIVE, 2.5), "comb": (np.arange(2.0, 20), 2.0),
    "boxcox": (POSITIVE, 0.3), "boxcox1p": (POSITIVE, 0.0), "expit": (X,),
    "loggamma": (POSITIVE,),
}  # fmt: skip


SLOW = {"betainc", "gammainc", "gammaincc"}  # to compile


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in OTHERS]
)
def test_series_and_continued_fractions(name: str) -> None:
    scipy = pytest.importorskip("scipy.special")
    expected = getattr(scipy, name)(*OTHERS[name])
    np.testing.assert_allclose(
        rlx.jit(getattr(special, name))(*OTHERS[name]), expected, rtol=3e-12, atol=1e-300
    )


def test_derivatives_of_digamma_and_the_numbers_of_bernoulli() -> None:
    scipy = pytest.importorskip("scipy.special")
    for order in (0, 1, 3):
        expected = scipy.polygamma(order, POSITIVE)
        np.testing.assert_allclose(special.polygamma(order, POSITIVE), expected, rtol=1e-11)
    even = [0, 1, 2, 4, 6, 8]
    np.testing.assert_allclose(special.bernoulli(8)[even], scipy.bernoulli(8)[even], rtol=1e-10)


@pytest.mark.slow
def test_slopes_of_incomplete_functions() -> None:
    scipy = pytest.importorskip("scipy.special")
    h = 1e-6
    by_a, by_x = GAMMA_SLOPES(2.5, 3.0)
    expected = (scipy.gammainc(2.5 + h, 3.0) - scipy.gammainc(2.5 - h, 3.0)) / (2 * h)
    np.testing.assert_allclose(by_a, expected, rtol=1e-8)
    np.testing.assert_allclose(by_x, np.exp(-3.0) * 3.0**1.5 / scipy.gamma(2.5), rtol=1e-12)
    slopes = BETA_SLOPES(2.5, 3.0, 0.4)
    expected = (scipy.betainc(2.5 + h, 3.0, 0.4) - scipy.betainc(2.5 - h, 3.0, 0.4)) / (2 * h)
    np.testing.assert_allclose(slopes[0], expected, rtol=1e-8)
    expected = 0.4**1.5 * 0.6**2 / scipy.beta(2.5, 3.0)
    np.testing.assert_allclose(slopes[2], expected, rtol=1e-12)
    for x in (0.0, 0.7, 9.0):
        expected = (scipy.i1e(x + h) - scipy.i1e(x - h)) / (2 * h)
        np.testing.assert_allclose(rlx.grad(special.i1e)(x), expected, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(rlx.grad(special.i0)(x), scipy.i1(x), rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "x"), [(5.0, 7.0), (0.3, 39.0), (1000.0, 1000.0), (3000.0, 2950.0), (1000.0, 1050.0)]
)
def test_slopes_by_the_order_hold_in_tails_and_large_orders(order: float, x: float) -> None:
    """Of the lesser function, whose differences lose nothing; that of 5 ends after 5 terms."""
    scipy = pytest.importorskip("scipy.special")
    upper, h = x > order + 1, 1e-5 * order

    def of(a: float) -> float:
        return float(-scipy.gammaincc(a, x) if upper else scipy.gammainc(a, x))

    expected = (8 * (of(order + h) - of(order - h)) - of(order + 2 * h) + of(order - 2 * h)) / 12
    np.testing.assert_allclose(GAMMA_SLOPES(order, x)[0], expected / h, rtol=1e-9)
    density = np.exp((order - 1) * np.log(x) - x - scipy.gammaln(order))
    np.testing.assert_allclose(DRAW_SLOPES(order, x), -expected / h / density, rtol=1e-9)


def test_the_slope_of_a_draw_holds_where_its_density_is_no_float() -> None:
    """As JAX has it."""
    x = np.array([200, 2000], np.float32)
    np.testing.assert_allclose(
        rlx.lax.random_gamma_grad(np.float32(0.3), x), [8.775239, 11.100042], rtol=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b", "x"), [(2.0, 3.0, 0.4), (1e4, 2e4, 0.334), (1e6, 1e6, 0.5)])
def test_slopes_of_the_incomplete_beta_function_by_its_orders(a: float, b: float, x: float) -> None:
    scipy = pytest.importorskip("scipy.special")
    for number, slope in enumerate(BETA_SLOPES(a, b, x)[:2]):
        h = np.eye(2)[number] * 1e-4 * np.sqrt([a, b])

        def at(steps: int, h: object = h) -> float:
            return float(scipy.betainc(a + steps * h[0], b + steps * h[1], x))  # type: ignore[index]

        expected = (8 * (at(1) - at(-1)) - at(2) + at(-2)) / (12 * h[number])
        np.testing.assert_allclose(slope, expected, rtol=1e-6)


def test_lax_has_them_under_its_own_names() -> None:
    assert rlx.lax.igamma is special.gammainc
    assert rlx.lax.igammac is special.gammaincc
    assert rlx.lax.lgamma is special.gammaln
    assert rlx.lax.erf_inv is special.erfinv
    assert rlx.lax.bessel_i1e is special.i1e
    np.testing.assert_allclose(rlx.lax.logistic(0.3), special.expit(0.3))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("name", "value"), [("gammaln", np.inf), ("digamma", np.nan)])
def test_large_odd_negative_integers_are_poles(name: str, value: float, dtype: Any) -> None:
    """Half above them is not a number of the type, and must not be rounded to the next integer."""
    x = np.array([-3.0, -(2.0 ** np.finfo(dtype).nmant + 1)], dtype)
    np.testing.assert_array_equal(getattr(special, name)(x), np.full(2, value))


@pytest.mark.parametrize("name", ["gamma", "digamma", "factorial", "gammasgn"])
def test_poles_are_scipys(name: str) -> None:
    scipy = pytest.importorskip("scipy.special")
    x = np.array([-np.inf, -3, -2.5, -1, -0.0, 0, 0.5, 1, 4, np.inf, np.nan])
    np.testing.assert_allclose(getattr(special, name)(x), getattr(scipy, name)(x), rtol=1e-13)


@pytest.mark.slow
def test_binomials_of_fractions_are_not_rounded_and_have_slopes() -> None:
    np.testing.assert_allclose(special.comb(5.5, 2.0), 12.375, rtol=1e-13)
    assert special.comb(10, 3) == 120
    np.testing.assert_allclose(rlx.grad(lambda n: special.comb(n, 2.0))(5.0), 4.5, rtol=1e-12)


@pytest.mark.slow
def test_the_incomplete_gamma_function_of_order_0_has_all_at_0() -> None:
    x = np.array([0.0, 1.0, 3.0])
    np.testing.assert_array_equal(special.gammainc(0.0, x), [np.nan, 1, 1])
    np.testing.assert_array_equal(special.gammaincc(0.0, x), [np.nan, 0, 0])
    slopes = rlx.grad(lambda a: special.gammainc(a, 1.0))
    assert np.isnan(slopes(-2.5))  # as the value is


@pytest.mark.parametrize("n", [1, 2, 3])
def test_polygamma_is_infinite_at_negative_integers(n: int) -> None:
    scipy = pytest.importorskip("scipy.special")
    x = np.array([-2.0, -1.0, -0.0, 0.0])
    np.testing.assert_array_equal(np.asarray(special.polygamma(n, x)), scipy.polygamma(n, x))


def test_zeta_of_integers_has_values_at_negative_q() -> None:
    scipy = pytest.importorskip("scipy.special")
    x, q = np.array([2.0, 3, 4, 2.5, 1, 0.5]), np.array([-0.5, -1.5, -4.5, -0.5, 0, 0])
    expected = scipy.zeta(x, q)
    np.testing.assert_allclose(np.asarray(special.zeta(x, q)), expected, rtol=1e-8)


def test_poch_of_no_factors_is_1() -> None:
    z = np.array([np.nan, np.inf, 0.0, -1.0, 2.5])
    np.testing.assert_array_equal(np.asarray(special.poch(z, 0.0)), np.ones(5))


@pytest.mark.parametrize("repetition", [False, True])
@pytest.mark.parametrize(("n", "k"), [(5, 2), (100, np.int32(50)), (3.0, 5), (-1, 0), (0, 0)])
def test_exact_comb_is_an_integer_of_python(n: Any, k: Any, repetition: bool) -> None:
    scipy = pytest.importorskip("scipy.special")
    found = special.comb(n, k, exact=True, repetition=repetition)
    assert type(found) is int
    assert found == scipy.comb(n, k, exact=True, repetition=repetition)


@pytest.mark.parametrize("n", [np.array([5, 6]), 5.5])
def test_exact_comb_refuses_what_is_no_integer(n: Any) -> None:
    with pytest.raises(InputError, match="takes two integers"):
        special.comb(n, 2, exact=True)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("n", "k", "ways"), [(0, 0, 1), (0, 1, 0), (0, 2, 0), (1, 0, 1), (2, 3, 4), (3, -1, 0)]
)
def test_comb_with_repetition(n: int, k: int, ways: int, exact: bool) -> None:
    assert special.comb(n, k, exact=exact, repetition=True) == ways
