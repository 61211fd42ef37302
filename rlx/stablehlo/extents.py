"""Numbers that are known while tracing: shapes that programs compute, of symbolic extents or not.

Programs with symbolic extents read them off arguments (`get_dimension_size`), compute with them,
and give the results as operands to `dynamic_reshape` and the like. This arithmetic is done while
tracing, on NumPy's arrays of integers, or of extents as objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import rlx.lax as lax
import rlx.numpy as rnp
from rlx.errors import RlxError, UnsupportedError
from rlx.ir.dtype import DType
from rlx.ir.shape import Dim, Extent, ends
from rlx.numpy.extent_numbers import extent_number

_MOST = 64
"""Elements of an array that is computed while tracing."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Integers, some of which are symbolic extents."""

    values: np.ndarray[Any, Any]
    """Of objects."""
    dtype: DType


def plain(x: Any) -> Any:
    """Return numbers as an array of the open trace; anything else as it is."""
    if not isinstance(x, Numbers):
        return x
    flat = [lax.convert_element_type(extent_number(n), x.dtype.numpy) for n in x.values.ravel()]
    return rnp.reshape(rnp.stack(flat), x.values.shape) if x.values.shape else flat[0]


def dimension_size(extent: Extent, dtype: DType) -> Any:
    """Return an extent as a number that is known while tracing."""
    if isinstance(extent, int):
        return np.asarray(extent, dtype.numpy)
    return Numbers(_objects(extent), dtype)


def extents_of(x: Any, what: str) -> tuple[Extent, ...]:
    """Return the numbers of a shape that an operation is given as an operand."""
    if isinstance(x, Numbers):
        return tuple(x.values.ravel().tolist())
    if isinstance(x, np.ndarray):
        return tuple(map(int, x.ravel()))
    raise UnsupportedError(
        f"from_stablehlo: {what} is given a shape that depends on values of arrays",
        remedy="compute shapes of extents and constants",
    )


def _objects(value: Any) -> np.ndarray[Any, Any]:
    found = np.empty(np.shape(value), object)
    found[...] = value
    return found


def folded(name: str, operation: Any, operands: Sequence[Any]) -> Any:
    """Return the result of an operation on few known integers, or None for any other."""
    fold = _FOLDS.get(name)
    if fold is None or not operands or not all(map(_is_known, operands)):
        return None
    dtype = operation.dtype()
    if not (dtype.is_int or dtype is DType.BOOL):
        return None
    arrays = [_objects(x.values if isinstance(x, Numbers) else x) for x in operands]
    try:
        values = _objects(fold(operation, *arrays))
    except (RlxError, TypeError, ZeroDivisionError, OverflowError):
        return None  # bounds of symbols do not decide it: it is computed at each run
    if any(isinstance(n, Dim) for n in values.ravel()):
        return Numbers(values, dtype)
    if dtype is not DType.BOOL:
        limits = np.iinfo(dtype.numpy)
        if any(not limits.min <= int(n) <= limits.max for n in values.ravel()):
            return None  # it wraps
    return values.astype(dtype.numpy)


def _is_known(x: Any) -> bool:
    if isinstance(x, Numbers):
        return True
    return isinstance(x, np.ndarray) and x.size <= _MOST and x.dtype.kind in "iub"


def _each(function: Callable[..., Any]) -> Callable[..., Any]:
    made = np.frompyfunc(function, function.__code__.co_argcount, 1)
    return lambda _, *operands: made(*operands)


def _quotient(a: Any, b: Any) -> Any:
    """Divide towards zero."""
    if isinstance(a, Dim) or isinstance(b, Dim):
        low = ends(a)[0]
        if low < 0:
            raise TypeError("an extent that may be negative")
        return a // b
    found = abs(int(a)) // abs(int(b))
    return found if (a < 0) == (b < 0) else -found


def _sign(a: Any) -> int:
    return 0 if _equal(a, 0) else 1 if a > 0 else -1


def _equal(a: Any, b: Any) -> bool:
    difference = a - b
    if not isinstance(difference, Dim):
        return bool(difference == 0)
    low, high = ends(difference)
    if low > 0 or high < 0:
        return False
    raise TypeError("not decided")


def _remainder(a: Any, b: Any) -> Any:
    return a - _quotient(a, b) * b


_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "EQ": _equal,
    "NE": lambda a, b: not _equal(a, b),
    "LT": lambda a, b: bool(a < b),
    "LE": lambda a, b: bool(a <= b),
    "GT": lambda a, b: bool(a > b),
    "GE": lambda a, b: bool(a >= b),
}


def _compare(operation: Any, a: Any, b: Any) -> Any:
    return np.frompyfunc(_COMPARED[operation.word("comparison_direction")], 2, 1)(a, b)


def _reshape(operation: Any, x: Any) -> Any:
    return x.reshape(operation.shape())


def _broadcast(operation: Any, x: Any) -> Any:
    shape = operation.shape()
    between = [1] * len(shape)
    for axis, extent in zip(operation.integers("broadcast_dimensions"), x.shape, strict=True):
        between[axis] = extent
    return np.broadcast_to(x.reshape(between), shape)


def _slice(operation: Any, x: Any) -> Any:
    names = ("start_indices", "limit_indices", "strides")
    return x[tuple(map(slice, *(operation.integers(name) for name in names)))]


def _either(test: Any, a: Any, b: Any) -> Any:
    return a if test else b


_FOLDS: dict[str, Callable[..., Any]] = {
    "stablehlo.add": _each(lambda a, b: (a or b) if isinstance(a, bool) else a + b),
    "stablehlo.and": _each(lambda a, b: a & b),
    "stablehlo.or": _each(lambda a, b: a | b),
    "stablehlo.not": _each(lambda a: (not a) if isinstance(a, bool) else ~a),
    "stablehlo.subtract": _each(lambda a, b: a - b),
    "stablehlo.multiply": _each(lambda a, b: (a and b) if isinstance(a, bool) else a * b),
    "stablehlo.divide": _each(_quotient),
    "stablehlo.remainder": _each(_remainder),
    "stablehlo.maximum": _each(lambda a, b: a if a >= b else b),
    "stablehlo.minimum": _each(lambda a, b: a if a <= b else b),
    "stablehlo.negate": _each(lambda a: -a),
    "stablehlo.sign": _each(_sign),
    "stablehlo.select": _each(_either),
    "stablehlo.compare": _compare,
    "stablehlo.convert": lambda _, x: x,
    "stablehlo.reshape": _reshape,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.slice": _slice,
    "stablehlo.concatenate": lambda operation, *xs: np.concatenate(
        xs, operation.integer("dimension")
    ),
}
"""What programs compute shapes with; of symbolic extents, where their bounds decide it."""
