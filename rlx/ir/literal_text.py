"""How numbers are written in the text form, exactly: what is printed parses to the same bits.

Floats are written with the fewest digits that identify them; a NaN other than the quiet one
without payload is written with its bits, `nan(0x7fc00001)`.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.ir.dtype import DType

QUIET_NAN = {
    dtype: int(np.array(np.nan, dtype.numpy).view(f"u{dtype.size}"))
    for dtype in DType
    if dtype.is_float
}
"""The bits of a plain `nan`."""


def float_text(number: float) -> str:
    """Write a Python float."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", number))
    return _nan_text(DType.F64, number, bits) or repr(number)


def element_texts(array: NDArray[Any], dtype: DType) -> list[str]:
    """Write the elements of `array` in row-major order; complex ones as two numbers each."""
    flat = array.reshape(-1)
    if dtype.is_complex:
        return element_texts(flat.view(dtype.part.numpy), dtype.part)
    if dtype is DType.BOOL:
        return ["true" if item else "false" for item in flat]
    if dtype.is_int:
        return [str(int(item)) for item in flat]
    bits = flat.view(f"<u{dtype.size}")
    return [_element_text(dtype, item, int(b)) for item, b in zip(flat, bits, strict=True)]


def number_from_bits(dtype: DType, bits: int) -> NDArray[Any]:
    """Return the float of `dtype` with these `bits`, as an array of one element."""
    return np.array([bits], dtype=f"<u{dtype.size}").view(dtype.numpy)


def _element_text(dtype: DType, item: Any, bits: int) -> str:
    special = _nan_text(dtype, item, bits)
    if special is not None:
        return special
    shortest = str(item)
    exact = repr(float(item))
    if not np.isfinite(item):
        return exact
    reread = np.array([float(shortest)]).astype(dtype.numpy)
    agrees = int(reread.view(f"<u{dtype.size}")[0]) == bits
    return _with_point(shortest) if agrees else exact


def _with_point(text: str) -> str:
    """Add a point where `text` would read as an integer."""
    return text if any(mark in text for mark in ".en") else f"{text}.0"


def _nan_text(dtype: DType, number: Any, bits: int) -> str | None:
    """Write a NaN; None for any other number."""
    if not math.isnan(number):
        return None
    return "nan" if bits == QUIET_NAN[dtype] else f"nan({bits:#x})"
