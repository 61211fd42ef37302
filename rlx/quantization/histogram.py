"""Histograms of the magnitudes of an activation, and the scale that follows from them."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from rlx.errors import InputError
from rlx.quantization.requirements import require_number

Array = NDArray[Any]
Method = Literal["max", "percentile", "entropy"]
BINS = 2048
LEVELS = 128
"""Magnitudes that i8 has, without its lowest integer."""
SMALLEST_SCALE = 1e-6


def require_range(method: Method, percentile: float) -> None:
    """Raise InputError unless a range can follow from a histogram in this way."""
    if method not in get_args(Method):
        raise InputError(f"method is {method!r}", remedy="use 'max', 'percentile' or 'entropy'")
    require_number("percentile", percentile, "a number above 0, up to 100")
    if not 0 < percentile <= 100:
        raise InputError(f"percentile is {percentile}", remedy="give a number above 0, up to 100")


class Histogram:
    """Counts of magnitudes in equal bins; the range doubles when a larger one comes."""

    def __init__(self) -> None:
        self.counts = np.zeros(BINS, np.int64)
        self.limit = 0.0
        self.largest = 0.0

    def add(self, x: Array) -> None:
        """Count the magnitudes of `x`; NaN and infinities are an error."""
        magnitudes = np.abs(np.asarray(x, np.float32)).ravel()
        if not magnitudes.size:
            return
        largest = float(magnitudes.max())
        if not np.isfinite(largest):
            raise InputError(
                "an activation is not finite", remedy="leave such inputs out of the calibration set"
            )
        self.largest = max(self.largest, largest)
        if self.limit == 0.0:
            self.limit = largest
        while 0.0 < self.limit < largest:
            pairs = self.counts.reshape(-1, 2).sum(1)
            self.counts = np.concatenate([pairs, np.zeros(BINS // 2, np.int64)])
            self.limit *= 2.0
        places = np.minimum(magnitudes / (self.limit or 1.0) * BINS, BINS - 1)
        self.counts += np.bincount(places.astype(np.int64), minlength=BINS)

    def scale(self, method: Method = "max", percentile: float = 99.99) -> float:
        """Return the scale by which codes of i8 are multiplied."""
        require_range(method, percentile)
        return max(self._clipped(method, percentile) / (LEVELS - 1), SMALLEST_SCALE)

    def _clipped(self, method: Method, percentile: float) -> float:
        if method == "max" or not self.counts.any():
            return self.largest
        if method == "percentile":
            share = np.cumsum(self.counts) / self.counts.sum()
            bin_ = int(np.searchsorted(share, percentile / 100.0))
            return min((bin_ + 1) * self.limit / BINS, self.largest)
        return self._least_divergence()

    def _least_divergence(self) -> float:
        """Return the range whose quantized distribution is closest to the one counted.

        Kullback-Leibler divergence over ranges; Migacz, 8-bit Inference with TensorRT (2017).
        """
        counts = self.counts.copy()
        counts[0] = counts[1]  # zeros, of which there are many after relu, are exact in any range
        if not counts.any():
            return self.largest
        tried = range(LEVELS, BINS + 1, 16)
        best = min(tried, key=lambda bins: _divergence(counts, bins))
        return min(best * self.limit / BINS, self.largest)


def _divergence(counts: Array, bins: int) -> float:
    """Return how far `counts` is from itself with the first `bins` in `LEVELS` steps."""
    kept = counts[:bins].astype(np.float64)
    kept[-1] += counts[bins:].sum()  # what is beyond the range saturates
    level = np.arange(bins) * LEVELS // bins
    inside = counts[:bins] > 0
    totals = np.bincount(level, counts[:bins], LEVELS)
    occupied = np.bincount(level, inside, LEVELS)
    spread = np.where(inside, (totals / np.maximum(occupied, 1))[level], 0.0)
    p, q = kept / kept.sum(), spread / max(spread.sum(), 1e-300)
    seen = p > 0
    return float(np.sum(p[seen] * np.log(p[seen] / np.maximum(q[seen], 1e-12))))
