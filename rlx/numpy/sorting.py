"""Order: sorting, searching what is sorted, and the largest elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.op import OpDef
from rlx.ir.shape import normalize_axis
from rlx.numpy import elementwise
from rlx.numpy.axes import static_shape
from rlx.numpy.creation import zeros
from rlx.numpy.indexing import take, take_along_axis
from rlx.numpy.reductions import sum
from rlx.numpy.shaping import expand_dims, flip, moveaxis, ravel
from rlx.tracing.apply import as_tracer, emit, emit_several, function, promoted, static_int

_FEW = 64
"""Elements that are sooner all compared than searched by halves."""


@function
def sort(
    x: Any,
    axis: int | None = -1,
    *,
    kind: str | None = None,
    stable: bool = True,
    descending: bool = False,
) -> Any:
    """Ascending order, NaN last; always stable."""
    del kind, stable
    if axis is None:
        x, axis = ravel(x), 0
    found = _along_rows(ops.sort, x, axis)
    return flip(found, axis) if descending else found


@function
def argsort(
    x: Any,
    axis: int | None = -1,
    *,
    kind: str | None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Any:
    """The indices that sort; equal elements keep their order."""
    del kind, stable
    if dtype is not None:
        return elementwise.astype(argsort(x, axis, descending=descending), dtype)
    if axis is None:
        x, axis = ravel(x), 0
    if not descending:
        return _along_rows(ops.argsort, x, axis)
    x = as_tracer(x)
    last = x.shape[normalize_axis(axis, x.ndim)] - 1
    return elementwise.subtract(last, flip(_along_rows(ops.argsort, flip(x, axis), axis), axis))


@function
def lexsort(keys: Any, axis: int = -1) -> Any:
    """The indices that sort by the last key, where it is equal by the one before, and so on."""
    parts = [as_tracer(key) for key in (keys if isinstance(keys, Sequence) else [*keys])]
    order = argsort(parts[0], axis)
    for key in parts[1:]:
        finer = argsort(take_along_axis(key, order, axis), axis)
        order = take_along_axis(order, finer, axis)
    return order


@function
def sort_complex(x: Any) -> Any:
    """Complex numbers by their real parts, then by their imaginary parts."""
    (x,) = promoted([x])
    if not x.value.dtype.is_complex:
        x = elementwise.astype(x, "c128" if x.value.dtype.size == 8 else "c64")
    order = lexsort((elementwise.imag(x), elementwise.real(x)))
    return take_along_axis(x, order, -1)


@function
def partition(x: Any, kth: int, axis: int | None = -1) -> Any:
    """The order in which what is less than element `kth` comes before it: here the whole order."""
    _require_kth(x, kth, axis)
    return sort(x, axis)


@function
def argpartition(x: Any, kth: int, axis: int | None = -1) -> Any:
    """The indices of `partition`."""
    _require_kth(x, kth, axis)
    return argsort(x, axis)


def _require_kth(x: Any, kth: int, axis: int | None) -> None:
    shape = static_shape(as_tracer(x))
    extent = math.prod(shape) if axis is None else shape[normalize_axis(axis, len(shape))]
    if not -extent <= static_int(kth, "kth") < extent:
        raise ShapeError(
            f"kth is {kth}, and the axis has {extent} elements",
            remedy="name one of them",
        )


@function
def top_k(x: Any, k: int, *, axis: int = -1) -> Any:
    """The `k` largest elements along an axis in descending order, and their indices (i32)."""
    rows = moveaxis(x, axis, -1)
    values, indices = emit_several(ops.topk, rows, k=k)
    return moveaxis(values, -1, axis), moveaxis(elementwise.astype(indices, "i32"), -1, axis)


def _along_rows(definition: OpDef, x: Any, axis: int) -> Any:
    """Emit an op on last-axis rows with `axis` there."""
    x = as_tracer(x)
    return moveaxis(emit(definition, moveaxis(x, axis, -1)), -1, axis)


@function
def searchsorted(
    a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan"
) -> Any:
    """Where `v` goes into the ascending `a`: after the smaller ones, or (`right`) the equal too."""
    del method
    if side not in ("left", "right"):
        raise ShapeError(
            f"side is {side!r}; it must be 'left' or 'right'",
            remedy="pass side='left' or side='right'",
        )
    a, v = promoted([a if sorter is None else take(a, sorter), v])
    (extent,) = static_shape(a)
    if extent <= _FEW:
        return sum(_precedes(a, expand_dims(v, -1), side), -1)
    place = zeros(v.shape, DType.I64)
    step = 1 << (extent.bit_length() - 1)
    while step:
        # Within range, all of the first `place` precede: do those up to the next step, too?
        ahead = elementwise.add(place, step)
        element = take(a, elementwise.minimum(elementwise.subtract(ahead, 1), extent - 1))
        fits = elementwise.logical_and(
            elementwise.less_equal(ahead, extent), _precedes(element, v, side)
        )
        place, step = elementwise.where(fits, ahead, place), step // 2
    return place


def _precedes(element: Any, v: Any, side: str) -> Any:
    """True where `element` goes before `v`: it is less, or (`right`) not more; NaN is largest."""
    before = (elementwise.less if side == "left" else elementwise.less_equal)(element, v)
    if not element.value.dtype.is_float:
        return before
    last = elementwise.isnan(v)
    if side == "left":
        last = elementwise.logical_and(last, elementwise.logical_not(elementwise.isnan(element)))
    return elementwise.logical_or(before, last)


@function
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """The bin of each element: bin i ends below `bins[i]`, or at it if `right`.

    The bins ascend or descend.
    """
    bins, x = promoted([bins, x])
    (count,) = static_shape(bins)
    if count == 0:
        return zeros(x.shape, DType.I64)
    side = "left" if right else "right"
    up, down = searchsorted(bins, x, side), searchsorted(flip(bins, 0), x, side)
    ascends = elementwise.greater_equal(bins[count - 1], bins[0])
    return elementwise.where(ascends, up, elementwise.subtract(count, down))
