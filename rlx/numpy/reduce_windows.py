"""Windowed reductions by any binary function (`reduce_window` in XLA)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from rlx.errors import ShapeError
from rlx.numpy.axes import static_shape
from rlx.numpy.indexing import getitem


def fold_windows(
    arrays: Sequence[Any],
    fold: Callable[[list[Any], list[Any]], list[Any]],
    sizes: Sequence[int],
    steps: Sequence[int],
    dilation: Sequence[int],
) -> list[Any]:
    """Return `fold` over the elements of every window: one strided slice for each of them.

    `fold` is of two lists of elements, one for each of the arrays, and returns such a list.
    """
    shape = static_shape(arrays[0])
    reach = [(size - 1) * apart for size, apart in zip(sizes, dilation, strict=True)]
    if any(extent <= last for extent, last in zip(shape, reach, strict=True)):
        raise ShapeError(
            f"windows of {tuple(sizes)} do not fit an array of shape {shape}",
            remedy="use smaller windows, or padding",
        )
    total: list[Any] | None = None
    for place in itertools.product(*map(range, sizes)):
        starts = [at * apart for at, apart in zip(place, dilation, strict=True)]
        parts = zip(starts, shape, reach, steps, strict=True)
        index = tuple(slice(s, s + extent - last, step) for s, extent, last, step in parts)
        part = [getitem(x, index) for x in arrays]
        total = part if total is None else list(fold(total, part))
    assert total is not None, "a window has elements"
    return total
