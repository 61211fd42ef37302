"""Element types of the standard, by their numbers in files."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from rlx.errors import DTypeError, FormatError
from rlx.ir.dtype import DType, as_dtype
from rlx.onnx.errors import ForeignDTypeError

_BY_NAME = {name.lower(): number for name, number in onnx.TensorProto.DataType.items()}


def numpy_dtype(number: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of an element type; the first opset wrote its name."""
    if isinstance(number, str):
        number = _BY_NAME.get(number.lower(), 0)
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(int(number)))
    except (KeyError, ValueError, TypeError):
        raise FormatError(
            f"element type {number} is not in the standard",
            remedy="the model is malformed, or newer than the installed onnx package",
        ) from None


def dtype_of(number: Any) -> DType:
    """Return our dtype for an element type."""
    if not computes(numpy_dtype(number)):
        raise ForeignDTypeError(
            f"element type {type_name(number)} is computed by NumPy only, with all inputs known",
            remedy="run the model in rlx.onnx.InferenceSession, or cast to a dtype that rlx has",
        )
    return as_dtype(numpy_dtype(number))


def computes(dtype: np.dtype[Any]) -> bool:
    """True for a dtype that our ops compute with as the standard does.

    Floats of eight bits are stored and converted only, and without the standard's saturation.
    """
    try:
        return not as_dtype(dtype).is_storage
    except DTypeError:
        return False


def type_name(number: Any) -> str:
    """Return what the standard calls an element type."""
    names = {value: name for name, value in onnx.TensorProto.DataType.items()}
    return str(names.get(number, f"number {number}")).lower()
