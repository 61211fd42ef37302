"""Files of arrays: safetensors, `.npy` and `.npz`, drawn entry by entry."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from rlx.cli.arrays import read_arrays
from rlx.ir import ops
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph
from rlx.limits import LoadLimits, default_limits
from tests.fuzz.files.case import HOSTILE_INTEGERS, HOSTILE_TEXTS, NAMES, Kind, Loaded, Rng, chosen
from tests.fuzz.mutations import damaged_bytes, damaged_json

_LIMITS = LoadLimits(nodes=1000, bytes=1 << 26, seconds=20.0)
_DTYPES = {
    "F32": 4, "F16": 2, "BF16": 2, "F64": 8, "I8": 1, "I64": 8, "U8": 1, "BOOL": 1, "C64": 8,
    "F8_E4M3": 1, "U16": 2, "F6": 1,
}  # fmt: skip
_NUMPY = ("<f4", ">f4", "<f2", "<i8", "|b1", "|u1", "<c8", "|O", "<U4", "[('a', '<f4')]", "V3")


def drawn_safetensors(rng: Rng) -> bytes:
    header: dict[str, Any] = {}
    data = b""
    for number in range(rng.choice((0, 1, 2, 5))):
        dtype = rng.choice(tuple(_DTYPES))
        shape = [rng.choice((0, 1, 2, 3, 7)) for _ in range(rng.randrange(4))]
        size = _DTYPES[dtype] * int(np.prod(shape))
        name = rng.choice(NAMES) if rng.random() < 0.3 else f"t{number}"
        places = [len(data), len(data) + size]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": places}
        data += (rng.randbytes if dtype != "BOOL" or rng.random() < 0.2 else bytes)(size)
    if rng.random() < 0.3:
        header["__metadata__"] = {"a": rng.choice(HOSTILE_TEXTS)}
    for _ in range(chosen(rng, (2, 0), (2, 1), (1, 3))):
        if header:
            header = damaged_json(header, rng)
    text = json.dumps(header).encode()
    content = struct.pack("<Q", len(text)) + text + data
    return damaged_bytes(content, rng) if rng.random() < 0.3 else content


def loaded(path: Path, rng: Rng) -> Loaded:
    """Read arrays, and return a graph that has them as params."""
    del rng
    with default_limits(_LIMITS):
        arrays = read_arrays(path)
    known = {}
    for name, array in arrays.items():
        if array.size < 1 << 12 and array.dtype.name in _STORED:
            known[name or "x"] = array
    g = Graph("arrays")
    yes = g.constant(np.bool_(True))
    params = [g.param(name, x.shape, as_dtype(x.dtype)) for name, x in known.items()]
    g.set_outputs([ops.where(yes, param, param) for param in params] or [yes])
    return Loaded(g, known)


_STORED = (
    "float32", "float16", "bfloat16", "float64", "int8", "int64", "uint8", "bool", "complex64",
)  # fmt: skip


def _npy(rng: Rng) -> bytes:
    dtype = rng.choice(_NUMPY)
    shape = [rng.choice((0, 1, 2, 3)) for _ in range(rng.randrange(4))]
    if rng.random() < 0.2 and shape:
        shape[rng.randrange(len(shape))] = rng.choice(HOSTILE_INTEGERS)
    described = dtype if dtype[0] == "[" else repr(dtype)
    header = f"{{'descr': {described}, 'fortran_order': {rng.random() < 0.3}, 'shape': "
    header += f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})}}\n"
    size = int(np.prod([max(0, min(extent, 9)) for extent in shape])) * 8
    version = rng.choice((1, 1, 1, 2, 3, 9))
    prefix = struct.pack("<H" if version == 1 else "<I", len(header))
    data = rng.randbytes(size) if dtype != "|b1" else bytes(size)
    return b"\x93NUMPY" + bytes((version, 0)) + prefix + header.encode() + data


def drawn_npy(rng: Rng) -> bytes:
    content = _npy(rng)
    return damaged_bytes(content, rng) if rng.random() < 0.3 else content


def drawn_npz(rng: Rng) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", rng.choice((0, 8))) as archive:
        for number in range(rng.choice((0, 1, 3))):
            name = rng.choice(HOSTILE_TEXTS) if rng.random() < 0.2 else f"x{number}.npy"
            content = _npy(rng) if rng.random() < 0.9 else bytes(1 << 27)
            archive.writestr(zipfile.ZipInfo(name), content, rng.choice((0, 8)))
    content = buffer.getvalue()
    return damaged_bytes(content, rng) if rng.random() < 0.4 else content


SAFETENSORS = Kind("safetensors", ".safetensors", drawn_safetensors, loaded)
NPY = Kind("npy", ".npy", drawn_npy, loaded)
NPZ = Kind("npz", ".npz", drawn_npz, loaded)
