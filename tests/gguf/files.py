"""GGUF files made byte by byte, for tests."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np


class Tensor(NamedTuple):
    """Dims innermost first, the type's number, and the bytes."""

    dims: tuple[int, ...]
    type: int
    data: bytes


def f32(values: Any) -> Tensor:
    array = np.asarray(values, "<f4")
    return Tensor(array.shape[::-1], 0, array.tobytes())


_LARGEST = 3.4e38
"""About the largest f32."""


def gguf_file(
    metadata: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    version: int = 3,
    order: str = "<",
    alignment: int = 32,
) -> bytes:
    """Return the bytes of a file.

    Numbers are stored as u32 and f32 where these hold them, lists as arrays of strings, i32 or f32.
    """
    wide = "Q" if version > 1 else "I"

    def count(n: int) -> bytes:
        return struct.pack(order + wide, n)

    def text(s: str) -> bytes:
        return count(len(s.encode())) + s.encode()

    def value(v: Any) -> bytes:
        if isinstance(v, bool):
            return struct.pack(order + "IB", 7, v)
        if isinstance(v, int):
            code, kind = ("I", 4) if 0 <= v < 2**32 else ("Q", 10) if v > 0 else ("q", 11)
            return struct.pack(order + "I" + code, kind, v)
        if isinstance(v, float):
            code, kind = ("d", 12) if math.isfinite(v) and abs(v) > _LARGEST else ("f", 6)
            return struct.pack(order + "I" + code, kind, v)
        if isinstance(v, str):
            return struct.pack(order + "I", 8) + text(v)
        if v and not isinstance(v[0], str):
            code, kind = ("f", 6) if isinstance(v[0], float) else ("i", 5)
            return struct.pack(f"{order}II{wide}{len(v)}{code}", 9, kind, len(v), *v)
        return struct.pack(order + "II", 9, 8) + count(len(v)) + b"".join(map(text, v))

    head = b"GGUF" + struct.pack(order + "I", version) + count(len(tensors)) + count(len(metadata))
    head += b"".join(text(key) + value(v) for key, v in metadata.items())
    data = b""
    for name, tensor in tensors.items():
        data += b"\0" * (-len(data) % alignment)
        head += text(name) + struct.pack(order + "I", len(tensor.dims))
        head += b"".join(count(extent) for extent in tensor.dims)
        head += struct.pack(order + "IQ", tensor.type, len(data))
        data += tensor.data
    return head + b"\0" * (-len(head) % alignment) + data
