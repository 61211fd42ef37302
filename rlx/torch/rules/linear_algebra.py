"""Factorizations and solutions of linear systems."""

from __future__ import annotations

from typing import Any

import rlx
import rlx.numpy as rnp
from rlx import lax
from rlx.errors import UnsupportedError
from rlx.numpy import linalg
from rlx.torch.registry import Memory, enter, rule

enter({
    "linalg_eigvals _linalg_eigvals": linalg.eigvals,
    "linalg_householder_product orgqr": lax.linalg.householder_product,
})  # fmt: skip


def _no_fault(x: Any, axes: int) -> Any:
    """Return LAPACK's code of success, for each matrix."""
    return rnp.zeros(x.shape[: x.ndim - axes], "i32")


@rule("linalg_cholesky_ex", "linalg_cholesky_ex.default")
def cholesky_ex(x: Any, *, upper: bool = False, check_errors: bool = False) -> tuple[Any, Any]:
    del check_errors
    factor = linalg.cholesky(x)
    return (_adjoint(factor) if upper else factor), _no_fault(x, 2)


@rule("cholesky", "linalg_cholesky")
def cholesky(x: Any, upper: bool = False) -> Any:
    return cholesky_ex(x, upper=upper)[0]


def _adjoint(x: Any) -> Any:
    return rnp.conj(rnp.swapaxes(x, -1, -2))


@rule("cholesky_solve")
def cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Any:
    lower = _adjoint(factor) if upper else factor
    half = _triangular(lower, b, upper=False)
    return _triangular(_adjoint(lower), half, upper=True)


@rule("cholesky_inverse")
def cholesky_inverse(factor: Any, upper: bool = False) -> Any:
    return cholesky_solve(
        rnp.broadcast_to(rnp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape), factor, upper
    )


def _triangular(a: Any, b: Any, *, upper: bool, unit: bool = False) -> Any:
    batch = rnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = rnp.broadcast_to(a, (*batch, *a.shape[-2:]))
    b = rnp.broadcast_to(b, (*batch, *b.shape[-2:]))
    return lax.linalg.triangular_solve(a, b, left_side=True, lower=not upper, unit_diagonal=unit)


@rule("linalg_solve_triangular")
def solve_triangular(
    a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    if left:
        return _triangular(a, b, upper=upper, unit=unitriangular)
    turned = _triangular(
        rnp.swapaxes(a, -1, -2), rnp.swapaxes(b, -1, -2), upper=not upper, unit=unitriangular
    )
    return rnp.swapaxes(turned, -1, -2)


@rule("triangular_solve")
def triangular_solve(
    b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Any, Any]:
    matrix = rnp.swapaxes(a, -1, -2) if transpose else a
    found = _triangular(matrix, b, upper=upper != transpose, unit=unitriangular)
    return found, rnp.broadcast_to(a, (*found.shape[:-2], *a.shape[-2:]))


@rule("linalg_inv_ex")
def inv_ex(x: Any, *, check_errors: bool = False) -> tuple[Any, Any]:
    del check_errors
    return linalg.inv(x), _no_fault(x, 2)


@rule("_linalg_solve_ex")
def solve_ex(
    a: Any, b: Any, *, left: bool = True, check_errors: bool = False
) -> tuple[Any, Any, Any, Any]:
    del check_errors
    packed, pivots, _ = lax.linalg.lu(a)
    is_vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    columns = rnp.expand_dims(b, -1) if is_vector else b
    if left:
        found = linalg.solve(a, columns)
    else:
        turned = linalg.solve(rnp.swapaxes(a, -1, -2), rnp.swapaxes(columns, -1, -2))
        found = rnp.swapaxes(turned, -1, -2)
    found = rnp.squeeze(found, -1) if is_vector else found
    return found, packed, pivots.astype("i32") + 1, _no_fault(a, 2)


def _factors(x: Any, memory: Memory) -> tuple[Any, Any]:
    """Return LU and pivots; PyTorch factors the transpose of real matrices that are dense."""
    is_transposed = memory.is_row_major(x.shape) and not x.value.dtype.is_complex
    packed, pivots, _ = lax.linalg.lu(rnp.swapaxes(x, -1, -2) if is_transposed else x)
    return packed, pivots


@rule("_linalg_det", strides=True)
def det(x: Any, *, memory: Memory) -> tuple[Any, Any, Any]:
    packed, pivots = _factors(x, memory)
    return linalg.det(x), packed, pivots.astype("i32") + 1


@rule("_linalg_slogdet", strides=True)
def slogdet(x: Any, *, memory: Memory) -> tuple[Any, Any, Any, Any]:
    packed, pivots = _factors(x, memory)
    sign, size = linalg.slogdet(x)
    return sign, size, packed, pivots.astype("i32") + 1


@rule("linalg_lu_factor_ex")
def lu_factor_ex(x: Any, *, pivot: bool = True, check_errors: bool = False) -> tuple[Any, Any, Any]:
    del check_errors
    _require_pivots(pivot)
    packed, pivots, _ = lax.linalg.lu(x)
    return packed, pivots.astype("i32") + 1, _no_fault(x, 2)


def _require_pivots(pivot: bool) -> None:
    if not pivot:
        raise UnsupportedError("LU without pivots is not supported", remedy="use pivot=True")


@rule("linalg_lu")
def lu(x: Any, *, pivot: bool = True) -> tuple[Any, Any, Any]:
    _require_pivots(pivot)
    packed, _, order = lax.linalg.lu(x)
    return (_permutation(order, x), *_unpacked(packed))


def _unpacked(packed: Any) -> tuple[Any, Any]:
    rows, columns = packed.shape[-2:]
    least = min(rows, columns)
    lower = rnp.tril(packed, -1)[..., :, :least] + rnp.eye(rows, least, dtype=packed.dtype)
    return lower, rnp.triu(packed)[..., :least, :]


def _permutation(order: Any, like: Any) -> Any:
    """Return the matrix P for which `P @ L @ U` is the factored one."""
    count = order.shape[-1]
    chosen = rnp.equal(rnp.expand_dims(rnp.arange(count), -1), rnp.expand_dims(order, -2))
    return chosen.astype(like.value.dtype)


def _order_of(pivots: Any, rows: int) -> Any:
    """Return the order of rows that exchanges give; PyTorch counts them from 1."""
    order = rnp.broadcast_to(rnp.arange(rows), (*pivots.shape[:-1], rows))
    for step in range(pivots.shape[-1]):
        other = rnp.expand_dims(pivots[..., step].astype("i64") - 1, -1)
        moved = rnp.take_along_axis(order, other, -1)
        own = order[..., step : step + 1]
        places = rnp.arange(rows)
        order = rnp.where(rnp.equal(places, other), own, order)
        order = rnp.where(rnp.equal(places, step), moved, order)
    return order


@rule("lu_unpack")
def lu_unpack(
    packed: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Any, Any, Any]:
    none = rnp.zeros((0,), packed.value.dtype)
    lower, upper = _unpacked(packed) if unpack_data else (none, none)
    order = _order_of(pivots, packed.shape[-2])
    return (_permutation(order, packed) if unpack_pivots else none), lower, upper


@rule("linalg_lu_solve")
def lu_solve(packed: Any, pivots: Any, b: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    if not left:
        turned = lu_solve(packed, pivots, _adjoint(b), left=True, adjoint=not adjoint)
        return _adjoint(turned)
    order = _order_of(pivots, packed.shape[-2])
    place = _permutation(order, packed)
    if not adjoint:
        moved = rnp.matmul(rnp.swapaxes(place, -1, -2), b)
        half = _triangular(packed, moved, upper=False, unit=True)
        return _triangular(packed, half, upper=True)
    half = _triangular(_adjoint(packed), b, upper=False)
    return rnp.matmul(place, _triangular(_adjoint(packed), half, upper=True, unit=True))


@rule("linalg_qr", "qr")
def qr(x: Any, mode: str = "reduced") -> tuple[Any, Any]:
    if mode == "r":
        return rnp.zeros((0,), x.value.dtype), linalg.qr(x, mode="r")
    q, r = linalg.qr(x, mode=mode)
    return q, r


@rule("_linalg_svd")
def svd(
    x: Any, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None
) -> tuple[Any, Any, Any]:
    del driver
    if not compute_uv:
        none = rnp.zeros((0,), x.value.dtype)
        return none, linalg.svd(x, compute_uv=False), none
    u, s, v = linalg.svd(x, full_matrices=full_matrices)
    return u, s, v


@rule("_linalg_eigh")
def eigh(x: Any, triangle: str = "L", compute_v: bool = True) -> tuple[Any, Any]:
    values, vectors = linalg.eigh(x, UPLO=triangle)
    return values, vectors if compute_v else rnp.zeros((0,), x.value.dtype)


@rule("linalg_eig")
def eig(x: Any) -> tuple[Any, Any]:
    values, vectors = linalg.eig(x)
    return values, vectors


@rule("linalg_matrix_exp", "matrix_exp")
def matrix_exp(x: Any) -> Any:
    return linalg.expm(x) if x.size else x


@rule("linalg_pinv.atol_rtol_tensor", "linalg_pinv.atol_rtol_float", typed=True)
def pinv(
    result: Any, x: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False
) -> Any:
    """By singular values above the larger of `atol` and `rtol` times the largest."""
    if hermitian:  # the lower triangle alone is read
        x = rnp.tril(x) + _adjoint(rnp.tril(x, -1))
    if 0 in x.shape:
        return rnp.zeros(result.shape, result.dtype)
    u, s, v = linalg.svd(x, full_matrices=False)
    eps = float(rnp.finfo(x.value.dtype.part.numpy).eps)
    default = max(x.shape[-2:]) * eps if atol is None else 0.0
    relative = default if rtol is None else rtol
    largest = s[..., :1]
    limit = rnp.maximum(_column(atol, 0.0), _column(relative, 0.0) * largest)
    inverse = rnp.where(rnp.greater(s, limit), 1 / rnp.where(rnp.equal(s, 0), 1, s), 0)
    scaled = _adjoint(v) * rnp.expand_dims(inverse, -2).astype(x.dtype)
    return rnp.matmul(scaled, _adjoint(u))


def _column(x: Any, default: float) -> Any:
    if x is None:
        return default
    return rnp.expand_dims(x, -1) if hasattr(x, "ndim") else x


@rule("ormqr")
def ormqr(x: Any, factors: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    return lax.linalg.ormqr(x, factors, other, left=left, transpose=transpose)


@rule("geqrf")
def geqrf(x: Any) -> tuple[Any, Any]:
    """R, the vectors of Householder's reflections below it, and their factors; of real matrices."""
    rows, columns = rnp.arange(x.shape[-2]), rnp.arange(x.shape[-1])
    count = min(x.shape[-2:])
    places = rnp.arange(count)

    def reflect(step: Any, state: Any) -> Any:
        matrix, factors = state
        column = rnp.take(matrix, step, -1)
        head = rnp.expand_dims(rnp.take(column, step, -1), -1)
        is_below, is_head = rnp.greater(rows, step), rnp.equal(rows, step)
        rest = rnp.sum(rnp.square(rnp.where(is_below, column, 0)), -1, keepdims=True)
        is_done = rnp.equal(rest, 0)
        end = rnp.where(is_done, head, -rnp.copysign(rnp.sqrt(head * head + rest), head))
        factor = rnp.where(is_done, 0, (end - head) / rnp.where(is_done, 1, end))
        tail = column / rnp.where(is_done, 1, head - end)
        vector = rnp.where(is_head, 1, rnp.where(rnp.logical_and(is_below, ~is_done), tail, 0))
        own = rnp.where(is_head, end, rnp.where(is_below, vector, column))
        products = rnp.matmul(rnp.expand_dims(vector, -2), matrix) * rnp.expand_dims(factor, -1)
        moved = matrix - rnp.expand_dims(vector, -1) * products
        kept = rnp.where(rnp.greater(columns, step), moved, matrix)
        matrix = rnp.where(rnp.equal(columns, step), rnp.expand_dims(own, -1), kept)
        return matrix, rnp.where(rnp.equal(places, step), factor, factors)

    if x.value.dtype.is_complex:
        raise UnsupportedError("geqrf of complex matrices is not supported", remedy="use qr")
    start = (x, rnp.zeros((*x.shape[:-2], count), x.value.dtype))
    found: tuple[Any, Any] = rlx.fori_loop(0, count, reflect, start)
    return found
