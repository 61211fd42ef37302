"""Arithmetic of shapes with symbolic extents: on arrays of extents, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx.errors import UnsupportedError
from rlx.ir.shape import Dim, Extent, divide, ends, product
from rlx.onnx.registry import Operator
from rlx.onnx.values import is_known, is_symbolic

Array = np.ndarray[Any, Any]


def extents_array(extents: Any) -> Array:
    """Return extents as a vector: of i64, or of objects where some are symbolic."""
    listed = list(extents)
    if not any(isinstance(extent, Dim) for extent in listed):
        return np.asarray(listed, np.int64)
    found = np.empty(len(listed), object)
    found[:] = listed
    return found


def is_arithmetic(found: Operator, inputs: list[Any]) -> bool:
    """True for an operator that computes with symbolic extents, rather than takes a shape."""
    if found.domain or found.name not in _FUNCTIONS or not all(map(is_known, inputs)):
        return False
    return any(map(is_symbolic, inputs[:1] if found.name == "Reshape" else inputs))


def apply(found: Operator, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    """Return the result of a shape operator on extents."""
    known = {k: v for k, v in attributes.items() if k != "node"}
    result = _FUNCTIONS[found.name](*inputs, **known)
    return _settled(np.asarray(result, object))


def _settled(values: Array) -> Array:
    """Return an array of extents as i64 where none is symbolic any more."""
    if any(isinstance(value, Dim) for value in values.flat):
        return values
    return values.astype(np.int64)


def _slice(
    data: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> Array:
    del axes  # a vector has one
    step = 1 if steps is None else int(steps[0])
    found: Array = data[int(starts[0]) : int(ends[0]) : step]
    return found


def _gather(data: Array, indices: Array, *, axis: int = 0) -> Any:
    taken = np.empty(indices.shape, object)
    for place in np.ndindex(indices.shape):
        taken[place] = data[int(indices[place])]
    del axis
    return taken


def _divide(a: Any, b: Any) -> Any:
    return np.frompyfunc(divide, 2, 1)(a, b)


def _equal(a: Any, b: Any) -> Any:
    return np.frompyfunc(_are_equal, 2, 1)(a, b)


def _are_equal(x: Extent, y: Extent) -> int:
    """Compare extents; an error where the symbols decide."""
    if x == y:
        return 1
    least, most = ends(x - y)
    if least > 0 or most < 0:
        return 0
    raise UnsupportedError(
        f"whether extent {x} is {y} differs between runs",
        remedy="load the model with a number for it, or with bounds that exclude the other",
    )


def _where(condition: Any, a: Any, b: Any) -> Any:
    return np.where(np.asarray(condition, bool), a, b)


def _reduce_prod(data: Any, axes: Any = None, *, keepdims: int = 1, **_: Any) -> Any:
    del axes
    found = np.empty((1,) if keepdims else (), object)
    found[...] = product(data.flat)
    return found


def _same(data: Any, *_: Any, **__: Any) -> Any:
    return data


def _unsqueeze(data: Any, axes: Any) -> Any:
    return np.expand_dims(data, tuple(int(axis) for axis in np.atleast_1d(axes)))


def _squeeze(data: Any, axes: Any = None) -> Any:
    return np.squeeze(data, None if axes is None else tuple(int(axis) for axis in axes))


def _concat(*inputs: Any, axis: int) -> Any:
    return np.concatenate([np.asarray(each, object) for each in inputs], axis)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": _divide,
    "Equal": _equal,
    "Where": _where,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": lambda data, shape, **_: np.reshape(data, tuple(int(e) for e in shape)),
    "Cast": _same,
    "Identity": _same,
    "ReduceProd": _reduce_prod,
}
