"""Views and copies of elements: nothing is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx import lax
from rlx.errors import UnsupportedError
from rlx.ir.shape import Dim
from rlx.ir.source_lines import calling_source
from rlx.torch.registry import enter, rule

enter({
    "t t_copy": lambda x: rnp.transpose(x),
    "transpose.int transpose_copy.int": lambda x, i, j: rnp.swapaxes(x, i, j) if x.ndim else x,
    "mT": lambda x: rnp.swapaxes(x, -1, -2),
    "flip": lambda x, axes: rnp.flip(x, tuple(axes)) if len(axes) else x,
    "atleast_1d": rnp.atleast_1d,
    "unsqueeze unsqueeze_copy": rnp.expand_dims,
    "diagonal diagonal_copy": rnp.diagonal,
    "movedim.int movedim.intlist moveaxis.int moveaxis.intlist": rnp.moveaxis,
    "diag_embed": lambda x, offset=0, dim1=-2, dim2=-1: diag_embed(x, offset, dim1, dim2),
})  # fmt: skip


@rule("view", "reshape", "_unsafe_view", "view_copy", "_reshape_alias", "_reshape_copy")
def reshape(x: Any, shape: Sequence[Any], *_: Any) -> Any:
    return rnp.reshape(x, tuple(shape))


@rule("view.dtype", "view_copy.dtype", typed=True)
def reinterpret(result: Any, x: Any, dtype: Any) -> Any:
    """The same bits as elements of another type; the last axis takes the ratio of sizes."""
    old, new = x.value.dtype.size, dtype.size
    if old == new:
        return lax.bitcast_convert_type(x, dtype)
    if old > new:
        return rnp.reshape(lax.bitcast_convert_type(x, dtype), result.shape)
    grouped = rnp.reshape(x, (*x.shape[:-1], x.shape[-1] // (new // old), new // old))
    return lax.bitcast_convert_type(grouped, dtype)


@rule("resize", "resize_as", typed=True)
def resize(result: Any, x: Any, *_: Any, **named: Any) -> Any:
    """The first elements in a new shape; further ones, which PyTorch leaves open, are 0."""
    del named
    count, flat = math.prod(result.shape), rnp.reshape(x, (-1,))
    missing = max(count - x.size, 0)
    return rnp.reshape(rnp.pad(flat, (0, missing))[:count], result.shape)


@rule("permute", "permute_copy")
def permute(x: Any, axes: Sequence[int]) -> Any:
    return rnp.transpose(x, tuple(axis % max(x.ndim, 1) for axis in axes))


@rule("squeeze", "squeeze.dim", "squeeze.dims")
@rule("squeeze_copy", "squeeze_copy.dim", "squeeze_copy.dims")
def squeeze(x: Any, axes: Any = None) -> Any:
    named = range(x.ndim) if axes is None else axes if isinstance(axes, list) else [axes]
    chosen = {axis % max(x.ndim, 1) for axis in named}
    shape = [n for i, n in enumerate(x.shape) if not (i in chosen and n == 1)]
    return rnp.reshape(x, tuple(shape))


@rule("expand", "expand_copy")
def expand(x: Any, size: Sequence[Any], *, implicit: bool = False) -> Any:
    del implicit
    lead = len(size) - x.ndim
    shape = [x.shape[i - lead] if n == -1 else n for i, n in enumerate(size)]
    return rnp.broadcast_to(x, tuple(shape))


@rule("prims.broadcast_in_dim")
def broadcast_in_dim(x: Any, shape: Any, axes: Any) -> Any:
    return lax.broadcast_in_dim(x, tuple(shape), tuple(axes))


@rule("repeat_interleave.Tensor", typed=True)
def repeat_interleave(result: Any, repeats: Any, *, output_size: Any = None) -> Any:
    """The index of each element, as often as `repeats` says; `output_size` is their sum."""
    if output_size is None:
        raise UnsupportedError(
            "repeat_interleave with a tensor of repeats has as many elements as a run gives",
            source=calling_source(),
            remedy="give output_size, the sum of repeats",
        )
    places = rnp.arange(repeats.shape[0])
    found = rnp.repeat(places, repeats, total_repeat_length=output_size)
    return found.astype(result.dtype)


@rule("repeat", "tile")
def repeat(x: Any, counts: Sequence[Any]) -> Any:
    x = rnp.reshape(x, (1,) * (len(counts) - x.ndim) + tuple(x.shape))
    if any(isinstance(n, Dim) for n in (*x.shape, *counts)):
        return _tiled_by_extents(x, counts)
    return rnp.tile(x, tuple(counts))


def _tiled_by_extents(x: Any, counts: Sequence[Any]) -> Any:
    for axis, count in enumerate(counts):
        if not (isinstance(count, int) and count == 1):
            shape = x.shape
            wide = rnp.expand_dims(x, axis)
            wide = rnp.broadcast_to(wide, (*shape[:axis], count, *shape[axis:]))
            x = rnp.reshape(wide, (*shape[:axis], count * shape[axis], *shape[axis + 1 :]))
    return x


@rule("cat", "concat", "concatenate")
def cat(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Arrays of the one shape `(0,)` are left out, as in PyTorch."""
    kept = [x for x in arrays if not (x.ndim == 1 and x.shape[0] == 0)]
    return rnp.concatenate(kept or arrays, axis if kept else 0)


@rule("select.int", "select_copy.int")
def select(x: Any, axis: int, index: Any) -> Any:
    if isinstance(index, int):
        return x[(*(slice(None),) * (axis % x.ndim), index)]
    return rnp.take(x, index, axis)


@rule("slice.Tensor", "slice_copy.Tensor")
def slice_(x: Any, axis: int = 0, start: Any = None, stop: Any = None, step: int = 1) -> Any:
    return x[_places(x, axis, start, stop, step)]


def _places(x: Any, axis: int, start: Any, stop: Any, step: int) -> tuple[slice, ...]:
    extent = x.shape[axis]
    if isinstance(stop, int) and (stop >= 2**62 or (isinstance(extent, int) and stop >= extent)):
        stop = None
    if isinstance(start, int) and isinstance(extent, int):
        start = min(max(start + extent if start < 0 else start, 0), extent)
    return (*(slice(None),) * (axis % x.ndim), slice(start, stop, step))


@rule("narrow")
def narrow(x: Any, axis: int, start: Any, length: Any) -> Any:
    return slice_(x, axis, start, start + length)


@rule("slice_scatter")
def slice_scatter(
    x: Any, source: Any, axis: int = 0, start: Any = None, stop: Any = None, step: int = 1
) -> Any:
    return x.at[_places(x, axis, start, stop, step)].set(source.astype(x.value.dtype))


@rule("select_scatter")
def select_scatter(x: Any, source: Any, axis: int, index: Any) -> Any:
    places = (*(slice(None),) * (axis % x.ndim), index)
    return x.at[places].set(source.astype(x.value.dtype))


@rule("split_copy.Tensor")
def split(x: Any, size: int, axis: int = 0) -> list[Any]:
    starts = range(0, x.shape[axis], size)
    return [slice_(x, axis, start, start + size) for start in starts] or [x]


def diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Put the last axis on a diagonal of two new ones."""
    side, rank = x.shape[-1] + abs(offset), x.ndim + 1
    whole = rnp.zeros((*x.shape[:-1], side, side), x.value.dtype)
    filled = diagonal_scatter(whole, x, offset, -2, -1)
    return rnp.moveaxis(filled, (-2, -1), (dim1 % rank, dim2 % rank))


@rule("diagonal_scatter")
def diagonal_scatter(x: Any, source: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    front = rnp.moveaxis(x, (dim1, dim2), (-2, -1))
    count = rnp.diagonal(x, offset, dim1, dim2).shape[-1]
    rows = rnp.arange(count) + max(-offset, 0)
    columns = rnp.arange(count) + max(offset, 0)
    filled = front.at[..., rows, columns].set(source)
    return rnp.moveaxis(filled, (-2, -1), (dim1 % x.ndim, dim2 % x.ndim))


@rule("unfold", "unfold_copy")
def unfold(x: Any, axis: int, size: int, step: int) -> Any:
    """Windows of `size` along an axis, every `step`; their elements are the last axis."""
    if x.ndim == 0:
        return rnp.reshape(x, (size,)) if size else rnp.zeros((0,), x.value.dtype)
    axis %= x.ndim
    count = (x.shape[axis] - size) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(size)
    return rnp.moveaxis(rnp.take(x, places, axis), axis + 1, -1)
