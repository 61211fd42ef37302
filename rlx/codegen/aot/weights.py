"""The weights file: a header, then every param at a 64-byte boundary. Made to be mapped.

    u32 magic "RLXW", u32 version, u64 layout hash, u64 file size, u64 content hash, padding to 64

Numbers are little-endian. The layout hash names the tensors and their places, so that weights of
another model are refused. The content hash is Horner's rule modulo 2**64 over the 64-bit words
after the header, `h = h * MULTIPLIER + word`: the multiplier is odd, so any change of one word
changes the hash, and C computes it as fast as it reads.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.codegen.aot.layout import WEIGHTS_HEADER_BYTES, Tensor
from rlx.errors import FormatError

MAGIC = int.from_bytes(b"RLXW", "little")
VERSION = 1
MULTIPLIER = 0x9E3779B97F4A7C15

_HEADER = struct.Struct("<IIQQQ")
_BLOCK_WORDS = 1 << 16


def layout_hash(tensors: Sequence[Tensor]) -> int:
    """Return what identifies the names, types and places of the tensors in a weights file."""
    text = "\n".join(f"{t.name} {t.type} {_place(t)}" for t in tensors)
    return int.from_bytes(
        hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:8], "little"
    )


def content_hash(data: NDArray[np.uint8]) -> int:
    """Return the hash of `data`, whose size is a multiple of 8."""
    words = data.view("<u8")
    powers = np.multiply.accumulate(np.full(_BLOCK_WORDS, MULTIPLIER, np.uint64))
    total = 0
    for start in range(0, words.size, _BLOCK_WORDS):
        block = words[start : start + _BLOCK_WORDS].astype(np.uint64)
        factors = np.concatenate([powers[: block.size - 1][::-1], np.ones(1, np.uint64)])
        folded = int(np.sum(block * factors, dtype=np.uint64))
        total = (total * int(powers[block.size - 1]) + folded) % 2**64
    return total


def weights_bytes(
    tensors: Sequence[Tensor], size: int, values: Mapping[str, NDArray[Any]]
) -> bytes:
    """Return the content of a weights file of `size` bytes."""
    data = np.zeros(size, np.uint8)
    for tensor in tensors:
        start = _place(tensor)
        raw = np.ascontiguousarray(values[tensor.name]).view(np.uint8).reshape(-1)
        data[start : start + tensor.bytes] = raw
    digest = content_hash(data[WEIGHTS_HEADER_BYTES:])
    header = _HEADER.pack(MAGIC, VERSION, layout_hash(tensors), size, digest)
    data[: len(header)] = np.frombuffer(header, np.uint8)
    return data.tobytes()


def read_weights(data: bytes, tensors: Sequence[Tensor], size: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of a weights file, or raise FormatError."""
    if len(data) < WEIGHTS_HEADER_BYTES:
        raise FormatError(
            f"a weights file of {len(data)} bytes lacks its header",
            remedy="copy it again, or write it with write_weights",
        )
    magic, version, layout, bytes_, digest = _HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise FormatError(
            f"not a weights file of version {VERSION}",
            remedy="write it with write_weights of this version",
        )
    if layout != layout_hash(tensors):
        raise FormatError(
            "the weights belong to another model",
            remedy="write the weights of this model with write_weights",
        )
    block = np.frombuffer(data, np.uint8)
    if bytes_ != size or len(data) != size:
        raise FormatError(
            f"the weights file has {len(data)} bytes; it must have {size}",
            remedy="copy it again, or write it with write_weights",
        )
    if content_hash(block[WEIGHTS_HEADER_BYTES:]) != digest:
        raise FormatError(
            "the weights are damaged: their content does not match their hash",
            remedy="copy it again, or write it with write_weights",
        )
    return {t.name: _array(block, t) for t in tensors}


def _array(block: NDArray[np.uint8], tensor: Tensor) -> NDArray[Any]:
    start = _place(tensor)
    raw = block[start : start + tensor.bytes]
    return raw.view(tensor.type.dtype.numpy).reshape(tensor.type.static_shape).copy()


def _place(tensor: Tensor) -> int:
    """Return the offset in the file; a donated param's arena has a copy of it."""
    return tensor.offset if tensor.initial is None else tensor.initial[1]
