"""Python's numbers and nested lists as NumPy arrays, and what is refused because it is neither."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from rlx.errors import DTypeError, InputError, ShapeError
from rlx.ir.dtype import DType

_KINDS = "biufc"
"""NumPy's letters for bools, integers, unsigned ones, floats and complex numbers."""
_WIDTH = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
"""A number may become one of its own kind or of a wider one."""


def array_from(value: Any) -> np.ndarray[Any, Any]:
    """Return a number, an array or nested lists of them as an array of the natural dtype.

    Raise ShapeError for lists of unequal lengths, InputError for what holds no numbers.
    """
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ShapeError(
            f"the lists do not form an array: {_first_difference(value) or error}",
            remedy="make all lists of one depth equally long, for example by padding them",
        ) from None
    require_unmasked(value)
    if array.dtype.kind in "OSUMmV" and not _is_extension(array.dtype):
        raise InputError(
            f"{_first_foreign(value)} is not a number",
            remedy="pass numbers, arrays, or nested lists of them",
        )
    return array


def converted(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """Return Python's numbers as an array of `dtype`, which must be able to hold them.

    Bools may become integers, these floats, these complex numbers; not the other way.
    """
    array = array_from(value)
    target = dtype.numpy
    if not array.size:
        return array.astype(target)
    if _WIDTH.get(array.dtype.kind, 2) > _WIDTH.get(target.kind, 2):
        raise DTypeError(
            f"{_shortened(value)} is {_described(array.dtype)}, which {dtype} does not hold",
            remedy="convert it first: round it with int(x), or compare it to get a bool",
        )
    if dtype.is_int:
        _require_in_range(array, dtype)
    return array.astype(target)


def require_unmasked(value: Any) -> None:
    """Raise InputError for a masked array, whose mask would be lost."""
    masks = sys.modules.get("numpy.ma")  # loaded on demand: without it there are no such arrays
    if masks is not None and isinstance(value, masks.MaskedArray):
        raise InputError(
            "a masked array would lose its mask",
            remedy="fill it with x.filled(value), or pass x.data and the mask as two arrays",
        )


def _require_in_range(array: np.ndarray[Any, Any], dtype: DType) -> None:
    limits = np.iinfo(dtype.numpy)
    lowest, highest = int(array.min()), int(array.max())
    if lowest < limits.min or highest > limits.max:
        worst = lowest if lowest < limits.min else highest
        raise DTypeError(
            f"the number {worst} does not fit {dtype}, which goes from {limits.min} to "
            f"{limits.max}",
            remedy="use a wider dtype",
        )


def _is_extension(dtype: np.dtype[Any]) -> bool:
    """True for dtypes of rlx for which NumPy has no letter, as bfloat16."""
    return any(dtype == known.numpy for known in DType)


def _first_difference(items: Any) -> str | None:
    """Return which sibling lists differ in length; None if none do."""
    if not isinstance(items, (list, tuple)):
        return None
    counts = [len(item) if isinstance(item, (list, tuple)) else None for item in items]
    for place, count in enumerate(counts):
        if count != counts[0]:
            first, other = (_counted(each) for each in (counts[0], count))
            return f"item 0 is {first} and item {place} is {other}"
    inner = (_first_difference(item) for item in items)
    return next((found for found in inner if found is not None), None)


def _counted(count: int | None) -> str:
    return "a number" if count is None else f"a list of {count}"


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _first_foreign(value: Any) -> str:
    foreign = (x for x in _leaves(value) if np.asarray(x).dtype.kind not in _KINDS)
    found = next(foreign, value)
    return f"{found!r:.80} of type {type(found).__name__}"


def _described(dtype: np.dtype[Any]) -> str:
    words = {"b": "a bool", "i": "an integer", "u": "an integer", "f": "a fraction"}
    return words.get(dtype.kind, "complex")


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
