"""Values of a model while it is imported.

array          a NumPy array: known, folded with what is computed from it
traced array   known at run time only
Weight         an initializer: a param of the graph as soon as an operator reads it
list           a sequence
None           an input that is left out, or an empty optional
Extents        known integers of which some are symbolic extents
LeafValues     a traced array that is a function of a leaf of a decision tree, not yet walked
Deferred       what NumPy makes of a traced array after the run: strings by their numbers, maps
Map            a dictionary with the dtype of its values
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.ir.shape import Dim
from rlx.onnx.leaves import LeafValues
from rlx.onnx.types import computes
from rlx.tracing.pytree import register_pytree_node
from rlx.tracing.trace import TracedArray

Array = np.ndarray[Any, Any]

_PART = 1 << 18
"""Elements that are looked at together."""

_LARGEST_KNOWN_INDEX = 1024
"""Integers of so many elements are shapes, axes and indices, which are folded; others are data."""


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """An initializer."""

    name: str
    array: Array


class Extents(np.ndarray[Any, Any]):
    """Known integers of which some are symbolic extents, as objects."""

    integers: np.dtype[Any]
    """The dtype that the model gives to them."""

    @classmethod
    def of(cls, values: Array, integers: np.dtype[Any]) -> Extents:
        found = values.view(cls)
        found.integers = integers
        return found

    def __array_finalize__(self, other: Any) -> None:
        self.integers = getattr(other, "integers", np.dtype(np.int64))


class Map(dict[Any, Any]):
    """A map of the standard: keys are integers or strings, values are numbers or strings."""

    def __init__(self, entries: Any, dtype: np.dtype[Any]) -> None:
        super().__init__(entries)
        self.dtype = dtype

    def __reduce__(self) -> Any:
        return Map, (dict(self), self.dtype)


@functools.cache
def map_type(dtype: np.dtype[Any]) -> Callable[[Any], Map]:
    """Return the class of maps to numbers of `dtype`, which are made as fast as dictionaries."""
    members = {"__init__": dict.__init__, "dtype": dtype, "__slots__": ()}
    return type(Map.__name__, (Map,), members)


@dataclass(frozen=True, slots=True, eq=False)
class Deferred:
    """What `finish` makes of an array that a run gives, where rlx has no dtype for it."""

    array: Any
    finish: Callable[[Array], Any]
    labels: tuple[Any, ...] = ()
    """What the numbers are indices of, or the columns are of."""
    is_elementwise: bool = False
    """The numbers are indices of labels, one for each element."""
    for_callers: Callable[[Array], Any] | None = None
    """Makes the same of an array for callers, who do not ask maps for their dtype."""


def _finished(kept: Any, children: list[Any]) -> Any:
    (array,), (finish, *labels) = children, kept
    known = isinstance(array, np.ndarray)
    return finish(array) if known else Deferred(array, finish, *labels)


register_pytree_node(
    Deferred,
    lambda value: (
        (value.array,),
        (value.finish, value.labels, value.is_elementwise, value.for_callers),
    ),
    _finished,
)


def deferred(
    array: Any,
    finish: Callable[[Array], Any],
    labels: tuple[Any, ...] = (),
    *,
    is_elementwise: bool = False,
    for_callers: Callable[[Array], Any] | None = None,
) -> Any:
    """Return `finish(array)`, after the run where the array is traced."""
    if isinstance(array, TracedArray):
        return Deferred(array, finish, labels, is_elementwise, for_callers)
    return finish(np.asarray(array))


def is_known(value: Any) -> bool:
    """True if `value` is known without a run."""
    if isinstance(value, list):
        return all(map(is_known, value))
    return value is None or isinstance(value, (np.ndarray, Map))


def is_symbolic(value: Any) -> bool:
    """True for known integers with symbolic extents among them."""
    return isinstance(value, Extents) and any(isinstance(each, Dim) for each in value.flat)


def is_supported(value: Any) -> bool:
    """True if our ops have the dtype of `value`."""
    if isinstance(value, list):
        return all(map(is_supported, value))
    if not isinstance(value, np.ndarray):
        return not isinstance(value, (Deferred, Map))
    return computes(value.dtype)


def folds(array: Array) -> bool:
    """True for an initializer that becomes a constant of the program instead of a param."""
    if array.size <= 1 or not is_supported(array):
        return True
    is_vector_of_zeros = array.ndim == 1 and not array.any()  # zero points that change nothing
    is_small = array.size <= _LARGEST_KNOWN_INDEX
    return array.dtype.kind in "iub" and (is_small or is_vector_of_zeros)


def without_subnormals(array: Array) -> Array:
    """Return `array` with zeros for subnormal numbers of f32 and f64; itself where it has none.

    Where the others are small, too, all stay: what the subnormal ones add would be seen.
    """
    if array.dtype not in (np.float32, np.float64):
        return array
    least, rounding = np.finfo(array.dtype).smallest_normal, np.finfo(array.dtype).eps
    flat = array.reshape(-1)  # by parts: weights that a file is mapped to may be large
    parts = (flat[start : start + _PART] for start in range(0, flat.size, _PART))
    if not any(_are_subnormal(part, least).any() for part in parts):
        return array
    if not np.nanmax(np.abs(array)) > least / rounding**2:
        return array
    return np.where(_are_subnormal(array, least), array.dtype.type(0), array)


def _are_subnormal(array: Array, least: Any) -> Array:
    found: Array = (np.abs(array) < least) & (array != 0)
    return found


def traced_in(values: Iterable[Any]) -> list[TracedArray]:
    """Return the traced arrays among `values` and in their sequences."""
    found: list[TracedArray] = []
    for value in values:
        if isinstance(value, list):
            found += traced_in(value)
        elif isinstance(value, Deferred):
            found.append(value.array)
        elif isinstance(value, LeafValues):
            found.append(value.terms[0][0].x)
        elif isinstance(value, TracedArray):
            found.append(value)
    return found
