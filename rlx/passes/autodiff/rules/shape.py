"""Derivatives of the ops that move elements: each is linear, so a rule is its transpose."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.ir.shape import Extent, Shape, normalize_axis
from rlx.passes.algebra import inverse_permutation, reshape_to, unbroadcast
from rlx.passes.autodiff.registry import Derivatives, Pullback, linear


def reshape_transpose(at: Pullback, x: Value, *, shape: Shape) -> Derivatives:
    return reshape_to(at.cotangent, x.shape)


def transpose_transpose(at: Pullback, x: Value, *, perm: tuple[int, ...]) -> Derivatives:
    return ops.transpose(at.cotangent, perm=inverse_permutation(perm))


def expand_transpose(at: Pullback, x: Value, *, shape: Shape) -> Derivatives:
    return unbroadcast(at.cotangent, x.shape)


def narrow_transpose(
    at: Pullback, x: Value, *, axis: int, start: Extent, length: Extent
) -> Derivatives:
    position = normalize_axis(axis, x.rank)
    return _pad_axis(at.cotangent, position, start, x.shape[position] - (start + length))


def concat_transpose(at: Pullback, *tensors: Value, axis: int) -> Derivatives:
    position = normalize_axis(axis, tensors[0].rank)
    start: Extent = 0
    parts: list[Value | None] = []
    for tensor, wanted in zip(tensors, at.wanted, strict=True):
        length = tensor.shape[position]
        parts.append(_narrow_axis(at.cotangent, position, start, length) if wanted else None)
        start = start + length
    return parts


def reverse_transpose(at: Pullback, x: Value, *, axes: tuple[int, ...]) -> Derivatives:
    return ops.reverse(at.cotangent, axes=axes)


def pad_transpose(
    at: Pullback, x: Value, *, low: Sequence[Extent], high: Sequence[Extent], **_: object
) -> Derivatives:
    g = at.cotangent
    for axis, (before, extent) in enumerate(zip(low, x.shape, strict=True)):
        g = _narrow_axis(g, axis, before, extent)
    return g


def slice_transpose(
    at: Pullback,
    x: Value,
    *,
    start: Sequence[int],
    stop: Sequence[Extent],
    step: Sequence[int],
) -> Derivatives:
    g = at.cotangent
    for axis in range(x.rank):
        g = _spread_axis(g, axis, step[axis])
        span = stop[axis] - start[axis]
        g = _narrow_axis(g, axis, 0, span)  # the last step may reach beyond the stop
        g = _pad_axis(g, axis, start[axis], x.shape[axis] - stop[axis])
    return g


def _narrow_axis(x: Value, axis: int, start: Extent, length: Extent) -> Value:
    if x.shape[axis] == length:
        return x
    return ops.narrow(x, axis=axis, start=start, length=length)


def _pad_axis(x: Value, axis: int, before: Extent, after: Extent) -> Value:
    """Pad one axis with zeros."""
    if before == 0 and after == 0:
        return x
    none, rest = (0,) * axis, (0,) * (x.rank - axis - 1)
    return ops.pad(x, low=(*none, before, *rest), high=(*none, after, *rest), structural=True)


def _spread_axis(x: Value, axis: int, step: int) -> Value:
    """Put `step - 1` zeros after each element of one axis."""
    if step == 1:
        return x
    apart = reshape_to(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
    padded = _pad_axis(apart, axis + 1, 0, step - 1)
    return reshape_to(padded, (*x.shape[:axis], x.shape[axis] * step, *x.shape[axis + 1 :]))


linear(ops.reshape, reshape_transpose)
linear(ops.transpose, transpose_transpose)
linear(ops.expand, expand_transpose)
linear(ops.narrow, narrow_transpose)
linear(ops.concat, concat_transpose)
linear(ops.reverse, reverse_transpose)
linear(ops.pad, pad_transpose, value=0, structural=True)
linear(ops.slice, slice_transpose)
