"""`map_coordinates`: arrays read between their elements."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import ShapeError, UnsupportedError
from rlx.public_names import names_of as _names_of
from rlx.runtime.arrays import Array
from rlx.tracing.apply import function, inexact

_MODES = ("constant", "nearest", "wrap", "mirror", "reflect")


def map_coordinates(
    input: Any, coordinates: Sequence[Any], order: int, mode: str = "constant", cval: Any = 0.0
) -> Array:
    """Read `input` at coordinates, one array per axis: the nearest (0), or linearly between (1)."""
    if mode not in _MODES:
        raise ShapeError(f"mode is {mode!r}", remedy=f"use one of {', '.join(_MODES)}")
    if order not in (0, 1):
        raise UnsupportedError(f"order is {order}; it is 0 or 1, as in JAX", remedy="use order=1")
    if len(coordinates) != len(rnp.shape(input)):
        raise ShapeError(
            f"{len(coordinates)} arrays of coordinates for {len(rnp.shape(input))} axes",
            remedy="give one per axis",
        )
    return _read(input, list(coordinates), order, mode, cval)


@function
def _read(x: Any, coordinates: list[Any], order: int, mode: str, cval: Any) -> Any:
    x = rnp.asarray(x)
    axes = [_neighbors(c, n, order, mode) for c, n in zip(coordinates, x.shape, strict=True)]
    total: Any = 0
    for corner in itertools.product(*axes):
        index = tuple(place for place, _, _ in corner)
        part = x[index]
        for _, _, valid in corner:
            part = rnp.where(valid, part, cval)
        for _, weight, _ in corner:
            part = part if weight is None else part * weight
        total = total + part
    if rnp.issubdtype(x.dtype, rnp.integer) and order:
        total = _rounded(total)
    return rnp.astype(total, x.dtype)


def _rounded(x: Any) -> Any:
    """Return the nearest integers; halves go away from zero."""
    whole = rnp.trunc(x)
    return rnp.where(rnp.greater_equal(rnp.abs(x - whole), 0.5), whole + rnp.sign(x), whole)


def _neighbors(c: Any, size: int, order: int, mode: str) -> list[tuple[Any, Any, Any]]:
    """Return places, weights (None for 1) and whether each is inside."""
    (c,) = inexact(c)
    if order == 0:
        return [_neighbor(_rounded(c), None, size, mode)]
    low = rnp.floor(c)
    upper = c - low
    return [_neighbor(low, 1 - upper, size, mode), _neighbor(low + 1, upper, size, mode)]


def _neighbor(place: Any, weight: Any, size: int, mode: str) -> tuple[Any, Any, Any]:
    index, valid = _inside(place, size, mode)
    return index, weight, valid


def _inside(place: Any, size: int, mode: str) -> tuple[Any, Any]:
    """Return where a place outside is read, and whether it is read at all."""
    index = rnp.astype(place, np.int64)
    valid = rnp.logical_and(rnp.greater_equal(index, 0), rnp.less(index, size))
    everywhere = rnp.ones_like(valid)
    if mode == "constant":
        return rnp.clip(index, 0, size - 1), valid
    if mode == "nearest" or size == 1:
        return rnp.clip(index, 0, size - 1), everywhere
    if mode == "wrap":
        return rnp.remainder(index, size), everywhere
    period = 2 * size - 2 if mode == "mirror" else 2 * size
    turned = rnp.remainder(index, period)
    last = period if mode == "mirror" else period - 1
    return rnp.minimum(turned, last - turned), everywhere


__dir__ = _names_of(__name__)
