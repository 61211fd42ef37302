"""Attribution of translation errors: invalid nodes by the checks of the ONNX package.

A translator takes what the standard allows. Where it fails nevertheless, either the node breaks
a rule of its operator, which is the file's fault, or rlx is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from rlx.onnx.functions import type_of
from rlx.onnx.types import type_name
from rlx.onnx.values import Weight

_REQUIRED = onnx.defs.OpSchema.FormalParameterOption.Single
_LARGEST_SHOWN = 4096
"""Elements of known inputs that are given to shape inference."""


def violation(proto: Any, opsets: Mapping[str, int], values: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a node by the rules of its operator; None if nothing is."""
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    try:
        schema = onnx.defs.get_schema(proto.op_type, opsets.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return None
    return (
        _wrong_attributes(proto, opsets)
        or _wrong_input(proto, schema, values)
        or _wrong_shape(proto, schema, opsets, values)
    )


def misread(proto: Any, error: Exception) -> str | None:
    """Return what is wrong with a node by the error that translating it raised; None if unknown."""
    if isinstance(error, ArithmeticError):
        return f"its numbers have no result: {error}"
    if isinstance(error, IndexError) and "tuple index" in str(error):  # of a shape
        return "an input has fewer axes than the operator takes"
    if isinstance(error, ValueError) and str(error).endswith("into shape ()"):
        return f"an input that must be one number is not: {error}"
    if isinstance(error, KeyError):  # a choice that there is not
        for attribute in proto.attribute:
            if attribute.s.decode(errors="replace") == error.args[0]:
                return f"{attribute.name} is {error.args[0]!r}, which is no value of the standard"
    return None


def _wrong_attributes(proto: Any, opsets: Mapping[str, int]) -> str | None:
    """Check the numbers of inputs and outputs, and the kinds of attributes."""
    if any(a.type == onnx.AttributeProto.GRAPH or a.ref_attr_name for a in proto.attribute):
        return None
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = onnx.IR_VERSION, dict(opsets)
    try:
        onnx.checker.check_node(proto, context)
    except onnx.checker.ValidationError as error:
        return str(error)
    return None


def _wrong_input(proto: Any, schema: Any, values: Mapping[str, Any]) -> str | None:
    """Check that inputs are there, and of types that the operator takes."""
    for place, name in enumerate(proto.input):
        value, formal = values.get(name), schema.inputs[min(place, len(schema.inputs) - 1)]
        if value is None and formal.option == _REQUIRED:
            return f"input {formal.name} is left out"
        if value is None or isinstance(value, list):
            continue
        kind = _type(value).tensor_type.elem_type
        if f"tensor({type_name(kind)})" not in formal.types:
            return f"input {name!r} is of type {type_name(kind)}, which {formal.name} is never"
    return None


def _wrong_shape(
    proto: Any, schema: Any, opsets: Mapping[str, int], values: Mapping[str, Any]
) -> str | None:
    given = {name: values[name] for name in proto.input if values.get(name) is not None}
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    try:
        onnx.shape_inference.infer_node_outputs(
            schema, proto, {name: _type(value) for name, value in given.items()},
            {name: _data(value) for name, value in given.items() if _is_shown(value)},
            opset_imports=imports,
        )  # fmt: skip
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        return str(error)
    except KeyError:  # an input that is left out
        return None
    return None


def _type(value: Any) -> Any:
    return type_of(value.array if isinstance(value, Weight) else value)


def _is_shown(value: Any) -> bool:
    array = value.array if isinstance(value, Weight) else value
    is_array = isinstance(array, np.ndarray) and array.dtype != object
    return is_array and array.size <= _LARGEST_SHOWN


def _data(value: Any) -> Any:
    return numpy_helper.from_array(np.asarray(value.array if isinstance(value, Weight) else value))
