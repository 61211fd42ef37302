"""Normalization in NumPy, in two passes."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.reference.registry import Array, reference


@reference(ops.layer_norm)
def layer_norm(x: Array, gamma: Array, beta: Array, *, axis: int, eps: float) -> Array:
    rows = np.moveaxis(x, axis, -1)
    centered = rows - np.mean(rows, axis=-1, keepdims=True)
    variance = np.mean(np.square(centered), axis=-1, keepdims=True)
    result = centered / np.sqrt(variance + x.dtype.type(eps)) * gamma + beta
    return np.moveaxis(result, -1, axis)


@reference(ops.rms_norm)
def rms_norm(x: Array, gamma: Array, beta: Array | None = None, *, axis: int, eps: float) -> Array:
    rows = np.moveaxis(x, axis, -1)
    mean_square = np.mean(np.square(rows), axis=-1, keepdims=True)
    result = rows / np.sqrt(mean_square + x.dtype.type(eps)) * gamma
    return np.moveaxis(result if beta is None else result + beta, -1, axis)
