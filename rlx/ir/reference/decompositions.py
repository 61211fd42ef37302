"""Orthogonal decompositions in NumPy, by LAPACK, with signs as the ops state them."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.reference.registry import Array, reference


@reference(ops.qr)
def qr(a: Array, *, full: bool) -> tuple[Array, Array]:
    q, r = np.linalg.qr(_finite(a), "complete" if full else "reduced")
    return _poisoned(a, q), _poisoned(a, r)


@reference(ops.eigh)
def eigh(a: Array) -> tuple[Array, Array]:
    w, v = np.linalg.eigh(_finite(a), "L")
    lower = np.tril(a)
    return _poisoned(lower, w), _poisoned(lower, v * _signs(v, -2))


@reference(ops.svd)
def svd(a: Array, *, full: bool) -> tuple[Array, Array, Array]:
    u, s, vt = np.linalg.svd(_finite(a), full_matrices=full)
    signs = _signs(vt, -1)
    u[..., : vt.shape[-1]] *= np.swapaxes(signs, -1, -2)
    u[..., vt.shape[-1] :] *= _signs(u[..., vt.shape[-1] :], -2)
    return _poisoned(a, u), _poisoned(a, s), _poisoned(a, vt * signs)


def _signs(vectors: Array, axis: int) -> Array:
    """Return the sign of the largest component along an axis."""
    if vectors.shape[axis] == 0:
        return np.ones([1 if a == axis % vectors.ndim else e for a, e in enumerate(vectors.shape)])
    largest = np.argmax(np.abs(vectors), axis=axis, keepdims=True)
    component = np.take_along_axis(vectors, largest, axis)
    return np.where(component < 0, -1, 1).astype(vectors.dtype)


def _finite(a: Array) -> Array:
    return np.where(np.isfinite(a), a, 0).astype(a.dtype)


def _poisoned(a: Array, result: Array) -> Array:
    bad = ~np.isfinite(a).all(axis=(-1, -2))
    spread = bad.reshape(*bad.shape, *(1,) * (result.ndim - bad.ndim))
    return np.where(spread, np.nan, result).astype(a.dtype)
