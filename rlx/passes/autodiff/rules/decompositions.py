"""Derivatives of orthogonal decompositions, from their results.

The vectors of equal eigenvalues or singular values have no derivatives: here they do not turn into
each other, so that nothing becomes NaN.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.ops.solve import diagonal_of
from rlx.ir.types import TensorType
from rlx.passes.autodiff.algebra import reshape_to, swap_last
from rlx.passes.autodiff.errors import NonDifferentiableError
from rlx.passes.autodiff.registry import Derivatives, Pushforward, jvp


@jvp(ops.qr)
def qr_jvp(at: Pushforward, a: Value, *, full: bool) -> Derivatives:
    """q turns by the antisymmetric part of `q.T da r^-1`; r takes what is left.

    Of a matrix with more columns than rows, the first ones determine q.
    """
    q, r = at.results
    rows, columns = a.type.with_shape(a.shape[-2:]).static_shape
    _require_reduced("qr", a, full=full)
    da, inner = at.tangent, min(rows, columns)
    first = ops.narrow(da, axis=-1, start=0, length=inner)
    square = ops.narrow(r, axis=-1, start=0, length=inner)
    moved = ops.triangular_solve(square, first, lower=False, left=False, on_singular="nan")
    inside = ops.matmul(swap_last(q), moved)
    below = ops.where(_below(at.graph, inner), inside, 0.0)
    turn = below - swap_last(below)
    dq = ops.matmul(q, turn - inside) + moved
    dr = ops.matmul(swap_last(q), da) - ops.matmul(turn, r)
    return dq, ops.where(_below(at.graph, inner, columns), 0.0, dr)


@jvp(ops.eigh)
def eigh_jvp(at: Pushforward, a: Value) -> Derivatives:
    """In the basis of the eigenvectors, the diagonal moves the values and the rest the vectors."""
    w, v = at.results
    n, _ = a.type.with_shape(a.shape[-2:]).static_shape
    lower = ops.where(_below(at.graph, n), at.tangent, 0.0)
    on = ops.where(_diagonal(at.graph, n), at.tangent, 0.0)
    moved = ops.matmul(swap_last(v), ops.matmul(lower + swap_last(lower) + on, v))
    gaps = _row(w) - _column(w)
    return diagonal_of(moved), ops.matmul(v, moved * _inverse(gaps))


@jvp(ops.eig)
def eig_jvp(at: Pushforward, a: Value) -> Derivatives:
    """As for `eigh`, in a basis that is not orthogonal; vectors keep their norm and phase."""
    w, v = at.results
    moved = _complex_solve(v, ops.matmul(at.tangent, v))
    turned = ops.matmul(v, moved * _inverse(_row(w) - _column(w)))
    longer = ops.reduce_sum(ops.real(ops.conj(v) * turned), axes=(-2,), keepdims=True)
    is_fixed = _is_positive_component(at.graph, v)
    fixed, spun = (
        ops.reduce_sum(ops.where(is_fixed, part, 0.0), axes=(-2,), keepdims=True)
        for part in (ops.real(v), ops.imag(turned))
    )
    return diagonal_of(moved), turned - v * ops.complex(longer, spun / fixed)


def _is_positive_component(graph: Graph, v: Value) -> Value:
    """True for the component of each vector that `eig` makes positive."""
    squares = ops.complex_norm_sq(v)
    most = ops.reduce_max(squares, axes=(-2,), keepdims=True)
    is_large = ops.cast(ops.ge(squares, most * (1.0 - 2.0**-10)), to=DType.I32)
    n, _ = v.type.with_shape(v.shape[-2:]).static_shape
    rows = graph.iota(type=TensorType(DType.I64, (n, 1)), axis=0)
    first = ops.cast(ops.argmax(is_large, axis=-2), to=DType.I64)
    return ops.eq(rows, _row(first))


def _complex_solve(a: Value, b: Value) -> Value:
    """Solve complex systems as real ones of twice the extent; singular ones give NaN."""
    re, im = ops.real(a), ops.imag(a)
    upper, lower = ops.concat(re, -im, axis=-1), ops.concat(im, re, axis=-1)
    sides = ops.concat(ops.real(b), ops.imag(b), axis=-2)
    parts = ops.solve(ops.concat(upper, lower, axis=-2), sides, on_singular="nan")
    n = b.shape[-2]
    return ops.complex(
        ops.narrow(parts, axis=-2, start=0, length=n),
        ops.narrow(parts, axis=-2, start=n, length=n),
    )


@jvp(ops.svd)
def svd_jvp(at: Pushforward, a: Value, *, full: bool) -> Derivatives:
    """As for eigenvalues, of `a.T a` and `a a.T`; what u's columns do not span adds to it."""
    u, s, vt = at.results
    _require_reduced("svd", a, full=full)
    rows, columns = a.type.with_shape(a.shape[-2:]).static_shape
    across = ops.matmul(at.tangent, swap_last(vt))
    inside = ops.matmul(swap_last(u), across)
    scale = _inverse(_row(s) * _row(s) - _column(s) * _column(s))
    right, left = inside * _row(s), inside * _column(s)
    du = ops.matmul(u, scale * (right + swap_last(right)))
    dv = ops.matmul(swap_last(vt), scale * (left + swap_last(left)))
    if rows > columns:
        du = du + (across - ops.matmul(u, inside)) * _row(_inverse(s))
    return du, diagonal_of(inside), swap_last(dv)


def _require_reduced(name: str, a: Value, *, full: bool) -> None:
    rows, columns = a.type.with_shape(a.shape[-2:]).static_shape
    if full and rows > columns:
        raise NonDifferentiableError(
            f"{name} of {a.type} with all columns has no derivative: those that the matrix does "
            "not determine are arbitrary",
            source=a.node.source,
            remedy="use the reduced form",
        )


def _inverse(x: Value) -> Value:
    """Return `1 / x`, 0 where `x` is."""
    is_zero = ops.eq(x, 0.0)
    return ops.where(is_zero, 0.0, 1.0 / ops.where(is_zero, 1.0, x))


def _row(x: Value) -> Value:
    return reshape_to(x, (*x.shape[:-1], 1, x.shape[-1]))


def _column(x: Value) -> Value:
    return reshape_to(x, (*x.shape, 1))


def _numbers(graph: Graph, rows: int, columns: int) -> tuple[Value, Value]:
    return (
        graph.iota(type=TensorType(DType.I64, (rows, 1)), axis=0),
        graph.iota(type=TensorType(DType.I64, (columns,))),
    )


def _below(graph: Graph, rows: int, columns: int | None = None) -> Value:
    row, column = _numbers(graph, rows, rows if columns is None else columns)
    return ops.gt(row, column)


def _diagonal(graph: Graph, n: int) -> Value:
    return ops.eq(*_numbers(graph, n, n))
