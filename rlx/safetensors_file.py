"""Arrays by name from `.safetensors` files, checked before anything is made of them.

    u64 size of the header, the header as JSON, data

The header maps names to `{"dtype": "F32", "shape": [8, 4], "data_offsets": [0, 128]}`, and
`__metadata__` to strings by name.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import FormatError
from rlx.files import map_file, read_file
from rlx.limits import Budget, LoadLimits, loading

Array = NDArray[Any]

_DTYPES: Mapping[str, np.dtype[Any]] = {
    name: np.dtype(dtype)
    for name, dtype in {
        "BOOL": np.bool_, "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4",
        "I32": "<i4", "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
        "C64": "<c8", "BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn,
        "F8_E5M2": ml_dtypes.float8_e5m2,
    }.items()
}  # fmt: skip
_MOST_AXES = 32
_MOST_HEADER = 100_000_000
"""Bytes of a header, as the format has it: its text is parsed before anything is checked."""
_LARGEST = 2**63 - 1
"""Extent, and offset."""
_METADATA = "__metadata__"


@dataclass(frozen=True, slots=True)
class SafetensorsFile:
    """What a file holds."""

    arrays: dict[str, Array]
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True)
class MappedSafetensors:
    """A file that is mapped into memory, with views of its tensors."""

    arrays: dict[str, Array]
    head: bytes
    """What precedes the tensors."""
    data: NDArray[np.uint8]


def read_safetensors(
    path: str | os.PathLike[str], limits: LoadLimits | None = None
) -> SafetensorsFile:
    """Read a file; FormatError if it is damaged, LimitError if it needs more than `limits`."""
    with loading(limits, str(path)) as budget:
        return _Reader(read_file(path, budget), budget).file()


def map_safetensors(
    path: str | os.PathLike[str], limits: LoadLimits | None = None
) -> MappedSafetensors:
    """Map a file and check its header; errors as those of `read_safetensors`."""
    with loading(limits, str(path)) as budget:
        data = map_file(path)
        reader = _Reader(data.data, budget)
        header, start = reader.header()
        budget.charge_bytes(start)
        arrays = dict(reader.views(header, data.data[start:]))
        return MappedSafetensors(arrays, data[:start].tobytes(), data)


@dataclass(slots=True)
class _Reader:
    content: bytes | memoryview
    budget: Budget

    def fail(self, problem: str) -> NoReturn:
        raise FormatError(
            f"{self.budget.file}: not a safetensors file: {problem}",
            remedy="get it again, or write it again with safetensors.numpy.save_file",
        )

    def file(self) -> SafetensorsFile:
        header, start = self.header()
        metadata = header.pop(_METADATA, {})
        views = self.views(header, memoryview(self.content)[start:])
        return SafetensorsFile({name: view.copy() for name, view in views}, metadata)

    def header(self) -> tuple[dict[str, Any], int]:
        """Return the header as it was parsed, and where the data starts."""
        if len(self.content) < 8:
            self.fail(f"it has {len(self.content)} bytes")
        (size,) = struct.unpack_from("<Q", self.content)
        if size > len(self.content) - 8:
            self.fail(f"its header takes {size} bytes, of {len(self.content) - 8}")
        if size > _MOST_HEADER:
            self.fail(f"its header takes {size} bytes; a header takes {_MOST_HEADER} at most")
        try:
            text = bytes(self.content[8 : 8 + size]).decode()
            header = json.loads(text, object_pairs_hook=_unique)
        except ValueError as error:
            self.fail(f"its header: {error}")
        if not isinstance(header, dict):
            self.fail("its header is no JSON object")
        if not _is_text(header.get(_METADATA, {})):
            self.fail(f"{_METADATA} is not strings by name")
        return header, 8 + size

    def _check_places(self, header: Mapping[str, Any], size: int) -> None:
        """Demand that the tensors fill the data without overlap."""
        end = 0
        for first, last in sorted(self._place(name, info) for name, info in header.items()):
            if first != end:
                self.fail(f"bytes {min(first, end)} to {max(first, end)} are of no or two tensors")
            end = last
        if end != size:
            self.fail(f"its tensors take {end} bytes of data, the file has {size}")

    def _place(self, name: str, info: Any) -> tuple[int, int]:
        """Return first and last byte of a tensor, whose entry in the header is checked."""
        self.budget.charge_nodes()
        entry: dict[str, Any] = info if isinstance(info, dict) else {}
        dtype, shape, place = (entry.get(key, "") for key in ("dtype", "shape", "data_offsets"))
        if not isinstance(dtype, str) or dtype not in _DTYPES:
            self.fail(f"tensor {name!r} has dtype {dtype!r}; known are {', '.join(_DTYPES)}")
        if not _are_naturals(shape) or len(shape) > _MOST_AXES:
            self.fail(f"tensor {name!r} has shape {shape!r}")
        if not _are_naturals(place) or len(place) != 2:
            self.fail(f"tensor {name!r} has offsets {place!r}")
        size = math.prod(shape) * _DTYPES[dtype].itemsize
        if place[1] - place[0] != size:
            taken = size if size <= _LARGEST else f"more than {_LARGEST}"
            self.fail(f"tensor {name!r}: {dtype}{shape} takes {taken} bytes, not {place}")
        return place[0], place[1]

    def views(self, header: Mapping[str, Any], data: memoryview) -> Iterator[tuple[str, Array]]:
        """Yield names of tensors and views of them, whose places are checked."""
        tensors = {name: info for name, info in header.items() if name != _METADATA}
        self._check_places(tensors, len(data))
        for name, info in tensors.items():
            (first, last), dtype = info["data_offsets"], _DTYPES[info["dtype"]]
            if dtype == np.bool_ and np.frombuffer(data[first:last], "u1").max(initial=0) > 1:
                self.fail(f"tensor {name!r}: a bool is neither 0 nor 1")
            try:
                flat = (
                    np.frombuffer(data[first:last], dtype) if last > first else np.empty(0, dtype)
                )
                yield name, flat.reshape(info["shape"])
            except ValueError as error:  # an empty array with extents that NumPy refuses
                self.fail(f"tensor {name!r}: {error}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _is_text(found: Any) -> bool:
    return isinstance(found, dict) and all(isinstance(value, str) for value in found.values())


def _are_naturals(found: Any) -> bool:
    return isinstance(found, list) and all(
        isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= _LARGEST for n in found
    )
