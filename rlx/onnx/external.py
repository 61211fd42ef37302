"""Tensors that are stored in files next to the model: mapped, and never outside of its folder."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from rlx.errors import FormatError, InputError
from rlx.files import open_file
from rlx.onnx import narrow
from rlx.onnx.types import numpy_dtype

Array = np.ndarray[Any, Any]

_DAMAGED = "put the complete data file next to the model"


def external_array(tensor: Any, folder: Path | None, title: str) -> Array:
    """Return a tensor whose data is in a file of the model's folder, mapped.

    FormatError for a location outside of the folder or of no regular file, and for an offset or
    length that does not fit the tensor and the file.
    """
    what = f"{title}: tensor {tensor.name!r}"
    entries = external_entries(tensor)
    if not all(isinstance(value, str) for value in entries.values()):
        raise FormatError(f"{what}: an entry of its external data is not text", remedy=_DAMAGED)
    location = entries.get("location", "")
    if folder is None:
        raise InputError(
            f"{what} is in {location!r}, next to an unknown file",
            remedy="load the model by its path",
        )
    path = _inside(folder, location, what)
    dtype, shape = numpy_dtype(tensor.data_type), tuple(tensor.dims)
    size = -(-math.prod(shape) * narrow.bits(dtype) // 8)
    offset = _number(entries.get("offset", "0"), "offset", what)
    length = _number(entries.get("length", str(size)), "length", what)
    if length != size:
        raise FormatError(
            f"{what} of shape {shape} takes {size} bytes of {location!r}; its length is {length}",
            remedy=_DAMAGED,
        )
    try:
        if size == 0:
            return np.zeros(shape, dtype)
        return _mapped(tensor, path, offset, size, dtype)
    except FormatError as error:
        raise error.located(what, None) from None
    except (OSError, ValueError, OverflowError) as error:
        raise FormatError(
            f"{what} of shape {shape} cannot be read from {location[:200]!r}: "
            f"{getattr(error, 'strerror', None) or error}",
            remedy=_DAMAGED,
        ) from None


def external_entries(tensor: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _number(text: str, key: str, what: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise FormatError(
            f"{what}: the {key} of its external data is {text[:40]!r}",
            remedy="it must be a number of bytes: export the model again",
        )
    return int(text)


def _mapped(tensor: Any, path: Path, offset: int, size: int, dtype: np.dtype[Any]) -> Array:
    """Map the bytes of a tensor; elements of less than a byte are unpacked."""
    shape = tuple(tensor.dims)
    with open_file(path) as file:
        available = os.fstat(file.fileno()).st_size
        if offset + size > available:
            raise FormatError(
                f"shape {shape} ends at byte {offset + size} of {path}, which has {available}",
                remedy=_DAMAGED,
            )
        if narrow.bits(dtype) >= 8:
            return np.memmap(file, dtype, "r", offset, shape)
        packed = np.memmap(file, np.uint8, "r", offset, (size,))
    whole = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims)
    whole.raw_data = packed.tobytes()
    return numpy_helper.to_array(whole)


def _inside(folder: Path, location: str, what: str) -> Path:
    """Return the file at `location`, which must be in the model's folder."""
    try:
        root = folder.resolve()
        path = (root / location).resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a NUL, too long, a loop of links
        raise FormatError(
            f"{what} is at {location[:200]!r}, which is not a path: {str(error)[:200]}",
            remedy=_DAMAGED,
        ) from None
    if not location or not path.is_relative_to(root):
        raise FormatError(
            f"{what} names data outside of the model's folder: {location[:200]!r}",
            remedy="a model that reads other files is not to be trusted; put its data next to it",
        )
    return path
