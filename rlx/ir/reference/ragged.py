"""Ragged products in NumPy: one product for each group."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from rlx.ir import ops
from rlx.ir.reference.registry import Array, reference


@reference(ops.ragged_matmul)
def ragged_matmul(x: Array, w: Array, bounds: Array) -> Array:
    y = np.zeros((x.shape[0], w.shape[2]), x.dtype)
    for group, rows in enumerate(_groups(bounds, x)):
        y[rows] = x[rows] @ w[group]
    return y


@reference(ops.ragged_outer)
def ragged_outer(x: Array, y: Array, bounds: Array) -> Array:
    products = [x[rows].T @ y[rows] for rows in _groups(bounds, x)]
    return np.array(products, x.dtype).reshape(len(bounds) - 1, x.shape[1], y.shape[1])


def _groups(bounds: Array, x: Array) -> Iterator[slice]:
    ends = np.clip(bounds, 0, x.shape[0])
    for first, stop in itertools.pairwise(ends):
        yield slice(int(first), int(stop))
