"""Draws have their distribution where a formula would lose it: wide ranges, tails, bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import rlx
import rlx.jax
import rlx.random as rr

INF = np.inf


@pytest.mark.parametrize("backend", ["c", "llvm", "reference"])
@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("i32", 0, 10**9), ("i32", -(2**31), 2**31), ("u32", 5, 3 * 10**9), ("i64", 0, 3 * 2**61),
        ("u64", 0, 2**64), ("int8", -128, 128), ("i64", -3, 4),
    ],
)  # fmt: skip
def test_integers_of_wide_ranges_are_uniform(dtype: str, low: int, high: int, backend: str) -> None:
    draw = rlx.jit(lambda key: rr.randint(key, (40000,), low, high, dtype), backend=backend)
    drawn = [int(x) - low for x in np.asarray(draw(rr.key(1)))]
    assert min(drawn) >= 0
    assert max(drawn) < high - low
    bins = min(high - low, 64)
    counts = np.bincount([x * bins // (high - low) for x in drawn], minlength=bins)
    assert scipy.stats.chisquare(counts).pvalue > 1e-4


def test_products_of_words_are_exact() -> None:
    """The draw is the high word of `bits * span`, with twice the bits of the dtype."""
    for dtype, width, span in (("u32", 32, 10**9 + 7), ("u64", 64, 3 * 2**62 + 12345)):
        keys = rr.split(rr.key(3))
        words = [[int(x) for x in rr.bits(key, (50,), dtype)] for key in keys]
        expected = [((a << width | b) * span) >> (2 * width) for a, b in zip(*words, strict=True)]
        assert [int(x) for x in rr.randint(rr.key(3), (50,), 0, span, dtype)] == expected


def test_rlx_jax_keeps_the_bits_of_jax() -> None:
    drawn = rlx.jax.random.randint(rr.key(0), (40000,), 0, 10**9)
    share = np.mean(np.asarray(drawn) < 2 * 10**8)
    assert 0.22 < share < 0.24, "JAX draws too many small numbers"


BOUNDS = [
    (3, INF), (-INF, -3), (1.5, 1.6), (10, 10.1), (100, INF), (-50, -49.99), (0, INF), (-1, INF),
    (-INF, INF), (5, 30), (1.01, 2), (-1e6, -1), (-0.5, 0.25), (3.9, 4.1),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_truncated_normals_have_their_distribution_in_the_tails(dtype: str) -> None:
    low, high = np.array(BOUNDS).T[..., None]

    def draw(key: Any) -> Any:
        return rr.truncated_normal(key, low, high, (len(BOUNDS), 20000), dtype)

    for bounds, drawn in zip(BOUNDS, rlx.jit(draw, backend="reference")(rr.key(1)), strict=True):
        x = np.asarray(drawn, "f8")
        assert np.isfinite(x).all()
        assert (x.min() > bounds[0], x.max() < bounds[1]) == (True, True), bounds
        fits = scipy.stats.kstest(x, lambda v, b=bounds: scipy.stats.truncnorm.cdf(v, *b))
        assert fits.pvalue > 1e-4, bounds


@pytest.mark.parametrize("dtype", ["f2", "f4"])
@pytest.mark.parametrize("bounds", [(1e4, INF), (-INF, -6e4)])
def test_truncated_normals_beyond_all_digits_are_at_the_bound(
    bounds: tuple[float, float], dtype: str
) -> None:
    drawn = np.asarray(rr.truncated_normal(rr.key(0), *bounds, (100,), dtype))
    bound = np.array(bounds, dtype)[np.isfinite(bounds)]
    assert (np.abs(drawn - bound) <= 2 * np.spacing(np.abs(bound))).all()


@pytest.mark.parametrize("bounds", [(2.0, INF), (2.0, 2.1), (-3.0, -1.5), (0.2, INF), (-1.0, 0.5)])
def test_truncated_normals_have_derivatives_by_their_bounds(bounds: tuple[float, float]) -> None:
    def draw(by: Any) -> Any:
        low, high = (b + by for b in bounds)
        return rr.truncated_normal(rr.key(1), low, high, (5,), "f8")

    run, step = rlx.jit(draw, backend="reference"), 1e-5
    slope = rlx.jit(rlx.jacfwd(draw), backend="reference")(0.0)
    np.testing.assert_allclose(slope, (run(step) - run(-step)) / (2 * step), rtol=1e-6)
