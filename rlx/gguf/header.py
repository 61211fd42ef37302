"""Parse the header of a GGUF file: metadata, and name, type, shape and offset of each tensor."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.gguf.cursor import Cursor

MetadataValue: TypeAlias = Any
"""A number, bool, string, list of strings or of lists, or array of numbers."""

_MAGIC = b"GGUF"
_VERSIONS = (1, 2, 3)
_NUMBERS = {
    0: "u1", 1: "i1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", 10: "u8", 11: "i8", 12: "f8",
}  # fmt: skip
_BOOL, _STRING, _ARRAY = 7, 8, 9
_MOST_AXES = 4
_MOST_ELEMENTS = 1 << 60
"""Elements of a tensor, with 1 for extents of 0: NumPy refuses shapes of more bytes than 2^63."""
ALIGNMENT_KEY = "general.alignment"
_ALIGNMENT = 32


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor of a file; `dims` come innermost first, as they are stored."""

    name: str
    dims: tuple[int, ...]
    type: int
    offset: int
    """Where it starts, counted from the start of the data."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The axes in NumPy's order."""
        return self.dims[::-1]


@dataclass(frozen=True, slots=True)
class Header:
    """What precedes the data."""

    version: int
    order: str
    """`<` or `>`, as NumPy spells byte orders."""
    alignment: int
    metadata: dict[str, MetadataValue]
    tensors: dict[str, TensorInfo]
    tensors_start: int
    data_start: int


def read_header(path: str, data: NDArray[np.uint8]) -> Header:
    """Parse the head of a file's bytes; a FormatError names the key or tensor at fault."""
    cursor = Cursor(path, data)
    version = _read_version(cursor)
    cursor.wide = version > 1
    tensor_count = cursor.count("tensor_count", 4)
    key_count = cursor.count("kv_count", 4)
    metadata = _read_metadata(cursor, key_count)
    alignment = _alignment(cursor, metadata)
    tensors_start = cursor.at
    tensors = _read_tensors(cursor, tensor_count, alignment)
    data_start = -(-cursor.at // alignment) * alignment
    return Header(version, cursor.order, alignment, metadata, tensors, tensors_start, data_start)


def _read_version(cursor: Cursor) -> int:
    """Read magic and version, which also shows the byte order."""
    magic = cursor.numbers(4, "u1", "magic").tobytes()
    if magic != _MAGIC:
        raise cursor.error("magic", f"a GGUF file starts with {_MAGIC!r}, this one with {magic!r}")
    version = cursor.number("u4", "version")
    if version & 0xFFFF == 0:
        cursor.order = ">"
        cursor.at -= 4
        version = cursor.number("u4", "version")
    if version not in _VERSIONS:
        raise cursor.error("version", f"{version} is none of {', '.join(map(str, _VERSIONS))}")
    return int(version)


def _read_metadata(cursor: Cursor, count: int) -> dict[str, MetadataValue]:
    metadata: dict[str, MetadataValue] = {}
    for number in range(count):
        cursor.budget.charge_nodes()
        key = cursor.text(f"key {number} of {count}")
        if key in metadata:
            raise cursor.error(f"key {key!r}", "occurs twice")
        metadata[key] = _read_value(cursor, cursor.number("u4", f"key {key!r}"), f"key {key!r}")
    return metadata


def _read_value(cursor: Cursor, kind: int, what: str) -> MetadataValue:
    if kind in _NUMBERS:
        return cursor.number(_NUMBERS[kind], what)
    if kind == _BOOL:
        return _bool(cursor, cursor.number("u1", what), what)
    if kind == _STRING:
        return cursor.text(what)
    if kind == _ARRAY:
        with cursor.budget.nested(what):
            return _read_array(cursor, what)
    raise cursor.error(what, f"{kind} is not a type of metadata")


def _bool(cursor: Cursor, byte: int, what: str) -> bool:
    if byte > 1:
        raise cursor.error(what, f"a bool is 0 or 1, not {byte}")
    return bool(byte)


def _read_array(cursor: Cursor, what: str) -> MetadataValue:
    kind = cursor.number("u4", what)
    if kind in _NUMBERS:
        dtype = _NUMBERS[kind]
        numbers = cursor.numbers(cursor.count(what, int(dtype[1])), dtype, what)
        return numbers.astype(dtype)  # in this machine's byte order, and out of the file
    if kind not in (_BOOL, _STRING, _ARRAY):
        raise cursor.error(what, f"{kind} is not a type of metadata")
    count = cursor.count(what, 1 if kind == _BOOL else 4)
    if kind == _STRING:
        return cursor.texts(count, what)
    cursor.budget.check_elements(count, what)
    if kind == _ARRAY:
        cursor.budget.charge_nodes(count)
    return [_read_value(cursor, kind, what) for _ in range(count)]


def _alignment(cursor: Cursor, metadata: dict[str, MetadataValue]) -> int:
    alignment = metadata.get(ALIGNMENT_KEY, _ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise cursor.error(f"key {ALIGNMENT_KEY!r}", f"{alignment!r} is not a power of two")
    return alignment


def _read_tensors(cursor: Cursor, count: int, alignment: int) -> dict[str, TensorInfo]:
    tensors: dict[str, TensorInfo] = {}
    for number in range(count):
        cursor.budget.charge_nodes()
        name = cursor.text(f"name of tensor {number} of {count}")
        if name in tensors:
            raise cursor.error(f"tensor {name!r}", "occurs twice")
        tensors[name] = _read_tensor(cursor, name, alignment)
    return tensors


def _read_tensor(cursor: Cursor, name: str, alignment: int) -> TensorInfo:
    what = f"tensor {name!r}"
    axes = cursor.number("u4", what)
    if axes > _MOST_AXES:
        raise cursor.error(what, f"it claims {axes} axes; there are {_MOST_AXES} at most")
    dims = cursor.numbers(axes, "u8" if cursor.wide else "u4", what)
    if math.prod(max(int(extent), 1) for extent in dims) > _MOST_ELEMENTS:
        raise cursor.error(what, f"it claims extents {dims.tolist()}, which no array can have")
    kind = cursor.number("u4", what)
    offset = cursor.number("u8", what)
    if offset % alignment:
        raise cursor.error(what, f"its offset {offset} is not a multiple of {alignment}")
    return TensorInfo(name, tuple(int(extent) for extent in dims), kind, offset)
