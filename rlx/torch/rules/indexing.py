"""Gathers, scatters and masks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rlx.numpy as rnp
from rlx.ir.dtype import DType
from rlx.torch.registry import rule
from rlx.torch.rules.elementwise import cast


@rule("index_select")
def index_select(x: Any, axis: int, index: Any) -> Any:
    if x.ndim == 0:
        return x
    return rnp.take(x, rnp.reshape(index, (-1,)), axis)


@rule("gather")
def gather(x: Any, axis: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """`x[i0, index[i0, i1], ...]` at every place of `index`, which may be smaller than `x`."""
    del sparse_grad
    if x.ndim == 0 or index.ndim == 0:
        return rnp.reshape(rnp.reshape(x, (-1,))[rnp.reshape(index, (-1,))], index.shape)
    if 0 in index.shape:
        return rnp.zeros(index.shape, x.value.dtype)
    return rnp.take_along_axis(_cut(x, index.shape, axis), index, axis)


def _cut(x: Any, shape: Sequence[Any], axis: int) -> Any:
    """Return the part of `x` that an index of `shape` reaches along all other axes."""
    whole = [slice(None) if i == axis % x.ndim or x.shape[i] == n else slice(0, n)
             for i, n in enumerate(shape)]  # fmt: skip
    return x if all(part == slice(None) for part in whole) else x[tuple(whole)]


def places_along(x: Any, axis: int, index: Any) -> tuple[Any, ...]:
    """Return an index array per axis: `index` along `axis`, the place itself along others."""
    axis %= x.ndim
    places = []
    for i, n in enumerate(index.shape):
        shape = tuple(-1 if j == i else 1 for j in range(index.ndim))
        places.append(index if i == axis else rnp.reshape(rnp.arange(n), shape))
    return tuple(places)


def _scattered(x: Any, axis: int, index: Any, source: Any, update: str) -> Any:
    if x.ndim == 0:
        flat = _scattered(rnp.reshape(x, (1,)), 0, rnp.reshape(index, (-1,)), _flat(source), update)
        return rnp.reshape(flat, ())
    if index.ndim == 0:
        index, source = rnp.reshape(index, (1,)), _flat(source)
    if 0 in index.shape:
        return x
    if getattr(source, "ndim", 0):
        source = source[tuple(slice(0, n) for n in index.shape)]
    return updated(x, places_along(x, axis, index), source, update)


def updated(x: Any, places: Any, source: Any, update: str) -> Any:
    """Return `x` with `source` set or folded in at `places`; a sum of bools is their `or`."""
    if x.value.dtype is DType.BOOL and update != "set":
        source = rnp.asarray(source).astype(DType.U8)
        update = {"add": "max", "multiply": "min"}.get(update, update)
        return updated(x.astype(DType.U8), places, source, update).astype(DType.BOOL)
    return getattr(x.at[places], update)(source)


def _flat(x: Any) -> Any:
    return rnp.reshape(x, (-1,)) if hasattr(x, "ndim") else x


_UPDATES = {"add": "add", "sum": "add", "multiply": "multiply", "prod": "multiply",
            "amax": "max", "amin": "min"}  # fmt: skip


@rule("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce")
def scatter(x: Any, axis: int, index: Any, source: Any, *, reduce: str | None = None) -> Any:
    if not hasattr(source, "ndim"):
        source = rnp.full(index.shape, source).astype(x.value.dtype)
    return _scattered(x, axis, index, source, "set" if reduce is None else _UPDATES[reduce])


@rule("scatter_add")
def scatter_add(x: Any, axis: int, index: Any, source: Any) -> Any:
    return _scattered(x, axis, index, source, "add")


@rule("scatter_reduce.two")
def scatter_reduce(
    x: Any, axis: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    dtype = x.value.dtype
    if x.ndim == 0:
        found = scatter_reduce(rnp.reshape(x, (1,)), 0, _flat(index), _flat(source), reduce,
                               include_self=include_self)  # fmt: skip
        return rnp.reshape(found, ())
    if index.ndim == 0:
        index, source = _flat(index), _flat(source)
    if 0 in index.shape:
        return x
    start = x
    if not include_self:
        neutral = _neutral(reduce, dtype)
        start = _scattered(x, axis, index, rnp.full(index.shape, neutral, dtype), "set")
    if reduce != "mean":
        return _scattered(start, axis, index, source, _UPDATES[reduce])
    total = _scattered(start, axis, index, source, "add")
    ones = rnp.ones(index.shape, "i64")
    counts = rnp.full(x.shape, 1 if include_self else 0, "i64")
    counts = rnp.maximum(_scattered(counts, axis, index, ones, "add"), 1)
    if dtype.is_differentiable:
        return total / counts.astype(dtype)
    return rnp.floor_divide(total, counts.astype(dtype))


def _neutral(reduce: str, dtype: DType) -> Any:
    if reduce == "prod":
        return 1
    if reduce in ("sum", "mean"):
        return 0
    if dtype is DType.BOOL:
        return reduce == "amin"
    if dtype.is_float:
        return -float("inf") if reduce == "amax" else float("inf")
    limits = rnp.iinfo(dtype.numpy)
    return limits.min if reduce == "amax" else limits.max


@rule("index.Tensor", "_unsafe_index.Tensor")
def index(x: Any, indices: Sequence[Any]) -> Any:
    return x[_numpy_index(indices)]


def _numpy_index(indices: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(slice(None) if each is None else each for each in indices)


@rule("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(
    x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False, unsafe: bool = False
) -> Any:
    del unsafe
    masks = [each for each in indices if each is not None and each.value.dtype is DType.BOOL]
    if masks:
        return _put_where(x, indices, values, accumulate)
    values = values.astype(x.value.dtype)
    return updated(x, _numpy_index(indices), values, "add" if accumulate else "set")


def _put_where(x: Any, indices: Sequence[Any], values: Any, accumulate: bool) -> Any:
    """Put one value at all places of a mask."""
    from rlx.errors import UnsupportedError

    if len([each for each in indices if each is not None]) > 1 or values.size != 1:
        raise UnsupportedError(
            "puts several values at the places of a mask, whose count only a run gives",
            remedy="use torch.where, or masked_scatter",
        )
    lead = next(i for i, each in enumerate(indices) if each is not None)
    mask = indices[lead]
    shape = (1,) * lead + mask.shape + (1,) * (x.ndim - lead - mask.ndim)
    value = rnp.reshape(values, ()).astype(x.value.dtype)
    return rnp.where(rnp.reshape(mask, shape), x + value if accumulate else value, x)


@rule("index_add")
def index_add(x: Any, axis: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    source = source if alpha == 1 else (source * alpha).astype(x.value.dtype)
    return _along(x, axis, index, source, "add")


@rule("index_reduce")
def index_reduce(
    x: Any, axis: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    shape = tuple(-1 if i == axis % x.ndim else 1 for i in range(x.ndim))
    wide = rnp.broadcast_to(rnp.reshape(index, shape), source.shape)
    return scatter_reduce(x, axis, wide, source, reduce, include_self=include_self)


def _along(x: Any, axis: int, index: Any, source: Any, update: str) -> Any:
    index = rnp.reshape(index, (-1,))
    if x.ndim == 0:
        flat = rnp.reshape(x, (1,))
        return rnp.reshape(_along(flat, 0, index, rnp.reshape(source, (-1,)), update), ())
    return updated(x, (*(slice(None),) * (axis % x.ndim), index), source, update)


@rule("masked_scatter")
def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """Elements of `source`, in their order, at the places of the mask."""
    shape = rnp.broadcast_shapes(x.shape, mask.shape)
    x, mask = rnp.broadcast_to(x, shape), rnp.broadcast_to(mask, shape)
    flat = rnp.reshape(mask, (-1,))
    places = rnp.cumsum(flat.astype("i64"), 0) - 1
    given = rnp.reshape(source, (-1,))
    if 0 in (*given.shape, *flat.shape):
        return x
    found = given[rnp.clip(places, 0, given.shape[0] - 1)]
    return rnp.where(mask, rnp.reshape(found, x.shape), x)


@rule("masked_scatter_backward")
def masked_scatter_backward(g: Any, mask: Any, shape: Sequence[Any]) -> Any:
    """The gradients of the elements that were read, then zeros."""
    flat = rnp.reshape(rnp.broadcast_to(mask, g.shape), (-1,))
    count = math.prod(shape)
    if 0 in (*shape, *flat.shape):
        return rnp.zeros(tuple(shape), g.value.dtype)
    places = rnp.clip(rnp.cumsum(flat.astype("i64"), 0) - 1, 0, count - 1)
    given = rnp.where(flat, rnp.reshape(g, (-1,)), 0)
    total = rnp.zeros((count,), g.value.dtype).at[places].add(given)
    return rnp.reshape(total, tuple(shape))


@rule("put")
def put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    flat, places = rnp.reshape(x, (-1,)), rnp.reshape(index, (-1,))
    source = rnp.reshape(source, (-1,))
    return rnp.reshape(updated(flat, places, source, "add" if accumulate else "set"), x.shape)


@rule("embedding")
def embedding(table: Any, index: Any, *_: Any, **named: Any) -> Any:
    del named
    return rnp.take(table, index, 0)


@rule("_embedding_bag", "_embedding_bag_forward_only", typed=True)
def embedding_bag(
    result: Any, table: Any, index: Any, offsets: Any, *given: Any, **named: Any
) -> tuple[Any, ...]:
    """The result, and what its gradient reads; PyTorch leaves some of it empty."""
    found = _embedding_bag(table, index, offsets, *given, **named)
    return tuple(
        x if x.shape == type.shape else rnp.zeros(type.shape, type.dtype)
        for x, type in zip(found, result, strict=True)
    )


def _embedding_bag(
    table: Any, index: Any, offsets: Any, scaled: bool = False, mode: int = 0,
    sparse: bool = False, weights: Any = None, include_last: bool = False, padding: int = -1,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Sums, means or largest of rows, in bags that begin at `offsets`."""
    del scaled, sparse
    starts = offsets[:-1] if include_last else offsets
    bags, count = starts.shape[0], index.shape[0]
    bag_of = rnp.searchsorted(starts, rnp.arange(count).astype(starts.dtype), side="right") - 1
    rows = rnp.take(table, index, 0)
    is_padding = rnp.equal(index, padding) if padding >= 0 else rnp.zeros((count,), "bool")
    present = rnp.logical_not(is_padding)
    sizes = rnp.zeros((bags,), "i64").at[bag_of].add(present.astype("i64"))
    if mode == 2:
        low = rnp.full((bags, table.shape[1]), -float("inf"), table.value.dtype)
        masked = rnp.where(rnp.expand_dims(is_padding, 1), -float("inf"), rows)
        largest = low.at[bag_of].max(masked)
        result = rnp.where(rnp.expand_dims(rnp.equal(sizes, 0), 1), 0, largest)
        is_it = rnp.logical_and(rnp.equal(rows, result[bag_of]), rnp.expand_dims(present, 1))
        order = rnp.where(is_it, rnp.expand_dims(rnp.arange(count), 1), count)
        first = rnp.full((bags, table.shape[1]), count, "i64").at[bag_of].min(order)
        chosen = rnp.where(rnp.less(first, count), first, 0)
        winners = rnp.where(rnp.less(first, count), index[chosen], 0) if count else first
        return result, bag_of, sizes, winners
    if weights is not None:
        rows = rows * rnp.expand_dims(weights, 1)
    rows = rnp.where(rnp.expand_dims(is_padding, 1), 0, rows)
    total = rnp.zeros((bags, table.shape[1]), table.value.dtype).at[bag_of].add(rows)
    if mode == 1:
        total = total / rnp.expand_dims(rnp.maximum(sizes, 1), 1).astype(total.dtype)
    return total, bag_of, sizes, sizes


@rule("_embedding_bag_backward")
def embedding_bag_backward(
    g: Any, index: Any, offsets: Any, offset2bag: Any, sizes: Any, winners: Any, rows: Any,
    scaled: bool, mode: int, sparse: bool = False, weights: Any = None, padding: int = -1,
) -> Any:  # fmt: skip
    """The gradient by the table: rows of `g` at the indices of their bags."""
    total = rnp.zeros((rows, g.shape[1]), g.value.dtype)
    if mode == 2:
        columns = rnp.arange(g.shape[1])
        found = rnp.where(rnp.expand_dims(rnp.equal(sizes, 0), 1), 0, g) if sizes.size else g
        return total.at[winners, columns].add(found)
    bag_of = _bags(offsets, index, g.shape[0])
    steps = rnp.take(g, bag_of, 0)
    is_padding = rnp.equal(index, padding) if padding >= 0 else rnp.zeros(index.shape, "bool")
    if mode == 1:
        present = rnp.logical_not(is_padding).astype("i64")
        counts = rnp.zeros((g.shape[0],), "i64").at[bag_of].add(present)
        steps = steps / rnp.expand_dims(rnp.maximum(counts, 1)[bag_of], 1).astype(g.dtype)
    if weights is not None:
        steps = steps * rnp.expand_dims(weights, 1)
    steps = rnp.where(rnp.expand_dims(is_padding, 1), 0, steps)
    if scaled:
        uses = rnp.zeros((rows,), g.value.dtype).at[index].add(1)
        steps = steps / rnp.expand_dims(uses[index], 1)
    return total.at[index].add(steps)


@rule("_embedding_bag_per_sample_weights_backward")
def embedding_bag_weights_backward(
    g: Any, table: Any, index: Any, offsets: Any, offset2bag: Any, mode: int, padding: int = -1
) -> Any:
    steps = rnp.take(g, _bags(offsets, index, g.shape[0]), 0)
    found = rnp.sum(steps * rnp.take(table, index, 0), 1)
    return rnp.where(rnp.equal(index, padding), 0, found) if padding >= 0 else found


def _bags(offsets: Any, index: Any, count: int) -> Any:
    """Return the bag of each index."""
    places = rnp.arange(index.shape[0]).astype(offsets.dtype)
    return rnp.searchsorted(offsets[:count], places, side="right") - 1


@rule("nonzero_static")
def nonzero_static(x: Any, *, size: int, fill_value: int = -1) -> Any:
    """The first `size` places that are not zero."""
    if x.ndim == 0:
        return rnp.zeros((size, 0), "i64")
    found = rnp.nonzero(x, size=size, fill_value=fill_value)
    return rnp.stack(found, -1)


@rule("prims.copy_to", typed=True)
def copy_to(result: Any, x: Any, source: Any) -> Any:
    del x
    return cast(source, result.dtype)
