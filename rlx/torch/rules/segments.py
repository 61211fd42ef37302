"""Reductions of segments, and histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rlx
import rlx.numpy as rnp
from rlx.errors import UnsupportedError
from rlx.torch.registry import rule

_FOLDS: dict[str, tuple[Any, Any]] = {
    "sum": (rnp.sum, 0.0), "mean": (rnp.sum, 0.0), "prod": (rnp.prod, 1.0),
    "max": (rnp.max, -math.inf), "min": (rnp.min, math.inf),
}  # fmt: skip
"""How a segment is folded, and what an empty one gives."""


@rule("segment_reduce")
def segment_reduce(
    x: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None,
    axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Any:  # fmt: skip
    """Fold segments of an axis; of the first axes, each row has lengths of its own."""
    del unsafe
    if indices is not None:
        raise UnsupportedError("segment_reduce takes no indices", remedy="use scatter_reduce")
    if offsets is None:
        ends = rnp.cumsum(lengths, -1)
        starts = ends - lengths
    else:
        starts, ends = offsets[..., :-1], offsets[..., 1:]
    places = rnp.arange(x.shape[axis])
    inside = rnp.logical_and(
        rnp.greater_equal(places, rnp.expand_dims(starts, -1)),
        rnp.less(places, rnp.expand_dims(ends, -1)),
    )
    inside = rnp.reshape(inside, (*inside.shape, *(1,) * (x.ndim - axis - 1)))
    fold, neutral = _FOLDS[reduce]
    first = neutral if initial is None else initial
    given = rnp.where(inside, rnp.expand_dims(x, axis), neutral)
    found = fold(given, axis + 1, initial=first)
    if reduce != "mean":
        return found
    counts = rnp.sum(inside.astype(x.dtype), axis + 1)
    empty = math.nan if initial is None else initial
    return rnp.where(rnp.equal(counts, 0), empty, found / rnp.maximum(counts, 1))


@rule("_segment_reduce_backward")
def segment_reduce_backward(
    g: Any, result: Any, x: Any, reduce: str, *, lengths: Any = None, offsets: Any = None,
    axis: int = 0, initial: Any = None,
) -> Any:  # fmt: skip
    del result

    def apply(x: Any) -> Any:
        return segment_reduce(
            x, reduce, lengths=lengths, offsets=offsets, axis=axis, initial=initial
        )

    return rlx.vjp(apply, x)[1](g)[0]


def _edges(x: Any, bins: int, bounds: Sequence[float] | None) -> Any:
    """Return the ends of bins of the same width; of a single number, half of one around it."""
    if bounds is not None:
        low, high = (rnp.asarray(n).astype(x.dtype) for n in bounds)
    elif x.size == 0:
        low, high = rnp.zeros((), x.value.dtype), rnp.ones((), x.value.dtype)
    else:
        low, high = rnp.min(x), rnp.max(x)
    is_one = rnp.equal(low, high)
    low, high = rnp.where(is_one, low - 0.5, low), rnp.where(is_one, high + 0.5, high)
    return rnp.linspace(low, high, bins + 1).astype(x.dtype)


def _histogram(x: Any, edges: Sequence[Any], weight: Any, density: bool) -> Any:
    """Count rows of `x`, `[rows, axes]`, in a grid of bins; the last edges belong to it."""
    counts = tuple(e.shape[0] - 1 for e in edges)
    inside, flat = rnp.ones((x.shape[0],), "bool"), rnp.zeros((x.shape[0],), "i64")
    for axis, (own, count) in enumerate(zip(edges, counts, strict=True)):
        column = x[:, axis]
        place = rnp.searchsorted(own, column, side="right") - 1
        place = rnp.where(rnp.equal(column, own[-1]), count - 1, place)
        inside = rnp.logical_and(
            inside, rnp.logical_and(rnp.greater_equal(place, 0), rnp.less(place, count))
        )
        flat = flat * count + rnp.clip(place, 0, count - 1)
    ones = rnp.ones((x.shape[0],), x.value.dtype)
    added = rnp.where(inside, ones if weight is None else rnp.reshape(weight, (-1,)), 0)
    total = rnp.zeros((math.prod(counts),), x.value.dtype).at[flat].add(added.astype(x.dtype))
    found = rnp.reshape(total, counts)
    if not density:
        return found
    volume: Any = 1
    for axis, own in enumerate(edges):
        shape = tuple(-1 if i == axis else 1 for i in range(len(edges)))
        volume = volume * rnp.reshape(own[1:] - own[:-1], shape)
    return found / volume / rnp.sum(found)


@rule("histogram.bin_ct")
def histogram(
    x: Any, bins: int = 100, *, range: Any = None, weight: Any = None, density: bool = False
) -> tuple[Any, Any]:
    flat = rnp.reshape(x, (-1, 1))
    edges = _edges(flat, bins, range)
    return _histogram(flat, [edges], weight, density), edges


@rule("histogram.bins_tensor")
def histogram_between(
    x: Any, bins: Any, *, weight: Any = None, density: bool = False
) -> tuple[Any, Any]:
    return _histogram(rnp.reshape(x, (-1, 1)), [bins], weight, density), bins


@rule("_histogramdd_bin_edges")
def histogramdd_edges(
    x: Any, bins: Sequence[int], *, range: Any = None, weight: Any = None, density: bool = False
) -> list[Any]:
    del weight, density
    flat = rnp.reshape(x, (-1, x.shape[-1]))
    bounds = [None] * len(bins) if range is None else [range[i : i + 2] for i in _pairs(bins)]
    pairs = zip(bins, bounds, strict=True)
    return [_edges(flat[:, axis], n, own) for axis, (n, own) in enumerate(pairs)]


def _pairs(bins: Sequence[int]) -> list[int]:
    return [2 * i for i, _ in enumerate(bins)]


@rule("_histogramdd_from_bin_cts")
def histogramdd(
    x: Any, bins: Sequence[int], *, range: Any = None, weight: Any = None, density: bool = False
) -> Any:
    edges = histogramdd_edges(x, bins, range=range)
    return _histogram(rnp.reshape(x, (-1, x.shape[-1])), edges, weight, density)


@rule("_histogramdd_from_bin_tensors")
def histogramdd_between(
    x: Any, bins: Sequence[Any], *, weight: Any = None, density: bool = False
) -> Any:
    return _histogram(rnp.reshape(x, (-1, x.shape[-1])), list(bins), weight, density)
