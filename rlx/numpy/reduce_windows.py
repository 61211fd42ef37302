"""Windowed reductions by any binary function (`reduce_window` in XLA)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from rlx.errors import ShapeError
from rlx.numpy.axes import static_shape
from rlx.numpy.indexing import getitem


def fold_windows(
    x: Any,
    fold: Callable[[Any, Any], Any],
    sizes: Sequence[int],
    steps: Sequence[int],
    dilation: Sequence[int],
) -> Any:
    """Return `fold` over the elements of every window: one strided slice for each of them."""
    shape = static_shape(x)
    reach = [(size - 1) * apart for size, apart in zip(sizes, dilation, strict=True)]
    if any(extent <= last for extent, last in zip(shape, reach, strict=True)):
        raise ShapeError(
            f"windows of {tuple(sizes)} do not fit an array of shape {shape}",
            remedy="use smaller windows, or padding",
        )
    total = None
    for place in itertools.product(*map(range, sizes)):
        starts = [at * apart for at, apart in zip(place, dilation, strict=True)]
        parts = zip(starts, shape, reach, steps, strict=True)
        index = tuple(slice(s, s + extent - last, step) for s, extent, last, step in parts)
        part = getitem(x, index)
        total = part if total is None else fold(total, part)
    return total
