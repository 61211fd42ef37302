"""Derivatives of orthogonal decompositions, from their results.

The vectors of equal eigenvalues or singular values have no derivatives: what is computed from them
one by one has none that is finite. Products of vectors with their own numbers, which have
derivatives, are found before (`spectral_functions`).
"""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.ops.solve import diagonal_of
from rlx.ir.types import TensorType
from rlx.passes.algebra import adjoint, reshape_to, swap_last
from rlx.passes.autodiff.errors import NonDifferentiableError
from rlx.passes.autodiff.registry import Derivatives, Pushforward, jvp, nondifferentiable

nondifferentiable(ops.schur, because="equal eigenvalues have many triangles")


@jvp(ops.qr)
def qr_jvp(at: Pushforward, a: Value, *, full: bool) -> Derivatives:
    """q turns by the antisymmetric part of `q.H da r^-1`; r takes what is left.

    Of a matrix with more columns than rows, the first ones determine q. The diagonal of r stays
    real. Further columns of a full q are those of the product of reflections.
    """
    whole, r = at.results
    rows, columns = a.type.with_shape(a.shape[-2:]).static_shape
    da, inner = at.tangent, min(rows, columns)
    q = ops.narrow(whole, axis=-1, start=0, length=inner)
    r = ops.narrow(r, axis=-2, start=0, length=inner)
    first = ops.narrow(da, axis=-1, start=0, length=inner)
    square = ops.narrow(r, axis=-1, start=0, length=inner)
    moved = ops.triangular_solve(square, first, lower=False, left=False, on_singular="nan")
    inside = ops.matmul(adjoint(q), moved)
    below = ops.where(_below(at.graph, inner), inside, 0.0)
    turn = below - adjoint(below)
    if a.dtype.is_complex:
        turn = turn + ops.where(diagonal_mask(at.graph, inner), _imaginary(ops.imag(inside)), 0.0)
    dq = ops.matmul(q, turn - inside) + moved
    dr = ops.matmul(adjoint(q), da) - ops.matmul(turn, r)
    dr = ops.where(_below(at.graph, inner, columns), 0.0, dr)
    if not full or rows <= columns:
        return dq, dr
    dq = ops.concat(dq, _further_columns(q, dq), axis=-1)
    return dq, ops.pad(dr, low=(0,) * a.rank, high=(*(0,) * (a.rank - 2), rows - columns, 0))


def _further_columns(q: Value, dq: Value) -> Value:
    """Return how the last columns of a product of reflections move, from its first ones.

    The product is I + w v.H, where v = [v1, v2] has as many columns as q. With e the first columns
    of I, q - e = w v1.H, so the last columns are those of I, plus (q - e) z.H for z = v2 v1^-1,
    which is also the quotient of the lower and upper rows of q - e.
    """
    rows, columns = q.type.with_shape(q.shape[-2:]).static_shape
    row, column = _numbers(q.graph, rows, columns)
    less = q - ops.cast(ops.eq(row, column), to=q.dtype)
    over, under, dover, dunder = (
        ops.narrow(x, axis=-2, start=start, length=length)
        for x in (less, dq)
        for start, length in ((0, columns), (columns, rows - columns))
    )
    z = adjoint(ops.solve(adjoint(over), adjoint(under), on_singular="nan"))
    dz = ops.solve(adjoint(over), adjoint(dunder - ops.matmul(z, dover)), on_singular="nan")
    moved: Value = ops.matmul(dq, adjoint(z)) + ops.matmul(less, dz)
    return moved


@jvp(ops.eigh)
def eigh_jvp(at: Pushforward, a: Value) -> Derivatives:
    """In the basis of the eigenvectors, the diagonal moves the values and the rest the vectors."""
    w, v = at.results
    across = ops.matmul(symmetric_tangent(at.graph, at.tangent), v)
    moved, gaps = ops.matmul(adjoint(v), across), _gaps(at.graph, _difference(w))
    if not a.dtype.is_complex:
        return _dots(v, across), ops.matmul(v, moved * gaps)
    turned = ops.matmul(v, moved * _complex(gaps))
    return ops.real(diagonal_of(moved)), turned - v * _imaginary(_spin(at.graph, v, turned))


def symmetric_tangent(graph: Graph, tangent: Value) -> Value:
    """Return the change of the matrix of which `eigh` reads the lower triangle."""
    n, _ = tangent.type.with_shape(tangent.shape[-2:]).static_shape
    lower = ops.where(_below(graph, n), tangent, 0.0)
    on = ops.where(diagonal_mask(graph, n), tangent, 0.0)
    return lower + adjoint(lower) + (_complex(ops.real(on)) if on.dtype.is_complex else on)


def _dots(v: Value, across: Value) -> Value:
    """Return the diagonal of `v.T across`, whose transpose has no diagonal matrix."""
    found: Value = ops.reduce_sum(v * across, axes=(-2,))
    return found


@jvp(ops.eig)
def eig_jvp(at: Pushforward, a: Value) -> Derivatives:
    """As for `eigh`, in a basis that is not orthogonal; vectors keep their norm and phase."""
    w, v = at.results
    moved = ops.solve(v, ops.matmul(at.tangent, v), on_singular="nan")
    turned = ops.matmul(v, moved * _gaps(at.graph, row_of(w) - column_of(w)))
    longer = ops.reduce_sum(ops.real(ops.conj(v) * turned), axes=(-2,), keepdims=True)
    return diagonal_of(moved), turned - v * ops.complex(longer, _spin(at.graph, v, turned))


def _spin(graph: Graph, v: Value, turned: Value) -> Value:
    """Return how fast vectors leave the direction that is fixed, if they change by `turned`."""
    is_fixed = _is_positive_component(graph, v)
    fixed, spun = (
        ops.reduce_sum(ops.where(is_fixed, part, 0.0), axes=(-2,), keepdims=True)
        for part in (ops.real(v), ops.imag(turned))
    )
    speed: Value = spun / fixed
    return speed


def _is_positive_component(graph: Graph, v: Value) -> Value:
    """True for the component of each complex vector that is made positive."""
    squares = ops.complex_norm_sq(v)
    n, _ = v.type.with_shape(v.shape[-2:]).static_shape
    if not n:
        return ops.eq(squares, squares)
    most = ops.reduce_max(squares, axes=(-2,), keepdims=True)
    is_large = ops.cast(ops.ge(squares, most * (1.0 - 2.0**-10)), to=DType.I32)
    rows = graph.iota(type=TensorType(DType.I64, (n, 1)), axis=0)
    first = ops.cast(ops.argmax(is_large, axis=-2), to=DType.I64)
    return ops.eq(rows, row_of(first))


@jvp(ops.svd)
def svd_jvp(at: Pushforward, a: Value, *, full: bool) -> Derivatives:
    """As for eigenvalues, of `a.H a` and `a a.H`; what u's columns do not span adds to it."""
    u, s, vt = at.results
    _require_reduced(a, full=full)
    rows, columns = a.type.with_shape(a.shape[-2:]).static_shape
    v = adjoint(vt)
    across = ops.matmul(at.tangent, v)
    inside = ops.matmul(adjoint(u), across)
    sizes = _complex(s) if a.dtype.is_complex else s
    scale = _gaps(at.graph, _difference(s) * _difference(s, 1.0))
    scale = _complex(scale) if a.dtype.is_complex else scale
    right, left = inside * row_of(sizes), inside * column_of(sizes)
    du = ops.matmul(u, scale * (right + adjoint(right)))
    dv = ops.matmul(v, scale * (left + adjoint(left)))
    if rows > columns:
        du = du + (across - ops.matmul(u, inside)) / row_of(sizes)
    if not a.dtype.is_complex:
        return du, _dots(u, across), swap_last(dv)
    spin, on = _spin(at.graph, v, dv), diagonal_of(inside)
    du = du + u * _imaginary(row_of(ops.imag(on) / s) - spin)
    return du, ops.real(on), adjoint(dv - v * _imaginary(spin))


def _complex(x: Value) -> Value:
    found: Value = ops.complex(x, x * 0.0)
    return found


def _imaginary(x: Value) -> Value:
    """Return `i * x`."""
    found: Value = ops.complex(x * 0.0, x)
    return found


def _require_reduced(a: Value, *, full: bool) -> None:
    rows, columns = a.type.with_shape(a.shape[-2:]).static_shape
    if full and rows > columns:
        raise NonDifferentiableError(
            f"svd of {a.type} with all columns has no derivative: those that the matrix does "
            "not determine are arbitrary",
            source=a.node.source,
            remedy="use the reduced form",
        )


def _gaps(graph: Graph, x: Value) -> Value:
    """Return `1 / x` off the diagonal, infinite for equal values, and 0 on it."""
    n, _ = x.type.with_shape(x.shape[-2:]).static_shape
    on = diagonal_mask(graph, n)
    found: Value = ops.where(on, 0.0, 1.0 / ops.where(on, 1.0, x))
    return found


def _difference(w: Value, sign: float = -1.0) -> Value:
    """Return `w_j + sign w_i`, 0 where it is within the rounding of a decomposition."""
    return resolved(row_of(w) + sign * column_of(w), row_of(rounding_of(w)))


def resolved(x: Value, rounding: Value) -> Value:
    found: Value = ops.where(ops.le(ops.abs(x), rounding), 0.0, x)
    return found


def rounding_of(w: Value) -> Value:
    """Return the error that eigenvalues or singular values have, for each matrix."""
    n = w.type.with_shape(w.shape[-1:]).static_shape[0]
    largest = ops.reduce_max(ops.abs(ops.stop_gradient(w)), axes=(-1,), keepdims=True)
    found: Value = 4.0 * n * float(np.finfo(w.dtype.numpy).eps) * largest
    return found


def row_of(x: Value) -> Value:
    return reshape_to(x, (*x.shape[:-1], 1, x.shape[-1]))


def column_of(x: Value) -> Value:
    return reshape_to(x, (*x.shape, 1))


def _numbers(graph: Graph, rows: int, columns: int) -> tuple[Value, Value]:
    return (
        graph.iota(type=TensorType(DType.I64, (rows, 1)), axis=0),
        graph.iota(type=TensorType(DType.I64, (columns,))),
    )


def _below(graph: Graph, rows: int, columns: int | None = None) -> Value:
    row, column = _numbers(graph, rows, rows if columns is None else columns)
    return ops.gt(row, column)


def diagonal_mask(graph: Graph, n: int) -> Value:
    return ops.eq(*_numbers(graph, n, n))
