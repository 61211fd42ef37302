"""`x.at[index]`: updated copies of an array, as JAX has them.

x.at[2, :].set(row)         # elements at an index
x.at[x < 0].set(0.0)        # where a mask is true that is known at run time only
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from rlx.errors import DTypeError, InputError, ShapeError
from rlx.ir.dtype import DType
from rlx.ir.shape import Shape
from rlx.ir.source_lines import calling_source
from rlx.numpy import elementwise, index_modes, index_plan, indexing, shaping, updates
from rlx.tracing.trace import TracedArray, element_type, shape_of

Change = Callable[[Any, Any], Any]
"""An element and the value for it -> the new element."""


class IndexUpdater:
    """What `x.at` returns: waits for an index."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> IndexedUpdate | MaskedUpdate:
        if isinstance(index, TracedArray) and element_type(index).dtype is DType.BOOL:
            return MaskedUpdate(self._array, index)
        return IndexedUpdate(self._array, without_masks(index, shape_of(self._array)))


def _require_kept(array: Any, values: Any) -> None:
    """Refuse values whose fractions, or imaginary parts, an array of this dtype would lose."""
    own, given = element_type(array).dtype, element_type(values).dtype
    loses = given.is_complex and not own.is_complex
    if loses or (given.is_float and not own.is_differentiable):
        raise DTypeError(
            f"values of dtype {given} for an array of dtype {own}, which cannot hold them",
            source=calling_source(),
            remedy=f"convert the values, with .astype({own.value!r}), or the array",
        )


def without_masks(index: Any, shape: Shape) -> Any:
    """Return `index` with masks of known elements as the positions where they are true."""
    items = index if isinstance(index, tuple) else (index,)
    masks = [isinstance(item, np.ndarray) and item.dtype == np.bool_ for item in items]
    if not any(masks):
        return index
    index_plan.require_masks_fit(items, shape)
    pairs = zip(items, masks, strict=True)
    return tuple(itertools.chain(*(np.nonzero(i) if mask else (i,) for i, mask in pairs)))


_HINTS = ("indices_are_sorted", "unique_indices", "out_sharding")
"""What JAX takes about indices, and nothing depends on here."""


def _require_hints(hints: dict[str, Any]) -> None:
    """Refuse names that no update has, and negative indices that do not count from the end."""
    for name, value in hints.items():
        if name in _HINTS or (name == "wrap_negative_indices" and value):
            continue
        raise InputError(
            f"{name} is {value!r:.40}, which has no meaning for x.at[index]",
            source=calling_source(),
            remedy=f"leave {name} out; there are mode, {', '.join(_HINTS)}",
        )


class _Update(ABC):
    """Waits for what to do with some elements. Each method returns a changed copy.

    An index out of range is an error; `mode` clip moves it inside, drop (or fill) leaves it out.
    What JAX takes about indices that are sorted or unique is not needed.
    """

    __slots__ = ("_array",)
    _array: Any

    @abstractmethod
    def set(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        """Return a copy with `values` there."""

    @abstractmethod
    def add(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        """Return a copy with `values` added there."""

    @abstractmethod
    def _of(self, array: Any) -> _Update:
        """Return what this is, of another array."""

    @abstractmethod
    def _changed(self, change: Change, values: Any, mode: str | None) -> Any:
        """Return a copy with `change(element, value)` there."""

    def subtract(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        return self.add(elementwise.negative(values), mode=mode, **hints)

    def multiply(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        _require_hints(hints)
        _require_kept(self._array, values)
        return self._changed(elementwise.multiply, values, mode)

    mul = multiply

    def divide(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        """Return a copy divided there; of integers it holds floats, as in JAX."""
        _require_hints(hints)
        own = self._array
        if not element_type(own).dtype.is_differentiable:
            given = element_type(values)
            own = elementwise.divide(own, 1 if given.weak else np.ones((), given.dtype.numpy))
        _require_kept(own, values)
        return self._of(own)._changed(elementwise.divide, values, mode)

    def power(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        _require_hints(hints)
        _require_kept(self._array, values)
        return self._changed(elementwise.power, values, mode)

    def min(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        _require_hints(hints)
        _require_kept(self._array, values)
        return self._changed(elementwise.minimum, values, mode)

    def max(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        _require_hints(hints)
        _require_kept(self._array, values)
        return self._changed(elementwise.maximum, values, mode)

    def apply(
        self, function: Callable[[Any], Any], *, mode: str | None = None, **hints: Any
    ) -> Any:
        """Return a copy with `function` of the elements there."""
        _require_hints(hints)

        def change(element: Any, _: Any) -> Any:
            found = function(element)
            _require_kept(self._array, found)
            return found

        return self._changed(change, 0, mode)


class IndexedUpdate(_Update):
    """What `x.at[index]` returns. An index that repeats is changed as often as it does."""

    __slots__ = ("_index",)

    def __init__(self, array: Any, index: Any) -> None:
        self._array = array
        self._index = index

    def get(self, *, mode: str | None = None, fill_value: Any = None, **hints: Any) -> Any:
        """Return the elements; `mode` fill reads `fill_value` outside, by default NaN."""
        _require_hints(hints)
        if mode is None:
            return indexing.getitem(self._array, self._index)
        return index_modes.take_at(self._array, self._index, mode, fill_value)

    def set(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        """Return a copy with `values` at the index; where an index repeats, the last one stays."""
        _require_hints(hints)
        _require_kept(self._array, values)
        return self._update(updates.index_set, values, mode)

    def add(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        """Return a copy with `values` added at the index; repeated indices add up."""
        _require_hints(hints)
        _require_kept(self._array, values)
        return self._update(updates.index_add, values, mode)

    def _of(self, array: Any) -> IndexedUpdate:
        return IndexedUpdate(array, self._index)

    def _changed(self, change: Change, values: Any, mode: str | None) -> Any:
        def update(x: Any, index: Any, values: Any) -> Any:
            return updates.index_change(x, index, values, change)

        return self._update(update, values, mode)

    def _update(self, update: Callable[..., Any], values: Any, mode: str | None) -> Any:
        if mode is None:
            return update(self._array, self._index, values)
        return index_modes.updated_at(self._array, self._index, values, update, mode)


class MaskedUpdate(_Update):
    """What `x.at[mask]` returns: the elements where `mask`, over the leading axes, is true."""

    __slots__ = ("_mask",)

    def __init__(self, array: Any, mask: Any) -> None:
        leading = array.shape[: len(mask.shape)]
        if mask.shape != leading:
            raise ShapeError(
                f"a mask has shape {mask.shape} and the array {array.shape}; a mask has the "
                "shape of the array, or of its leading axes",
                source=calling_source(),
                remedy="reshape or broadcast the mask to the array's leading axes",
            )
        self._array = array
        self._mask = shaping.reshape(mask, (*leading, *[1] * (len(array.shape) - len(leading))))

    def set(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        """Return a copy with the number `values` at all of them."""
        _require_hints(hints)
        _require_kept(self._array, values)
        return self._changed(lambda _, new: new, values, mode)

    def add(self, values: Any, *, mode: str | None = None, **hints: Any) -> Any:
        _require_hints(hints)
        _require_kept(self._array, values)
        return self._changed(elementwise.add, values, mode)

    def _of(self, array: Any) -> MaskedUpdate:
        found = MaskedUpdate.__new__(MaskedUpdate)
        found._array, found._mask = array, self._mask
        return found

    def _changed(self, change: Change, values: Any, mode: str | None) -> Any:
        del mode  # a mask has no position outside
        if shape_of(values) != ():
            raise ShapeError(
                f"values of shape {shape_of(values)} for a traced mask, whose number of true "
                "elements is not known; it takes one number",
                source=calling_source(),
                remedy="use rlx.numpy.where(mask, values, x)",
            )
        changed = elementwise.astype(change(self._array, values), self._array.dtype)
        return elementwise.where(self._mask, changed, self._array)
