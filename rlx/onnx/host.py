"""Operators on dtypes that our ops lack, computed by NumPy where all inputs are known.

They run while a session is run, and cannot be compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx.errors import InputError, UnsupportedError
from rlx.onnx import narrow
from rlx.onnx.operators.text import encoded_categories, encoded_labels
from rlx.onnx.registry import Operator
from rlx.onnx.types import numpy_dtype

Array = np.ndarray[Any, Any]


def apply(found: Operator, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    """Return what NumPy makes of known arrays."""
    compute = _FUNCTIONS.get((found.domain, found.name))
    if compute is None:
        listed = ", ".join(str(x.dtype) for x in inputs if isinstance(x, np.ndarray))
        raise UnsupportedError(
            f"{found.name} of {listed}, which rlx has no dtype for",
            remedy="cast to a dtype that rlx has before it",
        )
    given = {name: value for name, value in attributes.items() if name != "node"}
    with np.errstate(all="ignore"):
        return compute(*inputs, **given)


def _cast(x: Array, *, to: Any, saturate: int = 1, round_mode: str = "up") -> Array:
    return _converted(x, numpy_dtype(to), saturate, round_mode)


def _cast_like(x: Array, like: Array, *, saturate: int = 1, round_mode: str = "up") -> Array:
    return _converted(x, like.dtype, saturate, round_mode)


def _converted(x: Array, dtype: np.dtype[Any], saturate: int, round_mode: str) -> Array:
    if x.dtype.kind == "O" or dtype.kind == "O":
        return _text(x, dtype)
    return narrow.converted(x, dtype, saturate=bool(saturate), round_mode=round_mode)


def _text(x: Array, dtype: np.dtype[Any]) -> Array:
    """Convert strings to numbers, or numbers to strings."""
    if dtype.kind != "O":
        return np.asarray([_number(str(text), dtype) for text in x.ravel()], dtype).reshape(x.shape)
    return np.asarray([str(value) for value in x.ravel()], object).reshape(x.shape)


def _number(text: str, dtype: np.dtype[Any]) -> Any:
    """Return what a string says, as an integer without a float between where it is one."""
    try:
        if "_" in text:  # which Python reads, and the standard does not
            raise ValueError
        ends = narrow.integer_range(dtype)
        if ends is None:
            return dtype.type(float(text))
        whole = int(text) if text.strip().lstrip("+-").isdecimal() else int(float(text))
        if not ends[0] <= whole <= ends[1]:  # NumPy 1 would wrap it, as 4 bits do
            raise ValueError
        return dtype.type(whole)
    except (ValueError, OverflowError):
        raise InputError(
            f"string {text!r} is no {dtype.name} number",
            remedy="give strings such as '314', '-1.5e-3', 'inf' or 'nan' within the dtype's range",
        ) from None


def _quantize(
    x: Array, scale: Array, zero: Array | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, saturate: int = 1, precision: int = 0,
) -> Array:  # fmt: skip
    del precision
    dtype = zero.dtype if zero is not None else numpy_dtype(output_dtype)
    scaled = x.astype(np.float32) / _against(x, scale, axis, block_size).astype(np.float32)
    low, high = narrow.limits(dtype)
    is_float = np.dtype(dtype).kind not in "iu" and abs(low) == high and high not in (7.0, 1.0)
    if is_float:
        return narrow.converted(scaled, dtype, saturate=bool(saturate))
    offset = 0 if zero is None else _against(x, zero, axis, block_size).astype(np.float32)
    return np.clip(np.rint(scaled) + offset, low, high).astype(np.int32).astype(dtype)


def _dequantize(
    x: Array, scale: Array, zero: Array | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Array:  # fmt: skip
    wide = x.astype(np.float32)
    if zero is not None:
        wide = wide - _against(x, zero, axis, block_size).astype(np.float32)
    made = numpy_dtype(output_dtype) if output_dtype else scale.dtype
    return (wide * _against(x, scale, axis, block_size).astype(np.float32)).astype(made)


def _against(x: Array, parameter: Array, axis: int, block_size: int) -> Array:
    """Return a scale or zero point (of all, a channel or a block) that broadcasts to `x`."""
    if parameter.size == 1:
        return parameter.reshape(())
    if parameter.ndim == 1 and not block_size:
        shape = [1] * x.ndim
        shape[axis] = -1
        return parameter.reshape(shape)
    return np.repeat(parameter, block_size, axis).take(range(x.shape[axis]), axis)


def _equal(a: Array, b: Array) -> Array:
    return np.asarray(a == b, bool)


_FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    ("", "Cast"): _cast,
    ("", "CastLike"): _cast_like,
    ("", "QuantizeLinear"): _quantize,
    ("", "DequantizeLinear"): _dequantize,
    ("", "Equal"): _equal,
    ("", "Identity"): lambda x: x,
    ("ai.onnx.ml", "LabelEncoder"): encoded_labels,
    ("ai.onnx.ml", "OneHotEncoder"): encoded_categories,
}
"""Operators that models apply to such arrays: conversions, comparisons and labels."""
