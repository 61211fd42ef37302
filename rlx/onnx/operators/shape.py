"""Operators that move elements, and those that tell or make shapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import FormatError, ShapeError
from rlx.ir import ops
from rlx.ir.shape import Dim, broadcast_shapes, normalize_axis, product
from rlx.onnx.registry import Static, operator
from rlx.onnx.symbolic import extents_array
from rlx.onnx.types import numpy_dtype
from rlx.tracing.apply import emit

_MOST_LISTED = 1 << 28


def listable(count: int, what: str) -> int:
    """Return a number of elements that are written out one by one while importing."""
    if count > _MOST_LISTED:
        raise ShapeError(
            f"{what} has {count} elements; {_MOST_LISTED} are the most",
            remedy="check the model: this is more than it can mean",
        )
    return count


def integers(values: Any) -> tuple[Any, ...]:
    """Return a known vector as extents."""
    return tuple(v if isinstance(v, Dim) else int(v) for v in np.atleast_1d(values))


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
    if -1 in wanted and 0 in x.shape:  # what is left over is not told by the elements
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
    """Parts of given sizes; else of equal ones, of which the last may be smaller."""
    position = normalize_axis(axis, x.ndim)
    extent = x.shape[position]
    count = num_outputs or node.outputs
    if sizes is None:
        part = -(-extent // count)
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
        index[normalize_axis(axis, x.ndim)] = _resolved(x.shape, axis, first, last, step)
    return rnp.getitem(x, tuple(index))


def _resolved(shape: Any, axis: int, first: Any, last: Any, step: int) -> slice:
    """Bring the bounds of a slice into its axis; Python counts a negative end from the back.

    A backward slice that starts before the axis starts at its first element.
    """
    extent = shape[axis]
    if not isinstance(extent, int) or isinstance(last, Dim):
        whole = first == 0 and step == 1 and (last == extent or _is_large(last))
        return slice(None) if whole else slice(first, last, step)
    if step < 0:
        last = last + extent if -extent <= last < 0 else last
        first = first + extent if first < 0 else first
        return slice(max(min(first, extent - 1), 0), None if last < 0 else last, step)
    return slice(first, last, step)


def _is_large(last: Any) -> bool:
    return isinstance(last, int) and last >= np.iinfo(np.int32).max


@operator("Tile", since=6)
def tile(x: Any, repeats: Static) -> Any:
    return rnp.tile(x, integers(repeats)) if repeats.size else x


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
    low, high = [0] * x.ndim, [0] * x.ndim
    for place, axis in enumerate(named):
        low[axis], high[axis] = widths[place], widths[place + count]
    x = _cropped(x, low, high)
    before, after = [max(w, 0) for w in low], [max(w, 0) for w in high]
    if mode != "constant":
        modes = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}
        return rnp.pad(x, tuple(zip(before, after, strict=True)), mode=modes[mode])
    if value is None or isinstance(value, np.ndarray):
        fill = 0 if value is None else np.reshape(value, ()).item()
        return emit(ops.pad, x, low=tuple(before), high=tuple(after), value=fill)
    inside = emit(ops.pad, rnp.ones(x.shape, "bool"), low=tuple(before), high=tuple(after))
    padded = emit(ops.pad, x, low=tuple(before), high=tuple(after))
    return rnp.where(inside, padded, rnp.reshape(value, ()))


def _cropped(x: Any, low: list[int], high: list[int]) -> Any:
    if min([*low, *high], default=0) >= 0:
        return x
    index = tuple(
        slice(max(-first, 0), extent - max(-last, 0))
        for first, last, extent in zip(low, high, x.shape, strict=True)
    )
    return rnp.getitem(x, index)


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
    rows = np.arange(x.shape[-2])[:, None]
    columns = np.arange(x.shape[-1])[None, :]
    offset = 0 if k is None else int(np.reshape(k, ()))
    kept = columns - rows >= offset if upper else columns - rows <= offset
    return emit(ops.where, kept, x, np.zeros((), x.dtype))


@operator("EyeLike")
def eye_like(x: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    made = x.dtype if dtype is None else numpy_dtype(dtype)
    return np.eye(x.shape[0], x.shape[1], k).astype(made)


@operator("Range")
def range_(start: Static, limit: Static, delta: Static, *, stash_type: int = 1) -> Any:
    del stash_type  # computed in f64
    first, step = np.reshape(start, ()), np.reshape(delta, ())
    exact = (float(np.reshape(limit, ())) - float(first)) / float(step)
    count = listable(max(math.ceil(exact), 0), "the range")
    wide = np.int64 if first.dtype.kind in "iu" else np.float64
    numbers: Any = first.astype(wide) + np.arange(count) * step.astype(wide)
    return numbers.astype(first.dtype)


@operator("ReverseSequence")
def reverse_sequence(x: Any, lengths: Any, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    """Reverse the first `lengths[i]` steps of each sequence."""
    moved = rnp.moveaxis(x, (batch_axis, time_axis), (0, 1))
    steps = np.arange(moved.shape[1])[None, :]
    counts = rnp.expand_dims(lengths, 1)
    places = rnp.where(rnp.less(steps, counts), counts - 1 - steps, steps)
    places = rnp.reshape(places, (*places.shape, *(1,) * (x.ndim - 2)))
    taken = rnp.take_along_axis(moved, rnp.broadcast_to(places, moved.shape), 1)
    return rnp.moveaxis(taken, (0, 1), (batch_axis, time_axis))
