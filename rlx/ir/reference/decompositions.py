"""Orthogonal decompositions in NumPy, by LAPACK, with signs as the ops state them."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.reference.real_schur import real_schur
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


@reference(ops.schur)
def schur(a: Array) -> tuple[Array, Array]:
    t, z = np.empty_like(a), np.empty_like(a)
    finite = _finite(a)
    for at in np.ndindex(a.shape[:-2]):
        t[at], z[at] = _triangle(finite[at]) if np.iscomplexobj(a) else _real_form(finite[at])
    return _poisoned(a, t), _poisoned(a, z)


def _real_form(a: Array) -> tuple[Array, Array]:
    """Return the real Schur form of one matrix, with signs as the op states them."""
    t, z = real_schur(a)
    signs = _signs(z, -2)
    return t * signs * signs.T, z * signs


def _triangle(a: Array) -> tuple[Array, Array]:
    """Return the Schur form of one matrix: shifted QR steps, then exchanges of neighbors."""
    t, z = a.astype(np.complex128), np.eye(len(a), dtype=np.complex128)
    for high in range(len(a) - 1, 0, -1):
        for step in range(1, _MOST_STEPS + 1):
            scale = np.abs(t[high, high]) + np.abs(t[high - 1, high - 1])
            if np.abs(t[high, :high]).sum() <= np.finfo(np.float64).eps * (scale or 1.0):
                break
            block = slice(0, high + 1)
            shift = _corner_value(t[high - 1 : high + 1, high - 1 : high + 1])
            shift += np.abs(t[high, :high]).sum() * (step % 10 == 0)  # ends a cycle
            q, _ = np.linalg.qr(t[block, block] - shift * np.eye(high + 1))
            t[block], z[:, block] = q.conj().T @ t[block], z[:, block] @ q
            t[:, block] = t[:, block] @ q
        else:
            return np.full_like(a, np.nan), np.full_like(a, np.nan)
        t[high, :high] = 0
    if len(a) and not a.imag.any():
        _keep_real(t, np.linalg.eigvals(a.real))
    _sort_diagonal(t, z)
    signs = _signs(z, -2)
    turned = np.triu(t) * signs * np.conj(signs).T
    np.fill_diagonal(turned, np.diagonal(t))  # as it is: what is real stays so
    return turned, z * signs


def _keep_real(t: Array, values: Array) -> None:
    """Make those of the diagonal real whose nearest eigenvalue, of a real matrix, is."""
    found = np.diagonal(t)
    nearest = values[np.argmin(np.abs(found[:, None] - values), axis=1)]
    np.fill_diagonal(t, np.where(nearest.imag == 0, found.real, found))


_MOST_STEPS = 300
"""Per eigenvalue; two or three do."""


def _corner_value(block: Array) -> complex:
    """Return the eigenvalue of two rows that is the nearer one to their last entry."""
    values = np.linalg.eigvals(block)
    return complex(values[np.argmin(np.abs(values - block[1, 1]))])


def _sort_diagonal(t: Array, z: Array) -> None:
    """Exchange neighbors until the diagonal ascends by real, then by imaginary parts."""
    for last in range(len(t) - 1, 0, -1):
        for p in range(last):
            first, second = t[p, p], t[p + 1, p + 1]
            if (second.real, second.imag) < (first.real, first.imag):
                vector = np.array([t[p, p + 1], second - first])
                x, y = vector / np.linalg.norm(vector)
                turn = np.array([[x, -np.conj(y)], [y, np.conj(x)]])
                t[p : p + 2] = turn.conj().T @ t[p : p + 2]
                t[:, p : p + 2], z[:, p : p + 2] = t[:, p : p + 2] @ turn, z[:, p : p + 2] @ turn
                t[p, p], t[p + 1, p + 1], t[p + 1, p] = second, first, 0


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
