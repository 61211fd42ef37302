"""GGUF files: metadata of every type, tensors of every type with any bytes, whole small models.

Tensors are decoded by NumPy and, as params of a graph, by generated code.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np

from rlx.errors import RlxError
from rlx.gguf import GgufFile, read
from rlx.gguf.element_types import ELEMENT_TYPES
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.language.config import DecoderConfig
from rlx.language.tokenizer import TextTokenizer
from rlx.limits import LoadLimits
from tests.fuzz.files.case import (
    HOSTILE_FLOATS,
    HOSTILE_INTEGERS,
    HOSTILE_TEXTS,
    NAMES,
    Array,
    Kind,
    Loaded,
    Rng,
    chosen,
)
from tests.fuzz.mutations import damaged_bytes
from tests.gguf.files import Tensor, gguf_file
from tests.language.tiny import metadata, q8_0, random_weights, text_metadata

_LIMITS = LoadLimits(nodes=2000, elements=1 << 20, bytes=1 << 26, seconds=20.0)
_LARGEST = 1 << 14


def drawn(rng: Rng) -> bytes:
    facts, tensors = chosen(rng, (3, _random), (1, _model))(rng)
    for _ in range(chosen(rng, (3, 0), (2, 1), (1, 4))):
        key = rng.choice([*facts, "general.alignment", "split.count"])
        facts[key] = _value(rng)
    version = chosen(rng, (6, 3), (1, 2), (1, 1))
    if version == 1:
        tensors = {k: t._replace(dims=tuple(n % 2**32 for n in t.dims)) for k, t in tensors.items()}
    content = gguf_file(facts, tensors, version=version, order=chosen(rng, (6, "<"), (1, ">")))
    if rng.random() < 0.5:
        content = _damaged_data(content, rng)
    return damaged_bytes(content, rng) if rng.random() < 0.4 else content


def _damaged_data(content: bytes, rng: Rng) -> bytes:
    """Replace bytes of the second half, which is tensors for the most part."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 8, 64))):
        place = rng.randrange(len(data) // 2, len(data))
        data[place] = rng.choice((0, 0xFF, 0x7F, 0x80, rng.randrange(256)))
    return bytes(data)


def _value(rng: Rng) -> Any:
    kind = rng.randrange(6)
    if kind == 0:
        return [rng.choice(HOSTILE_TEXTS) for _ in range(rng.randrange(4))]
    if kind == 1:
        return [rng.choice((0, 1, -1, 2**31 - 1)) for _ in range(rng.randrange(1, 4))]
    if kind == 2:
        return rng.choice(HOSTILE_TEXTS)
    if kind == 3:
        return rng.choice(HOSTILE_FLOATS)
    return rng.random() < 0.5 if kind == 4 else rng.choice(HOSTILE_INTEGERS)


def _random(rng: Rng) -> tuple[dict[str, Any], dict[str, Tensor]]:
    facts = {f"key.{number}": _value(rng) for number in range(rng.randrange(5))}
    tensors = {}
    for number in range(rng.randrange(1, 5)):
        kind_number = rng.choice((*ELEMENT_TYPES, 9, 41, 77))
        kind = ELEMENT_TYPES.get(kind_number, ELEMENT_TYPES[0])
        dims = [kind.elements * rng.choice((0, 1, 1, 2))]
        dims += [rng.choice((0, 1, 2, 3)) for _ in range(rng.randrange(4))]
        size = math.prod(dims) // kind.elements * kind.size
        if rng.random() < 0.15:
            dims[rng.randrange(len(dims))] = rng.choice(
                [n for n in HOSTILE_INTEGERS if n >= 0] + [5, 33]
            )
        name = rng.choice(NAMES) if rng.random() < 0.2 else f"t{number}"
        tensors[name] = Tensor(tuple(dims), kind_number, rng.randbytes(size))
    return facts, tensors


def _model(rng: Rng) -> tuple[dict[str, Any], dict[str, Tensor]]:
    facts = {**metadata(rng.choice(("llama", "qwen2", "gemma", "phi3", "x"))), **text_metadata()}
    tensors = dict(_tensors())
    for _ in range(rng.choice((0, 0, 1, 2))):
        name = rng.choice(tuple(tensors))
        old = tensors.pop(name)
        if rng.random() < 0.5:
            tensors[name] = old._replace(dims=old.dims[::-1])
    return facts, tensors


@functools.cache
def _tensors() -> dict[str, Tensor]:
    weights = random_weights(0)
    return {
        name: q8_0(value) if value.ndim == 2 else Tensor(value.shape[::-1], 0, value.tobytes())
        for name, value in weights.items()
    }


def loaded(path: Path, rng: Rng) -> Loaded:
    """Read a file, decode its tensors, and return a graph that decodes some of them."""
    file = read(path, limits=_LIMITS)
    if "general.architecture" in file.metadata and rng.random() < 0.5:
        DecoderConfig.of(file)
    if "tokenizer.ggml.model" in file.metadata and rng.random() < 0.5:
        tokenizer = TextTokenizer.of(file)
        tokenizer.decode(tokenizer.encode("a b"))
    graph, params = Graph("tensors"), dict[str, Array]()
    outputs = []
    for name in file.tensors:
        packed = _decoded(file, name)
        if packed is None or sum(x.nbytes for x in params.values()) > _LARGEST:
            continue
        kind = file.element_type(name).blocks
        if kind is not None and packed.size:
            params[name] = packed
            rows = graph.param(name, packed.shape, "u8")
            outputs.append(ops.dequantize_blocks(rows, scheme=kind.name))
    graph.set_outputs(outputs)
    return Loaded(graph if outputs else None, params)


def _decoded(file: GgufFile, name: str) -> Array | None:
    """Return a tensor's bytes after it was decoded, too; None where it cannot be, or is large."""
    if math.prod(file.tensors[name].dims) > _LARGEST:
        return None
    try:
        packed = file.tensor_bytes(name)
        decoded = file.dequant_f32(name)
    except RlxError:
        return None
    assert decoded.shape == file.tensors[name].shape
    return np.ascontiguousarray(packed)


GGUF = Kind("gguf", ".gguf", drawn, loaded)
