"""Bodies of the operators that the standard defines as functions of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from rlx.tracing.trace import TracedArray


def body_of(proto: Any, domain: str, version: int, inputs: Sequence[Any]) -> Any | None:
    """Return the function that an operator of the standard is as of `version`; None if none."""
    schema: Any
    try:
        schema = onnx.defs.get_schema(proto.op_type, version, domain)
    except onnx.defs.SchemaError:
        return None
    if schema.has_function:
        chosen = _newest(schema.function_opset_versions, version)
        text = schema.get_function_with_opset_version(chosen)
    elif schema.has_context_dependent_function:
        chosen = _newest(schema.context_dependent_function_opset_versions, version)
        types = [type_of(value).SerializeToString() for value in inputs]
        text = schema.get_context_dependent_function_with_opset_version(
            chosen, proto.SerializeToString(), types
        )
    else:
        return None
    function = onnx.FunctionProto.FromString(text)
    _add_defaults(function, schema)
    return function


def _newest(versions: Sequence[int], version: int) -> int:
    fitting = [each for each in versions if each <= version]
    return max(fitting) if fitting else min(versions)


def _add_defaults(function: Any, schema: Any) -> None:
    """Attributes that are left out have the defaults of the operator."""
    for attribute in schema.attributes.values():
        if attribute.default_value.name:
            function.attribute_proto.append(attribute.default_value)


def type_of(value: Any) -> Any:
    """Return the type of a value as the standard writes it."""
    if isinstance(value, list):
        element = type_of(value[0]) if value else onnx.TypeProto()
        return onnx.helper.make_sequence_type_proto(element)
    if isinstance(value, TracedArray):
        dtype, shape = value.value.dtype.numpy, value.value.shape
    elif isinstance(value, np.ndarray):
        dtype, shape = value.dtype, value.shape
    else:
        return onnx.TypeProto()
    element_type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    extents = [e if isinstance(e, int) else str(e) for e in shape]
    return onnx.helper.make_tensor_type_proto(element_type, extents)
