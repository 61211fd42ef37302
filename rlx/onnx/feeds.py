"""Conversion of a session's feeds to the declared types of inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlx.errors import InputError
from rlx.onnx.inputs import shape_list
from rlx.onnx.types import numpy_dtype
from rlx.onnx.values import Map


def declared_array(value: Any, given: Any, title: str) -> Any:
    """Return what is given for the input `value`; InputError for another dtype or shape."""
    kind = value.type.WhichOneof("value")
    if kind == "map_type":
        return _as_map(value, given, title)
    if kind != "tensor_type":
        return given
    dtype = numpy_dtype(value.type.tensor_type.elem_type)
    array = np.asarray(given)
    if dtype.kind == "O":
        return array.astype(object)
    if isinstance(given, (list, tuple, int, float)):
        array = _as_declared(array, dtype)
    if array.dtype != dtype:
        raise InputError(
            f"{title}: input {value.name!r} has dtype {array.dtype}; it must be {dtype}",
            remedy=f"convert it with .astype({dtype.name!r})",
        )
    shape = shape_list(value)
    fits = shape is None or (
        len(shape) == array.ndim
        and all(not isinstance(e, int) or e == n for e, n in zip(shape, array.shape, strict=True))
    )
    if not fits:
        raise InputError(
            f"{title}: input {value.name!r} has shape {array.shape}; it must be {shape}",
            remedy="reshape the array to what the model declares",
        )
    return array


def _as_declared(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return numbers of Python, which have no dtype of their own, in a dtype that holds them."""
    if array.dtype.kind in "iu" and dtype.kind in "iu":
        converted = array.astype(dtype)
        return converted if np.array_equal(converted, array) else array
    return array.astype(dtype) if array.dtype.kind in "iuf" and dtype.kind == "f" else array


def _as_map(value: Any, given: Any, title: str) -> Map:
    if not isinstance(given, Mapping):
        raise InputError(
            f"{title}: input {value.name!r} is a {type(given).__name__}; it must be a dict",
            remedy="give a dict from keys to numbers or strings",
        )
    element = value.type.map_type.value_type.tensor_type.elem_type
    return Map(given, numpy_dtype(element))
