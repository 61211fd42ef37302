"""MLIR's types, attributes and locations as rlx's dtypes, shapes, numbers and source lines."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from rlx.errors import FormatError, Source, UnsupportedError
from rlx.ir.dtype import DType, as_dtype
from rlx.limits import current_budget

_DTYPES = {
    "i1": "bool", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "ui8": "u8", "ui16": "u16",
    "ui32": "u32", "ui64": "u64", "f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64",
    "complex<f32>": "c64", "complex<f64>": "c128", "f8E4M3FN": "f8_e4m3fn", "f8E5M2": "f8_e5m2",
    "f8E4M3": "f8_e4m3", "index": "i64",
}  # fmt: skip


def dtype_of(type: Any) -> DType:
    """Return the dtype of a tensor's elements, or of a scalar type."""
    element = str(getattr(type, "element_type", type))
    name = _DTYPES.get(element)
    if name is None:
        raise UnsupportedError(
            f"from_stablehlo: elements of type {element}",
            remedy=f"use one of {', '.join(_DTYPES)}",
        )
    return as_dtype(name)


def shape_of_type(type: Any) -> tuple[int | None, ...]:
    """Return the extents of a tensor type, None where it leaves them open."""
    if not isinstance(type, ir.RankedTensorType):
        raise UnsupportedError(
            f"from_stablehlo: a value of type {type}", remedy="use tensors of a known rank"
        )
    dynamic = ir.ShapedType.get_dynamic_size()
    return tuple(None if extent == dynamic else int(extent) for extent in type.shape)


def is_tensor(type: Any) -> bool:
    """True for tensors; tokens and tuples are none."""
    return isinstance(type, ir.ShapedType)


_LONGEST_LOCATION = 64
"""Locations in a location that are looked through for a line."""
_READ = (DType.BOOL, DType.I8, DType.I16, DType.I32, DType.I64, DType.U8, DType.U16, DType.U32,
         DType.U64, DType.F32, DType.F64)  # fmt: skip
"""Types of which the bindings give arrays."""


def constant(op: Any) -> np.ndarray[Any, Any]:
    """Return the array of an op `constant`."""
    type = op.results[0].type
    dtype, shape = dtype_of(type), shape_of_type(type)
    count = current_budget().check_elements(math.prod(n or 0 for n in shape), "a constant")
    if dtype in _READ and count:
        return np.array(op.attributes["value"]).astype(dtype.numpy, copy=False).reshape(shape)
    text = op.get_asm(print_generic_op_form=True, enable_debug_info=False)
    return _dense(text, dtype, shape)


def _dense(text: str, dtype: DType, shape: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """Return the array of an attribute in text: `dense<"0x...">`, a list or one element of all."""
    found = re.search(r'dense<("0x[0-9A-Fa-f]*"|.*?)>\s*:\s*tensor<', text, re.DOTALL)
    if found is None:
        raise FormatError(
            f"from_stablehlo: a constant that is not a dense array: {text:.100}",
            remedy="write constants as dense<...>",
        )
    content, count = found[1], math.prod(shape)
    if content.startswith('"0x'):
        flat = np.frombuffer(bytes.fromhex(content[3:-1]), dtype.numpy)
    else:
        words = re.findall(r"true|false|0x[0-9A-Fa-f]+|[-+.\w]+", content)
        size = dtype.size // 2
        part: np.dtype[Any] = np.dtype(f"f{size}") if dtype.is_complex else np.dtype(dtype.numpy)
        parts = np.array([_number(word, part) for word in words], part)
        flat = parts.view(dtype.numpy)
    return np.broadcast_to(flat, (count,)).reshape(shape) if flat.size == 1 else flat.reshape(shape)


def _number(word: str, dtype: np.dtype[Any]) -> Any:
    if word in ("true", "false"):
        return word == "true"
    if word.startswith("0x"):
        bits = int(word, 16).to_bytes(dtype.itemsize, "little")
        return np.frombuffer(bits, dtype)[0]
    return dtype.type(float(word)) if dtype.kind not in "iu" else dtype.type(int(word))


def integers(attribute: Any) -> tuple[int, ...]:
    """Return the numbers of an attribute that lists them."""
    if isinstance(attribute, (ir.DenseI64ArrayAttr, ir.DenseBoolArrayAttr, ir.DenseI32ArrayAttr)):
        return tuple(int(x) for x in attribute)
    if isinstance(attribute, ir.IntegerAttr):
        return (int(attribute.value),)
    if isinstance(attribute, ir.ArrayAttr):
        return tuple(n for each in attribute for n in integers(each))
    return tuple(int(x) for x in np.array(attribute).ravel())


def word(attribute: Any) -> str:
    """Return the word of an attribute of an enumeration: `LT` of `#stablehlo<... LT>`."""
    value = getattr(attribute, "value", None)
    return value if isinstance(value, str) else str(attribute).rstrip(">").split()[-1]


def source_of(location: Any) -> Source | None:
    """Return the innermost line of a file that a location names."""
    name = ""
    for _ in range(_LONGEST_LOCATION):
        if hasattr(location, "filename"):
            file = str(location.filename)
            file = current_budget().file if file == "-" else file  # MLIR's name of text
            return Source(file, int(location.start_line), name)
        if hasattr(location, "callee"):
            location = location.callee
        elif hasattr(location, "child_loc"):
            name, location = str(location.name_str), location.child_loc
        elif getattr(location, "locations", None):
            location = location.locations[0]
        else:
            return None
    return None
