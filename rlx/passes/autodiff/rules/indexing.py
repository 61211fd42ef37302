"""Derivatives of ops that read or write at run-time positions: linear in what they move.

Indices carry no derivative, even where they are f32.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.shape import Extent, Shape, normalize_axis, upper
from rlx.ir.types import TensorType
from rlx.passes.algebra import reshape_to, zeros
from rlx.passes.autodiff.registry import (
    Derivatives,
    Pullback,
    Pushforward,
    jvp,
    linear,
    nondifferentiable,
    zero,
)


def gather_transpose(at: Pullback, table: Value, indices: Value, *, axis: int) -> Derivatives:
    position = normalize_axis(axis, table.rank)
    size = table.shape[position]
    if position == 0:
        return ops.scatter_add(at.cotangent, indices, size=size)
    return ops.gather_backward(at.cotangent, indices, axis=position, size=size)


def gather_backward_transpose(
    at: Pullback, dy: Value, indices: Value, *, axis: int, size: Extent
) -> Derivatives:
    return ops.gather(at.cotangent, indices, axis=axis)


def scatter_add_transpose(
    at: Pullback, updates: Value, indices: Value, *, size: Extent
) -> Derivatives:
    return ops.gather(at.cotangent, indices, axis=0)


def dynamic_slice_transpose(at: Pullback, x: Value, starts: Value, *, sizes: Shape) -> Derivatives:
    return ops.dynamic_update_slice(zeros(at.graph, x.type), at.cotangent, starts)


def dynamic_update_slice_transpose(
    at: Pullback, x: Value, update: Value, starts: Value
) -> Derivatives:
    g = at.cotangent
    around, inside = None, None
    if at.wanted[0]:
        around = ops.dynamic_update_slice(g, zeros(at.graph, update.type), starts)
    if at.wanted[1]:
        inside = ops.dynamic_slice(g, starts, sizes=update.shape)
    return around, inside


@jvp(ops.scatter_max, ops.scatter_min)
def scatter_extremum_jvp(
    at: Pushforward, updates: Value, indices: Value, *, size: Extent
) -> Derivatives:
    """The mean tangent of the tied updates, as in a reduction."""
    tangent = at.tangents[0]
    if tangent is None:
        return None
    ties = ops.eq(updates, ops.gather(at.result, indices))
    count = ops.scatter_add(ops.cast(ties, to=updates.dtype), indices, size=size)
    total = ops.scatter_add(ops.where(ties, tangent, 0.0), indices, size=size)
    return total / ops.maximum(count, 1.0)


@jvp(ops.scatter_mul)
def scatter_mul_jvp(
    at: Pushforward, updates: Value, indices: Value, *, size: Extent
) -> Derivatives:
    """Each update's partial is the product of the others of its row: exact at zeros.

    In the order of their rows, those before and those after it are folds by doubling.
    """
    tangent = at.tangents[0]
    if tangent is None or 0 in indices.shape:
        return None
    count = indices.type.elements
    row = updates.shape[indices.rank :]
    places = ops.cast(reshape_to(indices, (count,)), to=DType.I64)
    order = ops.argsort(places)
    places = ops.gather(places, order)
    factors = ops.gather(reshape_to(updates, (count, *row)), order)
    moved = ops.gather(reshape_to(tangent, (count, *row)), order)
    before = _products_before(factors, places)
    after = ops.reverse(
        _products_before(ops.reverse(factors, axes=(0,)), ops.reverse(places, axes=(0,))),
        axes=(0,),
    )
    return ops.scatter_add(before * after * moved, places, size=size)


def _products_before(factors: Value, places: Value) -> Value:
    """Return the product of the earlier factors at the same place; equal places are together."""
    bound = upper(factors.shape[0])
    products, distance = _earlier(factors, places, 1), 1
    while distance < bound:
        products, distance = products * _earlier(products, places, distance), 2 * distance
    return products


def _earlier(factors: Value, places: Value, distance: int) -> Value:
    """Return the factor `distance` before, or 1 where it is at another place."""
    if distance >= upper(factors.shape[0]):
        return ops.expand(factors.graph.constant(1, factors.dtype), shape=factors.shape)
    rank = factors.rank

    def delayed(x: Value, value: float) -> Value:
        # Padded first: there may be fewer rows than the distance where their number is symbolic
        low = (distance, *(0,) * (x.rank - 1))
        padded = ops.pad(x, low=low, high=(0,) * x.rank, value=value)
        return ops.narrow(padded, axis=0, start=0, length=x.shape[0])

    same = ops.eq(delayed(places, -1.0), places)
    return ops.where(reshape_to(same, (*same.shape, *(1,) * (rank - 1))), delayed(factors, 1.0), 1)


@jvp(ops.topk)
def topk_jvp(at: Pushforward, x: Value, *, k: int) -> Derivatives:
    return _tangents_at(at, x, at.results[1])


@jvp(ops.sort)
def sort_jvp(at: Pushforward, x: Value) -> Derivatives:
    return _tangents_at(at, x, ops.argsort(x))


def _tangents_at(at: Pushforward, x: Value, chosen: Value) -> Value:
    """Take the tangents at the chosen positions of the flattened rows."""
    if x.shape[-1] == 0:
        return zeros(at.graph, at.results[0].type)
    places = TensorType(DType.I64, (x.type.elements,))
    rows = reshape_to(at.graph.iota(type=places), x.shape)
    starts = rows - at.graph.iota(type=TensorType(DType.I64, x.shape[-1:]))
    # As many as are chosen, not one: a row of a symbolic extent may be empty.
    starts = ops.narrow(starts, axis=-1, start=0, length=chosen.shape[-1])
    return ops.gather(reshape_to(at.tangent, (x.type.elements,)), chosen + starts)


linear(ops.gather, gather_transpose, fixed=(1,))
linear(ops.gather_backward, gather_backward_transpose, fixed=(1,))
linear(ops.scatter_add, scatter_add_transpose, fixed=(1,))
linear(ops.dynamic_slice, dynamic_slice_transpose, fixed=(1,))
linear(ops.dynamic_update_slice, dynamic_update_slice_transpose, fixed=(2,))
zero(ops.argsort, ops.walk_trees, because="the result is an index")
nondifferentiable(
    ops.radix_counts,
    ops.radix_move,
    ops.sorted_values,
    because="it is a stage of sort, which is differentiated as one",
)
