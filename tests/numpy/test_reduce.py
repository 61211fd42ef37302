"""`lax.reduce`: any associative function over axes."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax


@pytest.mark.parametrize("dimensions", [(0,), (1,), (0, 2), (2, 0), ()])
def test_sums_and_maxima_over_axes(dimensions: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).standard_normal((5, 3, 7))
    found = lax.reduce(x, 2.0, lambda a, b: a + b, dimensions)
    np.testing.assert_allclose(found, 2 + x.sum(dimensions), rtol=1e-12)
    found = lax.reduce(x, -np.inf, rnp.maximum, dimensions)
    np.testing.assert_array_equal(found, x.max(dimensions) if dimensions else x)


def test_nothing_gives_the_initial_value_and_slopes_pass() -> None:
    found = lax.reduce(np.zeros((0, 2), np.float32), 3, lambda a, b: a * b, (0,))
    np.testing.assert_array_equal(found, np.array([3, 3], np.float32))
    x = np.array([2.0, 3.0, 5.0])
    slope = rlx.grad(lambda x: lax.reduce(x, 1.0, lambda a, b: a * b, (0,)))(x)
    np.testing.assert_allclose(slope, [15, 10, 6])


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", "i1", "i4", "?"])
def test_integers_are_summed_in_the_widest_of_their_kind_as_in_numpy(dtype: str) -> None:
    x = np.array([2**63, 2**63 - 7] if dtype == "u8" else [1, 1]).astype(dtype)
    for name in ("sum", "prod", "cumulative_sum", "cumulative_prod", "nansum"):
        with np.errstate(over="ignore"):
            expected = getattr(np, name)(x)
        found = getattr(rnp, name)(x)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_a_mean_of_long_integers_is_a_double() -> None:
    assert {rnp.mean(np.arange(3, dtype=d)).dtype for d in ("u8", "i8")} == {np.dtype(np.float64)}
