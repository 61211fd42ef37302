"""Ranks and modes of samples: equal elements, NaN as in JAX, none at all."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy

import rlx.numpy as rnp
from rlx.scipy import stats

TIES = np.array([[3.0, 1, 2, 1, 3], [0.0, -0.0, np.inf, -np.inf, 7]])


@pytest.mark.parametrize("method", ["average", "min", "max", "dense", "ordinal"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_ranks_are_scipys(method: str, axis: int | None) -> None:
    found = stats.rankdata(TIES, method, axis=axis)
    np.testing.assert_array_equal(found, scipy.rankdata(TIES, method, axis=axis))


@pytest.mark.parametrize("method", ["average", "min", "max", "dense", "ordinal"])
def test_nan_are_ranked_last_and_apart(method: str) -> None:
    found = stats.rankdata(np.array([np.nan, 1.0, 2.0, np.nan]), method)
    np.testing.assert_array_equal(found, [3, 1, 2, 4])


def test_ranks_of_many_elements_take_no_table_of_pairs() -> None:
    x = np.random.default_rng(0).integers(0, 1000, 200_000)
    np.testing.assert_array_equal(stats.rankdata(x), scipy.rankdata(x))


@pytest.mark.parametrize("keepdims", [False, True])
def test_nan_is_a_value_that_may_be_the_most_frequent(keepdims: bool) -> None:
    for row in ([np.nan, np.nan, 1.0], [np.nan, 1.0, 1.0], [2.0, 2.0, 1.0, 1.0]):
        found = stats.mode(np.array(row), keepdims=keepdims)
        wanted = scipy.mode(np.array(row), keepdims=keepdims)
        np.testing.assert_array_equal(found.mode, wanted.mode)
        np.testing.assert_array_equal(found.count, wanted.count)


def test_ranks_of_nothing() -> None:
    assert stats.rankdata(rnp.zeros(0)).shape == (0,)
