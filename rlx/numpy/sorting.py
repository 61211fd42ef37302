"""Order: sorting, searching what is sorted, and the largest elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.op import OpDef
from rlx.ir.shape import Dim, normalize_axis, upper
from rlx.numpy import elementwise
from rlx.numpy.axes import static_shape
from rlx.numpy.creation import zeros
from rlx.numpy.indexing import take, take_along_axis
from rlx.numpy.reductions import sum
from rlx.numpy.shaping import expand_dims, flip, moveaxis, ravel
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, emit, emit_several, function, promoted, static_int
from rlx.tracing.only import only

_FEW = 64
"""Elements that are sooner all compared than searched by halves."""


@function
@only(order=(None,))
def sort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: Any = None,
    *,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """Ascending order, NaN last; always stable."""
    if axis is None:
        a, axis = ravel(a), 0
    found = _along_rows(ops.sort, a, axis)
    return flip(found, axis) if descending else found


@function
@only(order=(None,))
def argsort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: Any = None,
    *,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Array:
    """The indices that sort; equal elements keep their order."""
    if dtype is not None:
        return elementwise.astype(argsort(a, axis, descending=descending), dtype)
    if axis is None:
        a, axis = ravel(a), 0
    if not descending:
        return _along_rows(ops.argsort, a, axis)
    a = as_tracer(a)
    last = a.shape[normalize_axis(axis, a.ndim)] - 1
    return elementwise.subtract(last, flip(_along_rows(ops.argsort, flip(a, axis), axis), axis))


@function
def lexsort(keys: Any, axis: int = -1) -> Array:
    """The indices that sort by the last key, where it is equal by the one before, and so on."""
    parts = [as_tracer(key) for key in (keys if isinstance(keys, Sequence) else [*keys])]
    order = argsort(parts[0], axis)
    for key in parts[1:]:
        finer = argsort(take_along_axis(key, order, axis), axis)
        order = take_along_axis(order, finer, axis)
    return order


@function
def sort_complex(a: Any) -> Array:
    """Complex numbers by their real parts, then by their imaginary parts."""
    (a,) = promoted([a])
    if not a.value.dtype.is_complex:
        a = elementwise.astype(a, "c128" if a.value.dtype.size == 8 else "c64")
    order = lexsort((elementwise.imag(a), elementwise.real(a)))
    return take_along_axis(a, order, -1)


@function
@only(order=(None,))
def partition(
    a: Any, kth: int, axis: int | None = -1, kind: str = "introselect", order: Any = None
) -> Array:
    """The order in which what is less than element `kth` comes before it: here the whole order."""
    _require_kth(a, kth, axis)
    return sort(a, axis)


@function
@only(order=(None,))
def argpartition(
    a: Any, kth: int, axis: int | None = -1, kind: str = "introselect", order: Any = None
) -> Array:
    """The indices of `partition`."""
    _require_kth(a, kth, axis)
    return argsort(a, axis)


def _require_kth(x: Any, kth: int, axis: int | None) -> None:
    shape = static_shape(as_tracer(x))
    extent = math.prod(shape) if axis is None else shape[normalize_axis(axis, len(shape))]
    if not -extent <= static_int(kth, "kth") < extent:
        raise ShapeError(
            f"kth is {kth}, and the axis has {extent} elements",
            remedy="name one of them",
        )


@function
def top_k(x: Any, k: int, *, axis: int = -1) -> tuple[Array, Array]:
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
) -> Array:
    """Where `v` goes into the ascending `a`: after the smaller ones, or (`right`) the equal too."""
    if side not in ("left", "right"):
        raise ShapeError(
            f"side is {side!r}; it must be 'left' or 'right'",
            remedy="pass side='left' or side='right'",
        )
    a, v = promoted([a if sorter is None else take(a, sorter), v])
    (extent,) = a.shape
    if upper(extent) <= _FEW:
        return sum(_precedes(a, expand_dims(v, -1), side), -1)
    place = zeros(v.shape, DType.I64)
    step = 1 << (upper(extent).bit_length() - 1)
    while step:
        # Within range, all of the first `place` precede: do those up to the next step, too?
        ahead = elementwise.add(place, step)
        at = elementwise.minimum(elementwise.subtract(ahead, 1), extent - 1)
        element = take(a, at, mode="fill" if isinstance(extent, Dim) else None)  # of none, NaN
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
def digitize(x: Any, bins: Any, right: bool = False, *, method: str | None = None) -> Array:
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
