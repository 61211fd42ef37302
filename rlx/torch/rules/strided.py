"""Views of a tensor's memory by strides."""

from __future__ import annotations

import functools
from typing import Any

import rlx.numpy as rnp
from rlx.errors import UnsupportedError
from rlx.ir.shape import Extent, Shape, product, upper
from rlx.torch.registry import Memory, rule


@rule("sym_stride.int", strides=True)
def stride(x: Any, axis: int, *, memory: Memory) -> Extent:
    del x
    return memory.strides[axis]


@rule("as_strided", "as_strided_copy", strides=True)
def as_strided(
    x: Any, size: Shape, strides: Shape, offset: Extent | None = None, *, memory: Memory
) -> Any:
    """Elements by their places in memory: slices of it where they are, else a gather."""
    start = memory.offset if offset is None else offset
    sliced = _sliced(x, memory, size, strides, start)
    if sliced is not None:
        return sliced
    dense = _in_memory_order(x, memory)
    if start == 0 and product(size) == product(dense.shape) and _are_rows(size, strides):
        return rnp.reshape(dense, tuple(size))
    return rnp.reshape(dense, (-1,))[_places(size, strides, start)]


@rule("as_strided_scatter", strides=True)
def as_strided_scatter(
    x: Any,
    source: Any,
    size: Shape,
    strides: Shape,
    offset: Extent | None = None,
    *,
    memory: Memory,
) -> Any:
    _require_rows(memory.is_row_major(x.shape) and memory.offset == 0)
    places = _places(size, strides, 0 if offset is None else offset)
    return rnp.reshape(rnp.reshape(x, (-1,)).at[places].set(source), x.shape)


def _are_rows(size: Shape, strides: Shape) -> bool:
    return Memory(tuple(strides), 0).is_row_major(tuple(size))


def _in_memory_order(x: Any, memory: Memory) -> Any:
    """Return a tensor with its axes in the order of memory, and without those that repeat it."""
    once = [slice(0, 1) if step == 0 else slice(None) for step in memory.strides]
    x = x[tuple(once)] if slice(0, 1) in once else x
    order = sorted(range(x.ndim), key=lambda axis: -upper(memory.strides[axis]))
    if order != list(range(x.ndim)):
        x = rnp.transpose(x, order)
    ordered = Memory(tuple(memory.strides[axis] for axis in order), 0)
    _require_rows(ordered.is_row_major(x.shape) and memory.offset == 0)
    return x


def _require_rows(is_dense: bool) -> None:
    if not is_dense:
        raise UnsupportedError(
            "the view reaches memory that is not its operand's",
            remedy="take the view of the whole tensor, or of a copy: x.contiguous()",
        )


def _sliced(x: Any, memory: Memory, size: Shape, strides: Shape, offset: Extent) -> Any:
    """Return the view as slices of axes in another order, or None if it is not of that form."""
    starts = _starts(x.shape, memory, offset)
    if starts is None:
        return None
    index = [slice(start, start + 1) for start in starts]
    order: list[int] = []
    for extent, step in zip(size, strides, strict=True):
        if extent == 1:
            continue
        axis = _axis_of(x.shape, memory, step)
        if axis is None or axis in order:
            return None
        order.append(axis)
        part = _part(starts[axis], extent, x.shape[axis])
        if part is None:
            return None
        index[axis] = part
    others = [axis for axis in range(x.ndim) if axis not in order]
    return rnp.reshape(rnp.transpose(x[tuple(index)], [*others, *order]), tuple(size))


def _axis_of(shape: Shape, memory: Memory, step: Extent) -> int | None:
    """Return the axis whose neighbors are `step` elements apart."""
    steps = enumerate(memory.strides)
    return next((n for n, each in steps if each == step and shape[n] != 1), None)


def _part(start: int, extent: Extent, whole: Extent) -> slice | None:
    if extent == whole and start == 0:
        return slice(None)
    if isinstance(extent, int) and isinstance(whole, int) and start + extent <= whole:
        return slice(start, start + extent)
    return None


def _starts(shape: Shape, memory: Memory, offset: Extent) -> list[int] | None:
    """Return the index along each axis of the element at `offset`, None if it varies or is none."""
    starts = [0] * len(shape)
    if offset == memory.offset:
        return starts
    if not all(isinstance(n, int) for n in (offset, memory.offset, *shape, *memory.strides)):
        return None
    rest = upper(offset) - upper(memory.offset)
    for axis in sorted(range(len(shape)), key=lambda axis: -upper(memory.strides[axis])):
        step = upper(memory.strides[axis])
        if step and shape[axis] != 1:
            starts[axis], rest = divmod(rest, step)
    inside = all(0 <= start < upper(n) for start, n in zip(starts, shape, strict=True))
    return starts if rest == 0 and inside else None


def _places(size: Shape, strides: Shape, offset: Extent) -> Any:
    """Return the flat places of the elements of a view."""
    rank = len(size)
    steps = [
        rnp.reshape(rnp.arange(extent) * step, (*[1] * axis, extent, *[1] * (rank - 1 - axis)))
        for axis, (extent, step) in enumerate(zip(size, strides, strict=True))
    ]
    return functools.reduce(rnp.add, steps, rnp.asarray(offset))
