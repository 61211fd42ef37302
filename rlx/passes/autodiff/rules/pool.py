"""Derivatives of pooling.

A maximum moves the elements of its first positions: `max_pool_take` reads them and
`max_pool_backward` adds to them, each the transpose of the other.
"""

from __future__ import annotations

from typing import Any

from rlx.ir import ops
from rlx.ir.declaration import takes
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.ops.pool_geometry import PoolAttributes, WindowAxis
from rlx.ir.shape import Extent, is_at_most
from rlx.passes.algebra import expand_to, reshape_to, zeros
from rlx.passes.autodiff.registry import Derivatives, Pullback, linear, vjp


@vjp(ops.max_pool)
def max_pool_vjp(at: Pullback, x: Value, **geometry: Any) -> Derivatives:
    return _added(x, at.cotangent, **geometry)


@vjp(ops.min_pool)
def min_pool_vjp(at: Pullback, x: Value, **geometry: Any) -> Derivatives:
    return _added(ops.neg(x), at.cotangent, **geometry)


@vjp(ops.max_pool_take)
def take_vjp(at: Pullback, x: Value, values: Value, **geometry: Any) -> Derivatives:
    """The positions are piecewise constant in `x`."""
    return None, _added(x, at.cotangent, **geometry) if at.wanted[1] else None


@vjp(ops.max_pool_backward)
def backward_vjp(at: Pullback, x: Value, dy: Value, **geometry: Any) -> Derivatives:
    return None, ops.max_pool_take(x, at.cotangent, **geometry) if at.wanted[1] else None


@takes(PoolAttributes)
def sum_pool_transpose(at: Pullback, x: Value, windows: PoolAttributes) -> Derivatives:
    """Add each cotangent to all positions of its window.

    Disjoint windows repeat it; overlapping ones sum the contributions at a position.
    """
    if 0 in x.shape:  # windows of padding alone
        return zeros(at.graph, at.cotangent.type.with_shape(x.shape))
    axes = windows.axes(x.shape)
    g, first = at.cotangent, x.rank - windows.inner - len(axes)
    for position, axis in enumerate(axes, start=first):
        g = _spread(g, position, axis)
    if all(map(_are_side_by_side, axes)):
        return g
    sizes = tuple(1 if _are_side_by_side(axis) else axis.size for axis in axes)
    return ops.sum_pool(g, kernel_size=sizes, dilation=windows.dilation, inner=windows.inner)


def _are_side_by_side(axis: WindowAxis) -> bool:
    return axis.dilation == 1 and axis.size == axis.stride


def _spread(g: Value, position: int, axis: WindowAxis) -> Value:
    """Return what the windows with stride 1 over a position of `x` sum along one axis."""
    side_by_side = _are_side_by_side(axis)
    spread = g
    if axis.stride > 1:
        spread = _repeated(g, position, axis.stride) if side_by_side else _apart(g, position, axis)
    start = axis.low if side_by_side else axis.low - (axis.dilated_size - 1)
    return _cut(spread, position, start, axis.extent + axis.low - start)


def _repeated(g: Value, position: int, times: int) -> Value:
    split = (*g.shape[: position + 1], 1, *g.shape[position + 1 :])
    wide = (*g.shape[: position + 1], times, *g.shape[position + 1 :])
    return _joined(expand_to(reshape_to(g, split), wide), position)


def _apart(g: Value, position: int, axis: WindowAxis) -> Value:
    """Put `stride - 1` zeros after each element."""
    split = reshape_to(g, (*g.shape[: position + 1], 1, *g.shape[position + 1 :]))
    low, high = [0] * split.rank, [0] * split.rank
    high[position + 1] = axis.stride - 1
    return _joined(ops.pad(split, low=tuple(low), high=tuple(high), value=0), position)


def _joined(g: Value, position: int) -> Value:
    merged = g.shape[position] * g.shape[position + 1]
    return reshape_to(g, (*g.shape[:position], merged, *g.shape[position + 2 :]))


def _cut(g: Value, position: int, start: int, length: Extent) -> Value:
    """Return `length` elements of one axis from `start` on, with zeros outside `g`."""
    end, extent = start + length, g.shape[position]
    first = max(start, 0)
    stop = extent if is_at_most(extent, end) else end
    if is_at_most(stop, first):
        shape = (*g.shape[:position], length, *g.shape[position + 1 :])
        return zeros(g.graph, g.type.with_shape(shape))
    if first != 0 or stop != extent:
        g = ops.narrow(g, axis=position, start=first, length=stop - first)
    low: list[Extent] = [0] * g.rank
    high: list[Extent] = [0] * g.rank
    low[position], high[position] = first - start, end - stop
    if not any(extent != 0 for extent in (*low, *high)):
        return g
    return ops.pad(g, low=tuple(low), high=tuple(high), value=0)


def _added(x: Value, dy: Value, **geometry: Any) -> Value:
    """Add each `dy` at its window's first maximum, in f32 where it is narrower."""
    if not dy.dtype.is_low_precision:
        return ops.max_pool_backward(x, dy, **geometry)
    wide = ops.max_pool_backward(x, ops.cast(dy, to=DType.F32), **geometry)
    return ops.cast(wide, to=dy.dtype)


linear(ops.sum_pool, sum_pool_transpose)
