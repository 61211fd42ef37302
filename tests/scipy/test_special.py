"""Special functions beside SciPy's."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
from rlx.scipy import special

X = np.concatenate([np.linspace(-5.3, 30, 80), [0.5, 1, 2, 10, 150.0]])
P = np.concatenate([np.linspace(-0.999, 0.999, 41), [1 - 1e-12, -1 + 1e-9, 1e-20]])


@pytest.mark.parametrize("name", ["gammaln", "digamma", "gamma", "ndtr", "log_ndtr", "entr"])
def test_functions_of_one_number(name: str) -> None:
    scipy = pytest.importorskip("scipy.special")
    expected = getattr(scipy, name)(X)
    np.testing.assert_allclose(rlx.jit(getattr(special, name))(X), expected, rtol=3e-13, atol=3e-14)


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
