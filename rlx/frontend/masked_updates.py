"""`x.at[mask]` with a traced mask: which elements change is decided at run time.

x.at[x < 0].set(0.0)        # rlx.numpy.where(x < 0, 0.0, x)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rlx.numpy as rnp
from rlx.errors import ShapeError
from rlx.frontend.trace import shape_of
from rlx.ir.graph import calling_source


class MaskedUpdate:
    """Waits for what to do with the elements where `mask`, over the leading axes, is true."""

    __slots__ = ("_array", "_mask")

    def __init__(self, array: Any, mask: Any) -> None:
        leading = array.shape[: len(mask.shape)]
        if mask.shape != leading:
            raise ShapeError(
                f"a mask has shape {mask.shape} and the array {array.shape}; a mask has the "
                "shape of the array, or of its leading axes",
                source=calling_source(),
            )
        self._array = array
        self._mask = rnp.reshape(mask, (*leading, *[1] * (len(array.shape) - len(leading))))

    def set(self, value: Any) -> Any:
        """Return a copy with the number `value` at all of them."""
        return self._changed(lambda _, new: new, value)

    def add(self, value: Any) -> Any:
        return self._changed(rnp.add, value)

    def multiply(self, value: Any) -> Any:
        return self._changed(rnp.multiply, value)

    def divide(self, value: Any) -> Any:
        return self._changed(rnp.divide, value)

    def power(self, value: Any) -> Any:
        return self._changed(rnp.power, value)

    def min(self, value: Any) -> Any:
        return self._changed(rnp.minimum, value)

    def max(self, value: Any) -> Any:
        return self._changed(rnp.maximum, value)

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """Return a copy with `function` of all of them."""
        return self._changed(lambda element, _: function(element), 0)

    def _changed(self, change: Callable[[Any, Any], Any], value: Any) -> Any:
        if shape_of(value) != ():
            raise ShapeError(
                f"values of shape {shape_of(value)} for a traced mask, whose number of true "
                "elements is not known; it takes one number",
                source=calling_source(),
                remedy="use rlx.numpy.where(mask, values, x)",
            )
        changed = rnp.astype(change(self._array, value), self._array.dtype)
        return rnp.where(self._mask, changed, self._array)
