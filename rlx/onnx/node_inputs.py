"""Checks and conversions of a node's inputs and attributes for its translator."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlx.errors import FormatError, UnsupportedError
from rlx.onnx import symbolic
from rlx.onnx.errors import ValueNeededError
from rlx.onnx.model import Array
from rlx.onnx.registry import Operator
from rlx.onnx.values import Weight, is_known, is_symbolic, traced_in
from rlx.onnx.versions import DROPPED


def computed(found: Operator, inputs: Sequence[Any]) -> list[Any]:
    """Return inputs with numbers of the program for extents, but where these are a shape."""
    return [
        symbolic.computed(value)
        if is_symbolic(value) and place not in found.static and not found.all_static
        else value
        for place, value in enumerate(inputs)
    ]


def static(value: Any, name: str) -> Any:
    """Return a value that decides shapes; ValueNeededError for one that runs alone know."""
    if isinstance(value, Weight):
        return np.asarray(value.array)
    if not is_known(value):
        raise ValueNeededError(
            f"input {name!r} decides the shape of the result, and is known at run time only",
            names=(name,),
            remedy="make it a constant of the model, load it with numbers for its extents, or run "
            "the model in rlx.onnx.InferenceSession",
        )
    return value


def as_input(attribute: Any) -> Array:
    """Return an attribute of an older version as the input that it has become."""
    is_floats = isinstance(attribute, float) or (
        isinstance(attribute, tuple) and any(isinstance(each, float) for each in attribute)
    )
    return np.asarray(attribute, np.float32 if is_floats else np.int64)


def checked_attributes(found: Operator, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a node that its translator takes; typed errors for others."""
    checked = {name: value for name, value in given.items() if name not in DROPPED}
    for name in checked:
        if name not in found.attributes:
            raise UnsupportedError(
                f"{found.name} has attribute {name!r}, which it has in no version known here",
                remedy=f"its attributes are: {', '.join(found.attributes) or 'none'}",
            )
    for name, default in found.attributes.items():
        if default is inspect.Parameter.empty and name not in checked:
            raise FormatError(
                f"{found.name} lacks its attribute {name!r}",
                remedy="the model is malformed: export it again",
            )
    return checked


def needs_all(proto: Any, inputs: Sequence[Any]) -> ValueNeededError:
    """Return the error of a node that NumPy must compute, and whose inputs are not all known."""
    pairs = zip(proto.input, inputs, strict=False)
    return ValueNeededError(
        f"{proto.op_type} has a dtype here that NumPy alone computes, with all inputs known",
        names=[name for name, value in pairs if traced_in([value])],
        remedy="run the model in rlx.onnx.InferenceSession, or cast to a dtype that rlx has",
    )
