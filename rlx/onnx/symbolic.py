"""Arithmetic of shapes with symbolic extents: on arrays of extents, in NumPy.

What extents cannot express (a square root, a minimum that their bounds leave open) is computed by
the program, of numbers that it reads off its shapes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import ShapeError
from rlx.ir.shape import (
    Dim,
    Extent,
    divide,
    ends,
    floor_divide,
    is_at_most,
    product,
)
from rlx.numpy.extent_numbers import extent_number
from rlx.onnx.registry import Operator
from rlx.onnx.types import numpy_dtype
from rlx.onnx.values import Extents, is_known, is_symbolic

Array = np.ndarray[Any, Any]


class _OpenError(Exception):
    """The result differs between values of the symbols, and is no extent."""


def extents_array(extents: Any) -> Array:
    """Return extents as a vector: of i64, or of objects where some are symbolic."""
    listed = list(extents)
    found = np.empty(len(listed), object)
    found[:] = listed
    return _settled(found, np.dtype(np.int64))


def arithmetic(found: Operator, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    """Return the result of an operator on extents; None for one that is no arithmetic of extents.

    A symbolic input whose numbers decide a shape is not computed with, but taken as a shape.
    """
    computed = [each for place, each in enumerate(inputs) if place not in found.static]
    compute = None if found.domain else _FUNCTIONS.get(found.name)
    if compute is None or not any(map(is_symbolic, computed)) or not all(map(is_known, inputs)):
        return None
    known = {k: v for k, v in attributes.items() if k != "node"}
    try:
        result = np.asarray(compute(*inputs, **known), object)
    except (_OpenError, ShapeError):
        return None
    return _settled(result, _dtype(found, inputs, attributes))


def _dtype(found: Operator, inputs: list[Any], attributes: dict[str, Any]) -> np.dtype[Any]:
    """Return the dtype that the standard gives to the result."""
    if found.name == "Cast":
        return numpy_dtype(attributes["to"])
    if found.name in _COMPARISONS:
        return np.dtype(bool)
    return next(each.integers for each in inputs if isinstance(each, Extents))


def _settled(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return an array of extents in their dtype where none is symbolic any more."""
    if any(isinstance(value, Dim) for value in values.flat):
        return Extents.of(values, dtype)
    return values.astype(dtype)


def computed(values: Any) -> Any:
    """Return symbolic extents as a traced array of their dtype."""
    numbers = [rnp.reshape(extent_number(extent), (1,)) for extent in values.flat]
    return rnp.astype(rnp.reshape(rnp.concatenate(numbers), values.shape), values.integers)


def _slice(
    data: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> Array:
    del axes  # a vector has one
    step = 1 if steps is None else int(steps[0])
    found: Array = data[int(starts[0]) : int(ends[0]) : step]
    return found


def _gather(data: Array, indices: Array, *, axis: int = 0) -> Any:
    if is_symbolic(indices) or data.ndim != 1:
        raise _OpenError
    taken = np.empty(indices.shape, object)
    for place in np.ndindex(indices.shape):
        taken[place] = data[int(indices[place])]
    del axis
    return taken


def _on_extents(function: Callable[[Extent, Extent], Any]) -> Callable[..., Any]:
    return lambda *inputs: functools.reduce(np.frompyfunc(function, 2, 1), inputs)


def _divide(dividend: Extent, divisor: Extent) -> Extent:
    """Divide as integers do, towards zero."""
    if isinstance(divisor, int) and divisor > 0 and ends(dividend)[0] >= 0:
        return floor_divide(dividend, divisor)
    return divide(dividend, divisor)


def _remainder(dividend: Extent, divisor: Extent) -> Extent:
    if not isinstance(divisor, int) or divisor < 1:
        raise _OpenError
    return dividend - floor_divide(dividend, divisor) * divisor


def _modulo(a: Any, b: Any, *, fmod: int = 0) -> Any:
    if fmod:
        raise _OpenError
    return _on_extents(_remainder)(a, b)


def _is_less(x: Extent, y: Extent) -> bool:
    least, most = ends(x - y)
    if least < 0 <= most:
        raise _OpenError
    return most < 0


def _is_equal(x: Extent, y: Extent) -> bool:
    least, most = ends(x - y)
    if x != y and least <= 0 <= most:
        raise _OpenError
    return x == y


def _least(x: Extent, y: Extent) -> Extent:
    if is_at_most(x, y):
        return x
    if is_at_most(y, x):
        return y
    raise _OpenError


def _most(x: Extent, y: Extent) -> Extent:
    return y if _least(x, y) == x else x


def _reduced(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a reduction of a vector, or of one number, to one."""

    def reduce(data: Any, axes: Any = None, *, keepdims: int = 1, **_: Any) -> Any:
        if data.ndim > 1 or not data.size or (axes is not None and not np.size(axes)):
            raise _OpenError
        found = np.empty((1,) if keepdims and data.ndim else (), object)
        found[...] = function(data.ravel().tolist())
        return found

    return reduce


def _cast(data: Any, *, to: Any, **_: Any) -> Any:
    if numpy_dtype(to).kind not in "iu":
        raise _OpenError
    return data


def _where(condition: Any, a: Any, b: Any) -> Any:
    if is_symbolic(condition):
        raise _OpenError
    return np.where(np.asarray(condition, bool), a, b)


def _same(data: Any, *_: Any, **__: Any) -> Any:
    return data


def _unsqueeze(data: Any, axes: Any) -> Any:
    return np.expand_dims(data, tuple(int(axis) for axis in np.atleast_1d(axes)))


def _squeeze(data: Any, axes: Any = None) -> Any:
    return np.squeeze(data, None if axes is None else tuple(int(axis) for axis in axes))


def _concat(*inputs: Any, axis: int) -> Any:
    return np.concatenate([np.asarray(each, object) for each in inputs], axis)


_COMPARISONS: dict[str, Callable[..., Any]] = {
    "Equal": _on_extents(_is_equal),
    "Less": _on_extents(_is_less),
    "Greater": lambda a, b: _on_extents(_is_less)(b, a),
    "LessOrEqual": lambda a, b: np.logical_not(_on_extents(_is_less)(b, a)),
    "GreaterOrEqual": lambda a, b: np.logical_not(_on_extents(_is_less)(a, b)),
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **_COMPARISONS,
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": _on_extents(_divide),
    "Mod": _modulo,
    "Neg": lambda a: -1 * a,
    "Min": _on_extents(_least),
    "Max": _on_extents(_most),
    "Where": _where,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": lambda data, shape, **_: np.reshape(data, tuple(int(e) for e in shape)),
    "Expand": lambda data, shape: data * np.ones(tuple(int(e) for e in shape), object),
    "Cast": _cast,
    "Identity": _same,
    "ReduceProd": _reduced(product),
    "ReduceSum": _reduced(lambda extents: sum(extents[1:], start=extents[0])),
    "ReduceMax": _reduced(functools.partial(functools.reduce, _most)),
    "ReduceMin": _reduced(functools.partial(functools.reduce, _least)),
}
"""By operators; they raise `_OpenError` or ShapeError for what is no extent."""
