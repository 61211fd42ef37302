"""Derivatives of reductions, running sums and the softmax family."""

from __future__ import annotations

import math

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.shape import Extent, Shape, normalize_axis, upper
from rlx.passes.algebra import (
    divide_by_count,
    expand_to,
    extent_product,
    reshape_to,
    restore_axes,
)
from rlx.passes.autodiff.registry import (
    Derivatives,
    Pullback,
    Pushforward,
    differential,
    jvp,
    linear,
    zero,
)


def reduce_sum_transpose(
    at: Pullback, x: Value, *, axes: tuple[int, ...], keepdims: bool
) -> Derivatives:
    return expand_to(restore_axes(at.cotangent, x.shape, axes), x.shape)


def reduce_mean_transpose(
    at: Pullback, x: Value, *, axes: tuple[int, ...], keepdims: bool
) -> Derivatives:
    """The quotient is taken before the broadcast, on the smaller tensor."""
    g = restore_axes(at.cotangent, x.shape, axes)
    return expand_to(divide_by_count(g, x, axes), x.shape)


@jvp(ops.reduce_max, ops.reduce_min)
def extremum_jvp(
    at: Pushforward, x: Value, *, axes: tuple[int, ...], keepdims: bool
) -> Derivatives:
    """The mean tangent of the tied positions; a NaN result has none, and a zero tangent."""
    ties = ops.eq(x, restore_axes(at.result, x.shape, axes))
    counted = DType.F32 if x.dtype.is_low_precision else x.dtype  # f16 ends at 65504
    count = ops.reduce_sum(ops.cast(ties, to=counted), axes=axes, keepdims=keepdims)
    chosen = ops.cast(ops.where(ties, at.tangent, 0.0), to=counted)
    total = ops.reduce_sum(chosen, axes=axes, keepdims=keepdims)
    return ops.cast(total / ops.maximum(count, 1.0), to=x.dtype)


@jvp(ops.reduce_prod)
def reduce_prod_jvp(
    at: Pushforward, x: Value, *, axes: tuple[int, ...], keepdims: bool
) -> Derivatives:
    """Each element's partial is the product of the others: no division, exact at zeros."""
    rows = _fold_last(x, axes)
    others = _products_before(rows) * _reversed(_products_before(_reversed(rows)))
    total = ops.reduce_sum(others * _fold_last(at.tangent, axes), axes=(rows.rank - 1,))
    return reshape_to(total, at.result.shape)


def _fold_last(x: Value, axes: tuple[int, ...]) -> Value:
    """Move `axes` to the end and flatten them into one."""
    folded = sorted({normalize_axis(axis, x.rank) for axis in axes})
    kept = [axis for axis in range(x.rank) if axis not in folded]
    if kept + folded != list(range(x.rank)):
        x = ops.transpose(x, perm=(*kept, *folded))
    lead: Shape = x.shape[: len(kept)]
    return reshape_to(x, (*lead, extent_product(x.shape, range(len(kept), x.rank))))


def _products_before(x: Value) -> Value:
    """Return, along the last axis, the product of all earlier elements, by doubling.

    A symbolic extent is padded with ones to its bound, so that the steps are static.
    """
    extent, bound = x.shape[-1], upper(x.shape[-1])
    if bound == 0:
        return x
    products = _narrow_last(_shifted(_padded(x, 0, bound - extent), 1), bound)
    distance = 1
    while distance < bound:
        products = products * _shifted(products, distance)
        distance *= 2
    return _narrow_last(products, extent)


def _shifted(x: Value, distance: int) -> Value:
    """Move the elements up the last axis, with ones coming in."""
    kept = _narrow_last(x, x.shape[-1] - distance)
    return _padded(kept, distance, 0)


def _padded(x: Value, before: int, after: Extent) -> Value:
    none = (0,) * (x.rank - 1)
    return ops.pad(x, low=(*none, before), high=(*none, after), value=1)


def _narrow_last(x: Value, length: Extent) -> Value:
    return ops.narrow(x, axis=-1, start=0, length=length)


def _reversed(x: Value) -> Value:
    return ops.reverse(x, axes=(x.rank - 1,))


def cumsum_transpose(
    at: Pullback, x: Value, *, axis: int, exclusive: bool, reverse: bool
) -> Derivatives:
    return ops.cumsum(at.cotangent, axis=axis, exclusive=exclusive, reverse=not reverse)


def softmax_map(v: Value, y: Value, x: Value, *, axis: int) -> Value:
    """The Jacobian `diag(y) - y y^T` is symmetric: one map serves both modes."""
    return y * (v - ops.reduce_sum(y * v, axes=(axis,), keepdims=True))


@jvp(ops.log_softmax)
def log_softmax_jvp(at: Pushforward, x: Value, *, axis: int) -> Derivatives:
    t = at.tangent
    return t - ops.reduce_sum(ops.exp(at.result) * t, axes=(axis,), keepdims=True)


@jvp(ops.logsumexp)
def logsumexp_jvp(
    at: Pushforward, x: Value, *, axes: tuple[int, ...], keepdims: bool
) -> Derivatives:
    """From the result: the formula would exponentiate and sum once more."""
    shift = ops.where(
        ops.eq(at.result, -math.inf), 0.0, at.result
    )  # so that weights are 0, not NaN
    weights = ops.exp(x - restore_axes(shift, x.shape, axes))
    return ops.reduce_sum(weights * at.tangent, axes=axes, keepdims=keepdims)


linear(ops.reduce_sum, reduce_sum_transpose)
linear(ops.reduce_mean, reduce_mean_transpose)
linear(ops.cumsum, cumsum_transpose)
differential(ops.softmax, softmax_map)
zero(ops.argmax, ops.argmin, because="the result is an index")
