"""Operators that move elements, and those that return or change shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import FormatError, ShapeError, UnsupportedError
from rlx.ir import ops
from rlx.ir.dtype import DType, as_dtype
from rlx.ir.shape import (
    Dim,
    Extent,
    broadcast_shapes,
    divide,
    floor_divide,
    is_at_most,
    normalize_axis,
    product,
)
from rlx.ir.types import TensorType
from rlx.limits import current_budget
from rlx.numpy.index_plan import bound_within
from rlx.onnx.registry import Static, operator
from rlx.onnx.symbolic import computed, extents_array
from rlx.onnx.types import numpy_dtype
from rlx.onnx.values import is_symbolic
from rlx.tracing.apply import emit


def listable(count: int, what: str) -> int:
    """Return a number of elements that are written out one by one while importing."""
    return current_budget().check_elements(count, what)


def integers(values: Any) -> tuple[Any, ...]:
    """Return a known vector, or number, as extents; FormatError for an array of more axes."""
    vector = np.atleast_1d(values)
    if vector.ndim > 1:
        raise FormatError(
            f"extents are an array of shape {list(vector.shape)}, not a vector",
            remedy="the model is malformed: export it again",
        )
    return tuple(v if isinstance(v, Dim) else int(v) for v in vector)


@operator("Constant")
def constant(
    *,
    value: Any = None,
    sparse_value: Any = None,
    value_float: float | None = None,
    value_floats: Any = None,
    value_int: int | None = None,
    value_ints: Any = None,
    value_string: Any = None,
    value_strings: Any = None,
    node: Any,
) -> Any:
    """An array of the file: as an initializer, a param of the graph if it is large."""
    if value is not None or sparse_value is not None:
        array = np.asarray(value if value is not None else sparse_value)
        return node.importer.weight(node.proto.output[0], array)
    if value_float is not None or value_floats is not None:
        return np.asarray(value_float if value_floats is None else value_floats, np.float32)
    if value_int is not None or value_ints is not None:
        return np.asarray(value_int if value_ints is None else value_ints, np.int64)
    return np.asarray(value_string if value_strings is None else value_strings, object)


@operator("ConstantOfShape")
def constant_of_shape(shape: Static, *, value: Any = None) -> Any:
    fill = np.zeros((), np.float32) if value is None else np.reshape(value, ())
    return emit(ops.expand, fill, shape=integers(shape) if shape.size else ())


@operator("Shape")
def shape_of(x: Any, *, start: int = 0, end: int | None = None) -> Any:
    return extents_array(x.shape[slice(start, end)])


@operator("Size")
def size(x: Any) -> Any:
    extents = extents_array([product(x.shape)])
    return np.reshape(extents, ())


@operator("Reshape")
def reshape(x: Any, shape: Static, *, allowzero: int = 0) -> Any:
    wanted = integers(shape) if shape.size else ()
    if not allowzero:
        for axis, extent in enumerate(wanted):
            if extent == 0 and axis >= x.ndim:
                raise ShapeError(
                    f"shape {wanted} keeps extent {axis} of an array of shape {x.shape}",
                    remedy="give a number for it",
                )
        wanted = tuple(x.shape[i] if extent == 0 else extent for i, extent in enumerate(wanted))
    if -1 in wanted and 0 in x.shape:  # the remainder is not determined by the elements
        rest = [extent for extent in wanted if extent != -1]
        missing = 0 if 0 not in rest else 1
        wanted = tuple(missing if extent == -1 else extent for extent in wanted)
    return rnp.reshape(x, wanted)


@operator("Flatten")
def flatten(x: Any, *, axis: int = 1) -> Any:
    split = axis if axis >= 0 else axis + x.ndim
    return rnp.reshape(x, (product(x.shape[:split]), product(x.shape[split:])))


@operator("Squeeze")
def squeeze(x: Any, axes: Static = None) -> Any:
    if axes is None:
        return rnp.reshape(x, tuple(extent for extent in x.shape if extent != 1))
    dropped = {normalize_axis(axis, x.ndim) for axis in integers(axes)}
    for axis in dropped:
        if x.shape[axis] != 1:
            raise ShapeError(
                f"axis {axis} of shape {x.shape} has extent {x.shape[axis]}; only 1 is squeezed",
                remedy="name axes of extent 1",
            )
    return rnp.reshape(x, tuple(e for axis, e in enumerate(x.shape) if axis not in dropped))


@operator("Unsqueeze")
def unsqueeze(x: Any, axes: Static) -> Any:
    return rnp.expand_dims(x, integers(axes)) if axes.size else x


@operator("Transpose")
def transpose(x: Any, *, perm: Any = None) -> Any:
    return rnp.transpose(x, perm)


@operator("Expand")
def expand(x: Any, shape: Static) -> Any:
    wanted = broadcast_shapes(x.shape, integers(shape) if shape.size else ())
    return x if wanted == x.shape else emit(ops.expand, x, shape=wanted)


@operator("Concat")
def concat(*inputs: Any, axis: int = 1) -> Any:
    return emit(ops.concat, *inputs, axis=normalize_axis(axis, inputs[0].ndim))


@operator("Split")
def split(
    x: Any, sizes: Static = None, *, axis: int = 0, num_outputs: int | None = None, node: Any = 0
) -> Any:
    """Parts of given sizes; else of equal ones, of which the last may be smaller since opset 18."""
    position = normalize_axis(axis, x.ndim)
    extent = x.shape[position]
    count = num_outputs or node.outputs
    if sizes is None:
        if not 1 <= count <= current_budget().limits.nodes:
            raise FormatError(
                f"it splits into {count} parts, of which the node names {node.outputs}",
                remedy="the model is malformed: export it again",
            )
        part = -(-extent // count) if num_outputs else divide(extent, count)
        listed = [part] * (count - 1)
        listed.append(extent - part * (count - 1))
    else:
        listed = list(integers(sizes))
    starts = [sum(listed[:i]) for i in range(len(listed))]
    return tuple(
        emit(ops.narrow, x, axis=position, start=start, length=length)
        for start, length in zip(starts, listed, strict=True)
    )


@operator("Slice")
def slice_(x: Any, starts: Static, ends: Static, axes: Static = None, steps: Static = None) -> Any:
    firsts, lasts = integers(starts), integers(ends)
    if not starts.size:
        return x
    named = range(len(firsts)) if axes is None else integers(axes)
    strides = (1,) * len(firsts) if steps is None else integers(steps)
    index = [slice(None)] * x.ndim
    for axis, first, last, step in zip(named, firsts, lasts, strides, strict=True):
        position = normalize_axis(axis, x.ndim)
        extent = x.shape[position]
        if step > 0 and any(isinstance(each, Dim) for each in (extent, first, last)):
            x = _symbolic_part(x, position, first, last, step)
        else:
            index[position] = _resolved(extent, first, last, step)
    return rnp.getitem(x, tuple(index))


def _symbolic_part(x: Any, axis: int, first: Extent, last: Extent, step: int) -> Any:
    """Take a part of an axis whose bounds are extents; bounds outside of it end at its ends."""
    extent = x.shape[axis]
    start = bound_within(first, extent, axis)
    length = bound_within(last, extent, axis) - start
    part = emit(ops.narrow, x, axis=axis, start=start, length=length)
    if step == 1:
        return part
    steps = tuple(step if each == axis else 1 for each in range(x.ndim))
    return emit(ops.slice, part, start=(0,) * x.ndim, stop=part.shape, step=steps)


def _resolved(extent: int, first: int, last: int, step: int) -> slice:
    """Bring the bounds of a slice into its axis; Python counts a negative end from the back.

    A backward slice that starts before the axis starts at its first element.
    """
    if step < 0:
        last = last + extent if -extent <= last < 0 else last
        first = first + extent if first < 0 else first
        return slice(max(min(first, extent - 1), 0), None if last < 0 else last, step)
    return slice(first, last, step)


@operator("Tile", since=6)
def tile(x: Any, repeats: Static) -> Any:
    counts = integers(repeats)
    if not any(isinstance(count, Dim) for count in counts):
        return rnp.tile(x, counts) if counts else x
    pairs = tuple(extent for pair in zip(counts, x.shape, strict=True) for extent in pair)
    repeated = emit(ops.expand, rnp.expand_dims(x, tuple(range(0, 2 * x.ndim, 2))), shape=pairs)
    return rnp.reshape(repeated, tuple(n * d for n, d in zip(counts, x.shape, strict=True)))


@operator("Tile")
def tile_axis(x: Any, repeats: Static, axis: Static = None) -> Any:
    if axis is None:
        return tile(x, repeats)
    counts = [1] * x.ndim
    counts[int(axis)] = int(repeats)
    return rnp.tile(x, tuple(counts))


@operator("Pad")
def pad(
    x: Any, pads: Static, value: Any = None, axes: Static = None, *, mode: str = "constant"
) -> Any:
    """Add elements around `x`; negative widths take some away."""
    named = range(x.ndim) if axes is None else [normalize_axis(a, x.ndim) for a in integers(axes)]
    widths, count = integers(pads), len(list(named))
    if len(widths) != 2 * count:
        raise FormatError(
            f"{len(widths)} widths for {count} axes; each has one before and one after",
            remedy="the model is malformed: export it again",
        )
    low: list[Extent] = [0] * x.ndim
    high: list[Extent] = [0] * x.ndim
    for place, axis in enumerate(named):
        low[axis], high[axis] = widths[place], widths[place + count]
    x = _cropped(x, low, high)
    before, after = ([0 if is_at_most(w, 0) else w for w in widths] for widths in (low, high))
    if mode != "constant":
        modes = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}
        return rnp.pad(x, tuple(zip(before, after, strict=True)), mode=modes[mode])
    fill = _as_float(value)
    if fill is not None:
        return emit(ops.pad, x, low=tuple(before), high=tuple(after), value=fill)
    inside = emit(ops.pad, rnp.ones(x.shape, "bool"), low=tuple(before), high=tuple(after))
    padded = emit(ops.pad, x, low=tuple(before), high=tuple(after))
    return rnp.where(inside, padded, rnp.reshape(value, ()))


def _as_float(value: Any) -> float | None:
    """Return the number that padding has as a float; None if that is another one."""
    if value is None:
        return 0.0
    number = np.reshape(value, ()).item() if isinstance(value, np.ndarray) else None
    if isinstance(number, complex):
        number = None if number.imag else number.real
    is_float = number is not None and (number != number or float(number) == number)
    return float(number) if number is not None and is_float else None


def _cropped(x: Any, low: Sequence[Extent], high: Sequence[Extent]) -> Any:
    for axis, (first, last) in enumerate(zip(low, high, strict=True)):
        start, end = (0 if is_at_most(0, width) else -width for width in (first, last))
        if start or end:
            length = x.shape[axis] - start - end
            x = emit(ops.narrow, x, axis=axis, start=start, length=length)
    return x


@operator("CenterCropPad")
def center_crop_pad(x: Any, shape: Static, *, axes: Any = None) -> Any:
    named = range(x.ndim) if axes is None else [normalize_axis(a, x.ndim) for a in axes]
    low, high = [0] * x.ndim, [0] * x.ndim
    for axis, wanted in zip(named, integers(shape), strict=True):
        missing = wanted - x.shape[axis]
        low[axis] = missing // 2 if missing >= 0 else -(-missing // 2)
        high[axis] = missing - low[axis]
    x = _cropped(x, low, high)
    before, after = tuple(max(w, 0) for w in low), tuple(max(w, 0) for w in high)
    return emit(ops.pad, x, low=before, high=after)


@operator("DepthToSpace")
def depth_to_space(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape
    b, rest = blocksize, c // blocksize**2
    if mode == "DCR":
        parts = rnp.transpose(rnp.reshape(x, (n, b, b, rest, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        parts = rnp.transpose(rnp.reshape(x, (n, rest, b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return rnp.reshape(parts, (n, rest, h * b, w * b))


@operator("SpaceToDepth")
def space_to_depth(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape
    b = blocksize
    parts = rnp.reshape(x, (n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return rnp.reshape(rnp.transpose(parts, order), (n, c * b * b, h // b, w // b))


@operator("Trilu")
def trilu(x: Any, k: Static = None, *, upper: int = 1) -> Any:
    rows = positions(x.shape[-2])[:, None]
    columns = positions(x.shape[-1])[None, :]
    offset = 0 if k is None else int(np.reshape(k, ()))
    kept = columns - rows >= offset if upper else columns - rows <= offset
    return emit(ops.where, kept, x, np.zeros((), x.dtype))


def positions(extent: Extent) -> Any:
    """Return the numbers of the elements along an axis."""
    if isinstance(extent, int):
        return np.arange(listable(extent, "the positions along an axis"))
    return emit(ops.iota, type=TensorType(DType.I64, (extent,)))


def positions_along(extent: Extent, axis: int, rank: int) -> Any:
    """Return `positions` as an array of `rank` axes, all but one of which have extent 1."""
    return positions(extent).reshape(tuple(extent if a == axis else 1 for a in range(rank)))


@operator("EyeLike")
def eye_like(x: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    made = x.dtype if dtype is None else numpy_dtype(dtype)
    rows, columns = map(positions, x.shape)
    diagonal = rnp.equal(columns[None, :], rows[:, None] + k)
    return rnp.astype(diagonal, made)


@operator("Range")
def range_(start: Static, limit: Static, delta: Static, *, stash_type: int = 1) -> Any:
    del stash_type  # computed in f64
    if any(map(is_symbolic, (start, limit, delta))):
        return _symbolic_range(start, limit, delta)
    first, last, step = (np.reshape(each, ()) for each in (start, limit, delta))
    if not step or not all(map(np.isfinite, (first, last, step))):
        raise FormatError(
            f"the range from {first} to {last} in steps of {step} has no number of elements",
            remedy="give finite bounds and a step other than 0",
        )
    exact = (float(last) - float(first)) / float(step)
    if math.isinf(exact):
        raise current_budget().exceeded("elements", exact, "the range")
    count = listable(max(math.ceil(exact), 0), "the range")
    wide = np.int64 if first.dtype.kind in "iu" else np.float64
    numbers: Any = first.astype(wide) + np.arange(count) * step.astype(wide)
    return numbers.astype(first.dtype)


def _symbolic_range(start: Any, limit: Any, delta: Any) -> Any:
    """Return a range whose length is symbolic."""
    (first,), (last,), (step,) = map(integers, (start, limit, delta))
    if isinstance(step, Dim) or step == 0:
        raise UnsupportedError(
            f"the range moves in steps of {step}",
            remedy="load the model with a number for the extent",
        )
    away = last - first if step > 0 else first - last
    count = _not_negative(floor_divide(away + (abs(step) - 1), abs(step)), first, last)
    kept = next(each.integers for each in (start, limit) if is_symbolic(each))
    numbers = emit(ops.iota, type=TensorType(as_dtype(kept), (count,)))
    begin = computed(start) if is_symbolic(start) else first
    return rnp.astype(numbers * step + rnp.reshape(begin, ()), kept)


def _not_negative(count: Extent, first: Extent, last: Extent) -> Extent:
    """Return how many numbers a range has, which is none where it would end before it starts."""
    if is_at_most(0, count):
        return count
    if is_at_most(count, 0):
        return 0
    raise UnsupportedError(
        f"the extents leave open whether the range from {first} to {last} is empty",
        remedy="bound them so that it is known: rlx.Dim(name, min=..., max=...)",
    )


@operator("ReverseSequence")
def reverse_sequence(x: Any, lengths: Any, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    """Reverse the first `lengths[i]` steps of each sequence."""
    moved = rnp.moveaxis(x, (batch_axis, time_axis), (0, 1))
    steps = positions_along(moved.shape[1], 1, 2)
    counts = rnp.expand_dims(lengths, 1)
    places = rnp.where(rnp.less(steps, counts), counts - 1 - steps, steps)
    places = rnp.reshape(places, (*places.shape, *(1,) * (x.ndim - 2)))
    taken = rnp.take_along_axis(moved, rnp.broadcast_to(places, moved.shape), 1)
    return rnp.moveaxis(taken, (0, 1), (batch_axis, time_axis))
