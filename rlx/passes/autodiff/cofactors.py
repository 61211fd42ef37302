"""Cofactors of matrices: the derivative of a determinant, singular matrices included.

They are `det(a) * inv(a).T` where `a` has an inverse. Where it has none, `c = a + u v` has one,
for almost any column `u` and row `v`, if the rank of `a` is short of full by one; with
`s = v inv(c) u` the adjugate is (Sherman and Morrison, times the determinant)

    adj(a) = det(c) * ((1 - s) * inv(c) + inv(c) u v inv(c))

and `1 - s` is 0, but has a derivative. If the rank is short by two or more, `det(c)` is 0, and so
are all cofactors.
"""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.passes.algebra import expand_to, reshape_to, swap_last

_MOST_BY_PRODUCTS = 3
"""Up to this extent cofactors are written out: exact to all orders for every rank."""


def cofactors(a: Value, determinant: Value) -> Value:
    """Return the cofactors of each matrix: the derivative of its determinant by each element."""
    extent = a.shape[-1]
    assert isinstance(extent, int), "determinants have static extents"
    if extent <= 1:
        return expand_to(a.graph.constant(1, a.dtype), a.shape)
    if extent <= _MOST_BY_PRODUCTS:
        return _minors_of_two(a) if extent == 2 else _minors_of_three(a)
    return _by_inverse(a, ops.eq(determinant, 0.0), extent)


def _minors_of_two(a: Value) -> Value:
    signs = a.graph.constant(np.array([[1, -1], [-1, 1]], a.dtype.numpy))
    return _shifted(a, 1, 1) * expand_to(signs, a.shape)


def _minors_of_three(a: Value) -> Value:
    """Counted around the edges, minors have no signs."""
    forward = _shifted(a, 1, 1) * _shifted(a, 2, 2)
    return forward - _shifted(a, 1, 2) * _shifted(a, 2, 1)


def _by_inverse(a: Value, singular: Value, extent: int) -> Value:
    singular = reshape_to(singular, (*a.shape[:-2], 1, 1))
    column, row = _generic_vectors(a, extent)
    sizes = ops.abs(ops.real(a)) + ops.abs(ops.imag(a)) if a.dtype.is_complex else ops.abs(a)
    largest = ops.cast(ops.reduce_max(sizes, axes=(-2, -1), keepdims=True), to=a.dtype)
    size = ops.stop_gradient(ops.where(singular, largest, 0.0))
    regular = a + size * ops.matmul(column, row)
    inverse = ops.inv(regular, on_singular="nan")
    images = ops.matmul(inverse, column), ops.matmul(row, inverse)
    rest = 1.0 - size * ops.matmul(row, images[0])
    weight = ops.where(singular, rest - ops.stop_gradient(rest), 1.0)
    determinant = reshape_to(ops.det(regular), singular.shape)
    adjugate = determinant * (weight * inverse + size * images[0] * images[1])
    return swap_last(ops.where(ops.eq(determinant, 0.0), 0.0, adjugate))


def _generic_vectors(a: Value, extent: int) -> tuple[Value, Value]:
    """Return a column and a row that matrices of integers hardly have to do with, one per slice."""
    column, row = np.random.default_rng(extent).uniform(0.5, 1.5, (2, extent))
    return (
        expand_to(a.graph.constant(column[:, None].astype(a.dtype.numpy)), (*a.shape[:-1], 1)),
        expand_to(
            a.graph.constant(row[None].astype(a.dtype.numpy)), (*a.shape[:-2], 1, a.shape[-1])
        ),
    )


def _shifted(a: Value, rows: int, columns: int) -> Value:
    """Return `a[(i + rows) % n, (j + columns) % n]` at each `i, j`."""
    return _rolled(_rolled(a, rows, -2), columns, -1)


def _rolled(a: Value, by: int, axis: int) -> Value:
    extent = a.shape[axis]
    assert isinstance(extent, int), "determinants have static extents"
    ends = [(by, extent - by), (0, by)]
    parts = [ops.narrow(a, axis=axis, start=start, length=length) for start, length in ends]
    return ops.concat(*[p for p in parts if p.shape[axis] != 0], axis=axis)
