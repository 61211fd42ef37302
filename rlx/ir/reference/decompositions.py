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


@reference(ops.eig)
def eig(a: Array) -> tuple[Array, Array]:
    n = a.shape[-1]
    w, v = np.empty(a.shape[:-1], a.dtype), np.empty(a.shape, a.dtype)
    finite = _finite(a)
    for at in np.ndindex(a.shape[:-2] if n else (0,)):
        slice_ = finite[at]
        found, vectors = np.linalg.eig(slice_ if slice_.imag.any() else slice_.real)
        order = np.argsort(found)
        w[at], v[at] = found[order], vectors[:, order] * _signs(vectors[:, order], -2)
    return _poisoned(a, w), _poisoned(a, v)


@reference(ops.svd)
def svd(a: Array, *, full: bool) -> tuple[Array, Array, Array]:
    u, s, vt = np.linalg.svd(_finite(a), full_matrices=full)
    signs = _signs(vt, -1)
    u[..., : vt.shape[-1]] *= np.swapaxes(np.conj(signs), -1, -2)
    u[..., vt.shape[-1] :] *= _signs(u[..., vt.shape[-1] :], -2)
    return _poisoned(a, u), _poisoned(a, s), _poisoned(a, vt * signs)


def _signs(vectors: Array, axis: int) -> Array:
    """Return what makes the largest component along an axis positive."""
    if vectors.shape[axis] == 0:
        return np.ones([1 if a == axis % vectors.ndim else e for a, e in enumerate(vectors.shape)])
    if np.iscomplexobj(vectors):
        squares = np.abs(vectors) ** 2
        is_large = squares >= squares.max(axis, keepdims=True) * (1 - 2**-10)
        largest = np.argmax(is_large, axis=axis, keepdims=True)
        component = np.take_along_axis(vectors, largest, axis)
        return (np.conj(component) / np.abs(component)).astype(vectors.dtype)
    largest = np.argmax(np.abs(vectors), axis=axis, keepdims=True)
    component = np.take_along_axis(vectors, largest, axis)
    return np.where(component < 0, -1, 1).astype(vectors.dtype)


def _finite(a: Array) -> Array:
    return np.where(np.isfinite(a), a, 0).astype(a.dtype)


def _poisoned(a: Array, result: Array) -> Array:
    bad = ~np.isfinite(a).all(axis=(-1, -2))
    spread = bad.reshape(*bad.shape, *(1,) * (result.ndim - bad.ndim))
    if np.iscomplexobj(result):
        return np.where(spread, complex(np.nan, np.nan), result).astype(a.dtype)
    return np.where(spread, np.nan, result).astype(a.real.dtype)
