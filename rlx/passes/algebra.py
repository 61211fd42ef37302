"""Tensor manipulations that rules and rewrites share: zeros, broadcasting, adjoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.shape import Extent, Shape, normalize_axis, product
from rlx.ir.types import TensorType
from rlx.passes.scalars import number


def full(graph: Graph, type: TensorType, value: float) -> Value:
    """Return `type` filled with `value`: one scalar constant, broadcast where it is read."""
    return expand_to(graph.constant(value, type.dtype), type.shape)


def zeros(graph: Graph, type: TensorType) -> Value:
    """Return a derivative that is zero, whose entries are all absent."""
    zero = graph.constant(0, type.dtype, structural=type.dtype.is_float)
    return expand_to(zero, type.shape)


def or_zeros(graph: Graph, value: Value | None, type: TensorType) -> Value:
    """Return `value`, or zeros of `type` for a derivative that is zero."""
    return zeros(graph, type) if value is None else value


def expand_to(x: Value, shape: Shape) -> Value:
    """Broadcast `x` to `shape`; nothing where it has that shape already."""
    return x if x.shape == shape else _one(ops.expand(x, shape=shape))


def reshape_to(x: Value, shape: Shape) -> Value:
    """Reshape `x` to `shape`; nothing where it has that shape already."""
    return x if x.shape == shape else _one(ops.reshape(x, shape=shape))


def unbroadcast(z: Value, shape: Shape) -> Value:
    """Sum `z` over the axes along which `shape` was broadcast: the transpose of `expand_to`.

    One reduction whatever the number of axes; a reshape (a view) only where the result has
    axes of extent 1 after dropped ones. An axis that had one element all the time is not summed:
    a sum would begin with 0.0, which costs an addition and the sign of a -0.0.
    """
    if z.shape == shape:
        return z
    lead = max(z.rank - len(shape), 0)
    stretched = [
        lead + axis
        for axis, extent in enumerate(shape[max(len(shape) - z.rank, 0) :])
        if extent == 1 and z.shape[lead + axis] != 1
    ]
    axes = (*(axis for axis in range(lead) if z.shape[axis] != 1), *stretched)
    if axes:
        z = ops.reduce_sum(z, axes=axes, keepdims=lead == 0)
    return reshape_to(z, shape)


def keepdims_shape(shape: Shape, axes: Sequence[int]) -> Shape:
    """Return `shape` with extent 1 on `axes`."""
    folded = {normalize_axis(axis, len(shape)) for axis in axes}
    return tuple(1 if axis in folded else extent for axis, extent in enumerate(shape))


def restore_axes(z: Value, shape: Shape, axes: Sequence[int]) -> Value:
    """Give a reduction's result back its folded `axes` as extent 1, so that it broadcasts.

    Nothing where it broadcasts as it is: the folded axes lead.
    """
    folded = {normalize_axis(axis, len(shape)) for axis in axes}
    if folded == set(range(len(folded))) and z.shape == shape[len(folded) :]:
        return z
    return reshape_to(z, keepdims_shape(shape, axes))


def conjugate(z: Value) -> Value:
    return _one(ops.conj(z)) if z.dtype.is_complex else z


def swap_last(z: Value) -> Value:
    """Transpose the last two axes: a view that matmul absorbs."""
    *batch, row, column = range(z.rank)
    return _one(ops.transpose(z, perm=(*batch, column, row)))


def adjoint(z: Value) -> Value:
    """Return the conjugate transpose over the last two axes."""
    return conjugate(swap_last(z))


def inverse_permutation(perm: Sequence[int]) -> tuple[int, ...]:
    positions = [normalize_axis(axis, len(perm)) for axis in perm]
    return tuple(positions.index(axis) for axis in range(len(perm)))


def divide_by_count(z: Value, x: Value, axes: Sequence[int]) -> Value:
    """Divide by the number of elements of `x` along `axes`, which may be symbolic."""
    count = extent_product(x.shape, axes)
    if isinstance(count, int):
        return z * (1.0 / count) if count else z
    ones = full(x.graph, x.type, 1)
    return z / _one(ops.reduce_sum(ones, axes=tuple(axes), keepdims=True))


def extent_product(shape: Shape, axes: Sequence[int]) -> Extent:
    return product(shape[axis] for axis in axes)


def under_mask(multiply: Callable[[Value], Value], g: Value) -> Value:
    """Return `multiply(g)`, 0 where `g` is 0 by a selection though the factor be infinite or NaN.

        multiply(where(c, g, 0))    ->    where(c, multiply(g), 0)

    So the operand of a `where` has no gradient from elements that were not chosen, neither by it
    nor by one around it.
    """
    mask = _mask_of(g)
    if mask is None:
        return multiply(g)
    condition, kept, negated = mask
    moved = multiply(kept)
    return g if moved is kept else _masked(condition, moved, negated)


def add_under_mask(a: Value, b: Value) -> Value:
    """Return `a + b`; of two selections, the selection of the sum by what both conditions imply."""
    left, right = _mask_of(a), _mask_of(b)
    if left is None or right is None:
        return a + b
    (condition, x, negated), (other, y, other_negated) = left, right
    if condition is other and negated == other_negated and x.type == y.type == a.type:
        return _masked(condition, x + y, negated)
    if not negated and not other_negated:
        implied = _implied_by(other)
        for common in _implied_by(condition):
            if any(_is_same(common, one) for one in implied):
                return _one(ops.where(common, a + b, 0.0))
    return a + b


def _mask_of(g: Value) -> tuple[Value, Value, bool] | None:
    """Return condition and operand of `where(c, x, 0)`, and False; True for `where(c, 0, x)`."""
    if g.op is not ops.where:
        return None
    condition, a, b = g.node.operands
    if is_zero(a) == is_zero(b):
        return None
    return (condition, b, True) if is_zero(a) else (condition, a, False)


def _masked(condition: Value, x: Value, negated: bool) -> Value:
    """Return `where(condition, x, 0)`, of a selection `x` with one condition for both."""
    inner = _mask_of(x)
    if inner is not None:
        of_inner, x, inner_negated = inner
        chosen = _chosen(condition, negated)
        condition, negated = ops.logical_and(chosen, _chosen(of_inner, inner_negated)), False
    return _one(ops.where(condition, *((0.0, x) if negated else (x, 0.0))))


def _chosen(condition: Value, negated: bool) -> Value:
    return _one(ops.logical_not(condition)) if negated else condition


def _implied_by(condition: Value) -> list[Value]:
    """Return the conditions around `condition`, from the nearest on, and it first."""
    found = [condition]
    while found[-1].op is ops.logical_and:
        found.append(found[-1].node.operands[0])
    return found


def _is_same(p: Value, q: Value) -> bool:
    if p.op is ops.logical_not and q.op is ops.logical_not:
        return p.node.operands == q.node.operands
    return p is q


def is_zero(x: Value) -> bool:
    return not x.dtype.is_complex and number(x) == 0


def _one(value: Value) -> Value:
    """Pin the type of an op call, which is `Any`."""
    return value
