"""Gauss's hypergeometric function and its slopes, compared with 40 digits and with SciPy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.special as scipy

import rlx
from rlx.errors import RlxError
from rlx.scipy.special import hyp2f1
from tests.scipy.hypergeometric_numbers import POSITIVE, SIGNED, SLOPES, WHOLE, ZS

BOUNDS: dict[str, tuple[dict[tuple[float, ...], tuple[float, ...]], float]] = {
    "positive parameters": (POSITIVE, 5e-14),
    "parameters of any sign": (SIGNED, 3e-13),
    "c - a - b near an integer": (WHOLE, 1e-14),
}
POINTS = np.array([at for at, _, _ in SLOPES]).T


BATCH = 256
VALUES = rlx.jit(hyp2f1)
SLOPES_OF = rlx.jit(rlx.vmap(rlx.grad(hyp2f1, argnums=(0, 1, 2, 3))))
"""Compiled once, for one shape: numbers of a test are given in batches, filled up with the last."""


def values(*args: Any) -> Any:
    """Return the function of arguments that are broadcast together."""
    given = np.broadcast_arrays(*(np.asarray(x, float) for x in args))
    flat = np.stack([x.ravel() for x in given])
    count = flat.shape[1]
    filled = np.pad(flat, ((0, 0), (0, -count % BATCH)), mode="edge")
    parts = [VALUES(*part) for part in np.split(filled, filled.shape[1] // BATCH, axis=1)]
    return np.concatenate(parts)[:count].reshape(given[0].shape)


def slopes(*at: float) -> Any:
    """Return the slopes by all arguments at one place."""
    return np.array(SLOPES_OF(*(np.full(POINTS.shape[1], x) for x in at)))[:, 0]


def arguments(*tables: dict[tuple[float, ...], tuple[float, ...]]) -> tuple[Any, ...]:
    numbers = np.array([row for table in tables for row in table])[:, :, None]
    return (*(numbers[:, i] for i in range(3)), np.array(ZS))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "llvm", "reference"])
def test_errors_stay_within_the_bounds_of_the_docs(backend: str) -> None:
    run = rlx.jit(lambda a, b, c, z: hyp2f1(a, b, c, z), backend=backend)
    found = np.asarray(run(*arguments(*(table for table, _ in BOUNDS.values()))))
    for table, bound in BOUNDS.values():
        own, found = np.split(found, [len(table)])
        np.testing.assert_allclose(own, np.array(list(table.values())), rtol=bound)
    assert not len(found)


@pytest.mark.slow
def test_single_precision_stays_single() -> None:
    a, b, c, z = (np.asarray(x, np.float32) for x in arguments(POSITIVE, WHOLE))
    inside = (z > -1e9) & (z < 1)  # 1e-6 below 1 is there, 2^-50 is not
    found = np.asarray(rlx.jit(hyp2f1)(a, b, c, z[inside]))
    assert found.dtype == np.float32
    expected = values(a, b, c, z[inside])
    np.testing.assert_allclose(found, expected, rtol=5e-6)


@pytest.mark.slow
def test_a_grid_is_scipys() -> None:
    """Where SciPy does not lose digits itself: its errors reach 1e-12 at the ends of this range."""
    numbers = np.array(list(product([0.3, 1, 2.5], [0.4, 1, 3], [0.5, 1, 2, 4.25]))).T
    z = np.linspace(-0.95, 0.95, 24)
    given = (*(x[:, None] for x in numbers), z)
    np.testing.assert_allclose(values(*given), scipy.hyp2f1(*given), rtol=2e-13)


@pytest.mark.slow
def test_polynomials_are_scipys_at_any_z() -> None:
    numbers = list(product([-1, -2, -5, -9, 0], [0.5, 2.25, -3.5], [0.75, 3, -9.5, -12]))
    a, b, c = (x[:, None] for x in np.array(numbers, float).T)
    z = np.array([-30, -2, -0.5, 0.3, 0.8, 1, 1.5, 4, 40.0])
    expected = scipy.hyp2f1(a, b, c, z)
    for given in ((a, b), (b, a)):
        found = values(*given, c, z)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.slow
def test_poles_and_ends_and_values_beyond_are_scipys() -> None:
    cases = [
        (1, 2, -3, 0.5), (-4, 2, -3, 0.5), (-2, 2, -3, 0.5), (2, -3, -3, 0.5), (1, 1, -2, 0),
        (0, 2, -1, 0.5), (1, 1, 2, 1), (1, 1, 2.5, 1), (-2.5, 1, -3.5, 1), (-2, 5, 2, 1),
        (-2.0, 3, 2, 1), (2, 1, 1, 1), (0.25, -0.5, 1.5, 1), (1, 2, 3, 1.5), (3, 4, 2, 1.5),
        (4, 3, 2, 1.5), (3.5, 4, 2.5, 1.5), (3.5, 4.5, 2.5, 1.5), (2.5, 3, 2.5, 1.5),
        (3, 4.5, 2, 0.5), (3, 4.5, 2, -7), (-2, 3, 1, 5), (1, 2, 3, np.inf), (1, 2, 3, -np.inf),
        (-2, 2, 3, -np.inf), (0, 2, 3, -np.inf), (np.nan, 1, 1, 0.1), (1, np.nan, 1, 0.1),
        (1, 1, np.nan, 0.1), (1, 1, 2, np.nan),
    ]  # fmt: skip
    given = np.array(cases, float).T
    np.testing.assert_allclose(values(*given), scipy.hyp2f1(*given), rtol=2e-14)


def test_equal_negative_integers_end_the_series_on_either_side() -> None:
    """SciPy has `(1 - z) ** -b` on one side alone."""
    assert float(hyp2f1(2.0, -3.0, -3.0, 0.5)) == scipy.hyp2f1(2, -3, -3, 0.5) == 3.25
    assert float(hyp2f1(-3.0, 2.0, -3.0, 0.5)) == 3.25
    assert scipy.hyp2f1(-3, 2, -3, 0.5) == 4.0


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_slopes_by_all_arguments_are_those_of_many_digits(mode: str) -> None:
    """Among them polynomials, whole numbers, and places far from 0 and close to 1."""
    expected = np.array([each for _, each, _ in SLOPES]).T
    if mode == "reverse":
        np.testing.assert_allclose(SLOPES_OF(*POINTS), expected, rtol=5e-15)
        return
    moved = rlx.jit(lambda at, tangents: rlx.jvp(hyp2f1, at, tangents)[1])
    for place in range(4):
        tangents = tuple(np.ones_like(x) * (i == place) for i, x in enumerate(POINTS))
        np.testing.assert_allclose(moved(tuple(POINTS), tangents), expected[place], rtol=5e-15)


@pytest.mark.slow
def test_second_slopes_by_a_parameter_are_those_of_many_digits() -> None:
    def second(a: Any, *rest: Any) -> Any:
        return rlx.jvp(lambda a: rlx.grad(hyp2f1)(a, *rest), (a,), (rlx.numpy.ones_like(a),))[1]

    found = rlx.jit(rlx.vmap(second))(*POINTS)
    np.testing.assert_allclose(found, [second for _, _, second in SLOPES], rtol=1e-13)
    with pytest.raises(RlxError, match="use forward mode"):
        rlx.grad(rlx.grad(hyp2f1))(*(float(x) for x in POINTS[:, 0]))


@pytest.mark.slow
def test_slopes_by_z_have_any_order() -> None:
    third = rlx.grad(rlx.grad(rlx.grad(hyp2f1, argnums=3), argnums=3), argnums=3)
    expected = 6 * 24 / 60 * scipy.hyp2f1(4, 5, 6, 0.3)  # 15.5.2
    np.testing.assert_allclose(third(1.0, 2.0, 3.0, 0.3), expected, rtol=1e-13)


@pytest.mark.slow
def test_slopes_at_one_are_gausss() -> None:
    at = (0.5, 0.25, 3.0)

    def gauss(a: float, b: float, c: float) -> Any:
        return scipy.gamma(c) * scipy.gamma(c - a - b) / scipy.gamma(c - a) / scipy.gamma(c - b)

    found = slopes(*at, 1.0)
    h = 1e-6
    for place in range(3):
        step = np.eye(3)[place] * h
        slope = (gauss(*(at + step)) - gauss(*(at - step))) / (2 * h)
        np.testing.assert_allclose(found[place], slope, rtol=1e-8)
    np.testing.assert_allclose(found[3], 0.125 / 3 * gauss(1.5, 1.25, 4), rtol=1e-13)


@pytest.mark.slow
def test_slopes_by_parameters_are_unknown_behind_one_but_that_by_z_is_not() -> None:
    """The polynomial 1 - 6 z + 6 z^2."""
    found = slopes(-2.0, 3.0, 1.0, 5.0)
    assert np.isnan(found[:3]).all()
    assert found[3] == 54
    _, tangent = rlx.jvp(lambda z: hyp2f1(-2.0, 3.0, 1.0, z), (5.0,), (1.0,))
    assert tangent == 54
