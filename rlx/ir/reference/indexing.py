"""Run-time indexing in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx.errors import IndexOutOfRangeError
from rlx.ir import ops
from rlx.ir.reference.reduction import bounds
from rlx.ir.reference.registry import Array, reference


def decoded(indices: Array, extent: int, what: str) -> Array:
    """Return i64 indices; IndexOutOfRangeError names the first outside [0, extent) or NaN."""
    values = np.trunc(indices) if np.issubdtype(indices.dtype, np.floating) else indices
    bad = ~((values >= 0) & (values < extent))  # not `<` and `>=`, which NaN would pass
    if bad.any():
        position = tuple(int(i) for i in np.argwhere(bad)[0])
        raise IndexOutOfRangeError(
            f"{what} at position {position} is {indices[position]}; it must be in [0, {extent})",
            remedy="clip the indices, or check them before the call",
        )
    return values.astype(np.int64)


@reference.exact(ops.gather)
def gather(table: Array, indices: Array, *, axis: int) -> Array:
    rows = decoded(indices, table.shape[axis], "index")
    return np.take(table, rows, axis=axis)


@reference(ops.gather_backward)
def gather_backward(dy: Array, indices: Array, *, axis: int, size: int) -> Array:
    position = axis % (dy.ndim - indices.ndim + 1)
    rows = decoded(indices, size, "index").reshape(-1)
    before = dy.shape[:position]
    after = dy.shape[position + indices.ndim :]
    slices = np.moveaxis(dy.reshape(*before, rows.size, *after), position, 0)
    result = np.zeros((size, *before, *after), dy.dtype)
    np.add.at(result, rows, slices)
    return np.moveaxis(result, 0, position)


def _scattered(ufunc: np.ufunc, start: Callable[[np.dtype[Any]], Any]) -> Callable[..., Array]:
    def scatter(updates: Array, indices: Array, *, size: int) -> Array:
        shape = (size, *updates.shape[indices.ndim :])
        result = np.full(shape, start(updates.dtype), updates.dtype)
        if updates.size:  # indices of no elements are not checked, as in compiled code
            ufunc.at(result, decoded(indices, size, "index"), updates)
        return result

    return scatter


reference.register(ops.scatter_add, _scattered(np.add, lambda _: 0))
reference.register(ops.scatter_mul, _scattered(np.multiply, lambda _: 1))
reference.register(ops.scatter_max, _scattered(np.maximum, lambda dtype: bounds(dtype)[0]))
reference.register(ops.scatter_min, _scattered(np.minimum, lambda dtype: bounds(dtype)[1]))


@reference.exact(ops.sort)
def sort(x: Array) -> Array:
    return np.take_along_axis(x, argsort(x), axis=-1)


@reference.exact(ops.argsort)
def argsort(x: Array) -> Array:
    """Stable; 16-bit floats are compared as f32, since NumPy's own order of bf16 has no NaN."""
    keys = x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x
    return np.argsort(keys, axis=-1, kind="stable").astype(np.int64)


def _digits(keys: Array, start: int, bits: int) -> Array:
    digits: Array = (keys >> start) & ((1 << bits) - 1)
    return digits.astype(np.int64)


def block_of(length: int, blocks: int) -> Array:
    """Return the block of each of `length` places."""
    bounds = np.arange(1, blocks + 1) * length // blocks
    block: Array = np.searchsorted(bounds, np.arange(length), side="right")
    return block


@reference.exact(ops.radix_counts)
def radix_counts(keys: Array, *, start: int, bits: int, blocks: int) -> Array:
    bins = block_of(len(keys), blocks) * (1 << bits) + _digits(keys, start, bits)
    counts = np.bincount(bins, minlength=blocks << bits)
    return counts.reshape(blocks, 1 << bits).astype(np.int32)


def places_from(starts: Array, bins: Array) -> Array:
    """Return a place for each: one after the other from where its bin starts."""
    order = np.argsort(bins, kind="stable")
    first = np.searchsorted(bins[order], bins)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(bins))
    places: Array = starts.reshape(-1)[bins] + rank - first
    return places


@reference.exact(ops.radix_move)
def radix_move(keys: Array, starts: Array, *, start: int, bits: int) -> Array:
    bins = block_of(len(keys), len(starts)) * (1 << bits) + _digits(keys, start, bits)
    moved = np.empty_like(keys)
    moved[places_from(starts, bins)] = keys
    return moved


@reference.exact(ops.sorted_values)
def sorted_values(keys: Array, x: Array) -> Array:
    del keys
    return sort(x)


@reference.exact(ops.topk)
def topk(x: Array, *, k: int) -> tuple[Array, Array]:
    """Sort backwards twice: a stable ascending sort of the reversed row, read from its end."""
    last = x.shape[-1] - 1
    ascending = argsort(x[..., ::-1])
    indices = (last - ascending[..., ::-1])[..., :k].astype(np.int64)
    return np.take_along_axis(x, indices, axis=-1), indices


@reference.exact(ops.dynamic_slice)
def dynamic_slice(x: Array, starts: Array, *, sizes: tuple[int, ...]) -> Array:
    return x[_block(x, starts, sizes)]


@reference.exact(ops.dynamic_update_slice)
def dynamic_update_slice(x: Array, update: Array, starts: Array) -> Array:
    result = x.copy()
    result[_block(x, starts, update.shape)] = update
    return result


def _block(x: Array, starts: Array, sizes: tuple[int, ...]) -> tuple[slice, ...]:
    clamped = [
        min(max(int(start), 0), extent - size)
        for start, extent, size in zip(starts, x.shape, sizes, strict=True)
    ]
    return tuple(slice(start, start + size) for start, size in zip(clamped, sizes, strict=True))
