"""Writing a GGUF file that differs from another in some tensors."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.errors import InputError, UnsupportedError
from rlx.gguf.element_types import ELEMENT_TYPES, ElementType
from rlx.gguf.file import GgufFile
from rlx.gguf.header import TensorInfo

Replaced = Mapping[str, tuple[str, NDArray[Any]]]
"""Tensors by name: what their type is called, and rows of blocks or of plain numbers."""

_BY_NAME = {kind.name: (number, kind) for number, kind in ELEMENT_TYPES.items()}


def rewrite(file: GgufFile, path: str | os.PathLike[str], replaced: Replaced) -> None:
    """Write `file` to `path` with the same metadata, some tensors replaced by others."""
    header, order = file.head
    if order != "<" or file.version < 2:
        raise UnsupportedError(
            f"{file.path}: files of several parts, big-endian files and those of version 1 are "
            "not rewritten",
            remedy="convert the file to a little-endian one of version 3 first",
        )
    tensors = [_written(file, name, replaced) for name in file.tensors]
    entries, offset = b"", 0
    for info, data in tensors:
        offset += -offset % file.alignment
        entries += _entry(info, offset)
        offset += data.nbytes
    head = header.tobytes() + entries
    with Path(path).open("wb") as out:
        out.write(head + b"\0" * (-len(head) % file.alignment))
        for _, data in tensors:
            out.write(data.tobytes())
            out.write(b"\0" * (-data.nbytes % file.alignment))


def _written(file: GgufFile, name: str, replaced: Replaced) -> tuple[TensorInfo, NDArray[np.uint8]]:
    info = file.tensors[name]
    if name not in replaced:
        return info, file.tensor_bytes(name)
    kind_name, rows = replaced[name]
    number, kind = _BY_NAME[kind_name]
    data = _as_bytes(rows, kind)
    columns = data.shape[-1] // kind.size * kind.elements
    if (*data.shape[:-1], columns) != info.shape:
        raise InputError(
            f"tensor {name!r} has shape {info.shape} in {file.path}, not "
            f"{(*data.shape[:-1], columns)}",
            remedy="replace tensors by others of their shape",
        )
    return TensorInfo(name, info.dims, number, 0), data


def _as_bytes(rows: NDArray[Any], kind: ElementType) -> NDArray[np.uint8]:
    plain = rows if kind.numpy is None else rows.astype(f"<{kind.numpy}")
    return np.ascontiguousarray(plain).view(np.uint8)


def _entry(info: TensorInfo, offset: int) -> bytes:
    name = info.name.encode()
    dims = struct.pack(f"<I{len(info.dims)}Q", len(info.dims), *info.dims)
    return struct.pack("<Q", len(name)) + name + dims + struct.pack("<IQ", info.type, offset)
