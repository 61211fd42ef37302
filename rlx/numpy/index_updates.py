"""`x.at[index]`: updated copies of an array, as JAX has them.

x.at[2, :].set(row)         # elements at an index
x.at[x < 0].set(0.0)        # where a mask is true that is known at run time only
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from rlx.errors import ShapeError
from rlx.ir.dtype import DType
from rlx.ir.graph import calling_source
from rlx.numpy import elementwise, shaping, updates
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
        return IndexedUpdate(self._array, index)


class _Update(ABC):
    """Waits for what to do with some elements. Each method returns a changed copy."""

    __slots__ = ()

    @abstractmethod
    def set(self, values: Any) -> Any:
        """Return a copy with `values` there."""

    @abstractmethod
    def add(self, values: Any) -> Any:
        """Return a copy with `values` added there."""

    @abstractmethod
    def _changed(self, change: Change, values: Any) -> Any:
        """Return a copy with `change(element, value)` there."""

    def multiply(self, values: Any) -> Any:
        return self._changed(elementwise.multiply, values)

    def divide(self, values: Any) -> Any:
        return self._changed(elementwise.divide, values)

    def power(self, values: Any) -> Any:
        return self._changed(elementwise.power, values)

    def min(self, values: Any) -> Any:
        return self._changed(elementwise.minimum, values)

    def max(self, values: Any) -> Any:
        return self._changed(elementwise.maximum, values)

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """Return a copy with `function` of the elements there."""
        return self._changed(lambda element, _: function(element), 0)


class IndexedUpdate(_Update):
    """What `x.at[index]` returns. An index that repeats is changed as often as it does."""

    __slots__ = ("_array", "_index")

    def __init__(self, array: Any, index: Any) -> None:
        self._array = array
        self._index = index

    def get(self) -> Any:
        return self._array[self._index]

    def set(self, values: Any) -> Any:
        """Return a copy with `values` at the index; where an index repeats, the last one stays."""
        return updates.index_set(self._array, self._index, values)

    def add(self, values: Any) -> Any:
        """Return a copy with `values` added at the index; repeated indices add up."""
        return updates.index_add(self._array, self._index, values)

    def _changed(self, change: Change, values: Any) -> Any:
        return updates.index_change(self._array, self._index, values, change)


class MaskedUpdate(_Update):
    """What `x.at[mask]` returns: the elements where `mask`, over the leading axes, is true."""

    __slots__ = ("_array", "_mask")

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

    def set(self, values: Any) -> Any:
        """Return a copy with the number `values` at all of them."""
        return self._changed(lambda _, new: new, values)

    def add(self, values: Any) -> Any:
        return self._changed(elementwise.add, values)

    def _changed(self, change: Change, values: Any) -> Any:
        if shape_of(values) != ():
            raise ShapeError(
                f"values of shape {shape_of(values)} for a traced mask, whose number of true "
                "elements is not known; it takes one number",
                source=calling_source(),
                remedy="use rlx.numpy.where(mask, values, x)",
            )
        changed = elementwise.astype(change(self._array, values), self._array.dtype)
        return elementwise.where(self._mask, changed, self._array)
