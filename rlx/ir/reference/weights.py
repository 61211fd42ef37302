"""The weight of a score, as softmax and attention take it."""

from __future__ import annotations

import numpy as np

from rlx.ir.reference.registry import Array

_LEAST = {np.dtype(np.float32): -87.0, np.dtype(np.float64): -708.0}
"""Below these kernels give 0: just above where the exponential is no normal number."""


def weight(shifted: Array) -> Array:
    """Return `exp(shifted)` of scores less their maximum; 0 below the least that kernels take."""
    weights = np.exp(shifted)
    return np.where(shifted < _LEAST[weights.dtype], weights.dtype.type(0), weights)
