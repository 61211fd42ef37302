"""Derivatives of linear systems and factorizations: implicit, from the solution found."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.ops.solve import diagonal_of, identity, times, widened
from rlx.ir.types import TensorType
from rlx.passes.algebra import adjoint, conjugate, expand_to, reshape_to, swap_last
from rlx.passes.autodiff.cofactors import cofactors
from rlx.passes.autodiff.registry import Derivatives, Pullback, Pushforward, jvp, vjp

_SMALL = 16
"""Up to this extent the cotangent of a matrix is an elementwise product of two vectors."""


@jvp(ops.solve)
def solve_jvp(
    at: Pushforward, a: Value, b: Value, *, vector: bool, transposed: bool, on_singular: str
) -> Derivatives:
    """a dx = db - da x."""
    da, db = at.tangents
    right = db
    if da is not None:
        moved = times(swap_last(da) if transposed else da, at.result, vector=vector)
        right = -moved if db is None else db - moved
    return ops.solve(a, right, vector=vector, transposed=transposed, on_singular=on_singular)


@vjp(ops.solve)
def solve_vjp(
    at: Pullback, a: Value, b: Value, *, vector: bool, transposed: bool, on_singular: str
) -> Derivatives:
    """The cotangent of b solves the transposed system; that of a is its product with x."""
    g, a, x = at.cotangent, conjugate(a), conjugate(at.result)
    extent = a.shape[-1]
    if all(at.wanted) and vector and isinstance(extent, int) and extent <= _SMALL:
        return ops.solve_backward(a, x, g, transposed=transposed, on_singular=on_singular)
    db = ops.solve(a, g, vector=vector, transposed=not transposed, on_singular=on_singular)
    if not at.wanted[0]:
        return None, db
    columns, solution = (_column(db), _column(x)) if vector else (db, x)
    left, right = (solution, columns) if transposed else (columns, solution)
    return -ops.matmul(left, swap_last(right)), db


def _column(x: Value) -> Value:
    return reshape_to(x, (*x.shape, 1))


@vjp(ops.triangular_solve)
def triangular_solve_vjp(
    at: Pullback,
    a: Value,
    b: Value,
    *,
    lower: bool,
    unit_diagonal: bool,
    transposed: bool,
    left: bool,
    on_singular: str,
) -> Derivatives:
    a, x = conjugate(a), conjugate(at.result)
    db = ops.triangular_solve(
        a, at.cotangent, lower=lower, unit_diagonal=unit_diagonal, transposed=not transposed,
        left=left, on_singular=on_singular,
    )  # fmt: skip
    if not at.wanted[0]:
        return None, db
    # Of t x = b: -db x.T; of x t = b: -x.T db; either one transposed where t is.
    product = ops.matmul(db, swap_last(x)) if left else ops.matmul(swap_last(x), db)
    da = swap_last(product) if transposed else product
    return -_triangle(da, lower=lower, strict=unit_diagonal), db


@jvp(ops.cholesky)
def cholesky_jvp(at: Pushforward, a: Value, *, lower: bool, on_singular: str) -> Derivatives:
    """dl = l half(l**-1 da l**-H), where half keeps the triangle and half of the diagonal."""
    factor = at.result
    strict = _triangle(at.tangent, lower=lower, strict=True)
    da = strict + adjoint(strict) + _diagonal_part(at.tangent)
    first, second = (factor, conjugate(factor)) if lower else (conjugate(factor), factor)
    inner = ops.triangular_solve(first, da, lower=lower, transposed=not lower, on_singular="nan")
    inner = ops.triangular_solve(
        second, inner, lower=lower, transposed=lower, left=False, on_singular="nan"
    )
    strict = _triangle(inner, lower=lower, strict=True)
    half = (strict + _triangle(inner, lower=lower)) * 0.5
    return ops.matmul(factor, half) if lower else ops.matmul(half, factor)


@jvp(ops.lu)
def lu_jvp(at: Pushforward, a: Value) -> Derivatives:
    factors, _, permutation = at.results
    return _moved_factors(factors, permutation, at.tangent), None, None


@jvp(ops.rectangular_lu)
def rectangular_lu_jvp(at: Pushforward, a: Value) -> Derivatives:
    """As of square matrices, with the identity where the padding of `a` left no pivots."""
    factors, _, permutation = at.results
    rows, columns = a.type.with_shape(a.shape[-2:]).static_shape
    square = widened(factors)
    row, column = (a.graph.iota(type=TensorType(DType.I64, square.shape[-2:]), axis=axis)
                   for axis in (0, 1))  # fmt: skip
    past = ops.logical_and(ops.eq(row, column), ops.ge(row, min(rows, columns)))
    square = ops.where(past, a.graph.constant(1, a.dtype), square)
    order = permutation
    if rows < columns:
        padding = a.graph.iota(type=TensorType(DType.I32, (columns - rows,))) + rows
        shape = (*permutation.shape[:-1], columns - rows)
        order = ops.concat(permutation, expand_to(padding, shape), axis=-1)
    found = _moved_factors(square, order, widened(at.tangent))
    for axis, length in ((-2, rows), (-1, columns)):
        found = ops.narrow(found, axis=axis, start=0, length=length)
    return found, None, None


def _moved_factors(factors: Value, permutation: Value, da: Value) -> Value:
    """With x = l**-1 p da u**-1: dl is l by the strict lower part of x, du the rest of x by u."""
    count = da.shape[-1]
    columns = da.graph.iota(type=TensorType(DType.I32, (count,)))
    moved = ops.eq(reshape_to(permutation, (*permutation.shape, 1)), columns)
    x = ops.matmul(ops.cast(moved, to=da.dtype), da)
    x = ops.triangular_solve(factors, x, unit_diagonal=True)
    x = ops.triangular_solve(factors, x, lower=False, left=False, on_singular="nan")
    left = _triangle(factors, lower=True, strict=True) + expand_to(identity(da), da.shape)
    below = ops.matmul(left, _triangle(x, lower=True, strict=True))
    above = ops.matmul(_triangle(x, lower=False), _triangle(factors, lower=False))
    found: Value = below + above
    return found


@jvp(ops.det)
def det_jvp(at: Pushforward, a: Value) -> Derivatives:
    return ops.reduce_sum(cofactors(a, at.result) * at.tangent, axes=(-2, -1))


@jvp(ops.slogdet)
def slogdet_jvp(at: Pushforward, a: Value) -> Derivatives:
    """Of a complex determinant, the real part of the trace grows it and the other one turns it."""
    quotient = ops.solve(a, at.tangent, on_singular="nan")
    trace = ops.reduce_sum(diagonal_of(quotient), axes=(-1,))
    if not a.dtype.is_complex:
        return None, trace
    return at.results[0] * _imaginary(ops.imag(trace)), ops.real(trace)


def _imaginary(x: Value) -> Value:
    """Return `i * x`."""
    found: Value = ops.complex(x * 0.0, x)
    return found


def _diagonal_part(x: Value) -> Value:
    """Keep the real parts of the diagonal of each matrix."""
    square = TensorType(DType.I64, x.shape[-2:])
    rows, columns = (x.graph.iota(type=square, axis=axis) for axis in (0, 1))
    kept = ops.where(ops.eq(rows, columns), x, x.graph.constant(0, x.dtype))
    found: Value = (kept + conjugate(kept)) * 0.5 if x.dtype.is_complex else kept
    return found


def _triangle(x: Value, *, lower: bool, strict: bool = False) -> Value:
    """Keep a triangle of each matrix, without its diagonal if `strict`."""
    square = TensorType(DType.I64, x.shape[-2:])
    rows, columns = (x.graph.iota(type=square, axis=axis) for axis in (0, 1))
    inner, outer = (columns, rows) if lower else (rows, columns)
    kept = ops.lt(inner, outer) if strict else ops.le(inner, outer)
    zero = x.graph.constant(0, x.dtype)
    return ops.where(kept, x, zero)
