"""Matrices of a known structure, and statistics and ranks of samples, compared with SciPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.scipy import linalg, stats

RNG = np.random.default_rng(4)
V = RNG.standard_normal(5)
M = RNG.standard_normal((4, 3))
S = RNG.standard_normal((4, 4))
I = RNG.integers(0, 4, (5, 6))  # noqa: E741  as in mathematics

LINALG: dict[str, Callable[[Any], Any]] = {
    "circulant": lambda s: s.circulant(V),
    "hankel": lambda s: (s.hankel(V), s.hankel(V, RNG.permutation(V) * 0 + V)),
    "companion": lambda s: s.companion(V),
    "leslie": lambda s: s.leslie(V, V[1:]),
    "convolution_matrix": lambda s: [
        s.convolution_matrix(V, n, mode) for n in (3, 7) for mode in ("full", "same", "valid")
    ],
    "fiedler": lambda s: s.fiedler(V),
    "dft": lambda s: [s.dft(5, scale) for scale in (None, "sqrtn", "n")],
    "hadamard": lambda s: s.hadamard(8),
    "helmert": lambda s: (s.helmert(5), s.helmert(4, full=True)),
    "pascal": lambda s: [s.pascal(5, kind, False) for kind in ("symmetric", "lower", "upper")],
    "invpascal": lambda s: [s.invpascal(5, kind, False) for kind in ("symmetric", "lower")],
    "invhilbert": lambda s: s.invhilbert(5),
    "polar": lambda s: (s.polar(S), s.polar(M), s.polar(S, "left")),
    "eigh_tridiagonal": lambda s: s.eigh_tridiagonal(V, V[1:], eigvals_only=True),
}


@pytest.mark.parametrize("name", LINALG)
def test_matrices_are_scipys(name: str) -> None:
    scipy = pytest.importorskip("scipy.linalg")
    found, expected = (rlx.tree_leaves(LINALG[name](home)) for home in (linalg, scipy))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


STATS: dict[str, Callable[[Any], Any]] = {
    "sem": lambda s: (s.sem(M), s.sem(M, None), s.sem(M, 1, ddof=0)),
    "rankdata": lambda s: [
        s.rankdata(I, how, axis=axis)
        for how in ("average", "min", "max", "dense", "ordinal")
        for axis in (None, 0, 1)
    ],
    "mode": lambda s: (tuple(s.mode(I)), tuple(s.mode(I, 1)), tuple(s.mode(I, None))),
}


@pytest.mark.parametrize("name", STATS)
def test_statistics_of_samples_are_scipys(name: str) -> None:
    scipy = pytest.importorskip("scipy.stats")
    found, expected = (rlx.tree_leaves(STATS[name](home)) for home in (stats, scipy))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        lambda: linalg.hadamard(6), lambda: linalg.dft(3, "m"), lambda: linalg.polar(S, "up"),
        lambda: linalg.pascal(3, "odd"), lambda: stats.rankdata(V, "first"),
        lambda: linalg.convolution_matrix(V, 3, "whole"),
    ],
)  # fmt: skip
def test_unknown_choices_are_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(InputError, match=" is "):
        call()


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
