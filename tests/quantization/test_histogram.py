"""Ranges that follow from what was seen."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.errors import InputError
from rlx.quantization import Histogram


def seen(*batches: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Histogram:
    histogram = Histogram()
    for batch in batches:
        histogram.add(batch)
    return histogram


def test_the_maximum_over_all_batches() -> None:
    batches = ([-3, 1, -2, 0.5], [-7, 0, -7, -2], [10, 0, 0, 5])
    histogram = seen(*map(np.array, batches))
    assert histogram.largest == 10
    np.testing.assert_allclose(histogram.scale(), 10 / 127, rtol=1e-6)


def test_nothing_but_zeros_has_the_smallest_scale() -> None:
    assert seen(np.zeros(4)).scale("max") == 1e-6
    assert seen(np.zeros(4)).scale("entropy") == 1e-6


def test_counts_stay_when_the_range_grows() -> None:
    x = np.random.default_rng(0).normal(size=10_000)
    grown = seen(np.array([1e-3]), x)
    assert grown.counts.sum() == 10_001
    assert abs(grown.scale("percentile", 99.0) * 127 - np.quantile(np.abs(x), 0.99)) < 0.05


@pytest.mark.parametrize("method", ["percentile", "entropy"])
def test_an_outlier_does_not_stretch_the_range(method: str) -> None:
    x = np.random.default_rng(0).normal(size=100_000)
    x[0] = 1000.0
    assert seen(x).scale(method, 99.9) * 127 < 100.0  # type: ignore[arg-type]


def test_entropy_keeps_what_is_even() -> None:
    x = np.linspace(0.0, 1.0, 100_000)
    assert 0.9 < seen(x).scale("entropy") * 127 <= 1.0


def test_what_is_not_finite_is_an_error() -> None:
    with pytest.raises(InputError, match="is not finite"):
        seen(np.array([1.0, np.inf]))


def test_a_percentile_beyond_the_whole_is_refused() -> None:
    for percentile in (0.0, 120.0):
        with pytest.raises(InputError, match="percentile is"):
            seen(np.arange(9.0)).scale("percentile", percentile)
