"""What the params of a decoder hold, read from its GGUF file and its adapters."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.gguf import GgufFile
from rlx.language.config import DecoderConfig
from rlx.language.lora import Adapters

Array = NDArray[Any]
Accuracy: TypeAlias = Literal["exact", "int8"]
"""Activations of packed matrices: in f32, or rounded to eight bits in blocks of 32."""
CacheDType: TypeAlias = Literal["f32", "f16", "bf16"]
"""What keys and values are kept as."""


def param_value(
    file: GgufFile, config: DecoderConfig, adapters: Adapters | None, name: str
) -> Array:
    """Return what a param holds: rows of blocks as stored in the file, or decoded numbers.

    Rows of q and k are in rope's order.
    """
    if adapters is not None and name in adapters.values:
        return adapters.values[name]
    packed = file.element_type(name).blocks is not None and len(file.tensors[name].dims) > 1
    value = file.tensor_bytes(name) if packed else file.dequant_f32(name)
    heads = rope_heads(config, name.rpartition(".")[0])
    return value if heads is None else _in_rope_order(value, heads)


def rope_heads(config: DecoderConfig, name: str) -> int | None:
    """Return the heads of a matrix whose rows are not in the order of `rope`, else None."""
    kinds = {"attn_q": config.heads, "attn_k": config.kv_heads}
    return kinds.get(name.rpartition(".")[2]) if config.interleaved_rope else None


def _in_rope_order(rows: Array, heads: int) -> Array:
    """Put the even rows of each head before the odd ones, as `rope` pairs them."""
    by_pairs = rows.reshape(heads, -1, 2, *rows.shape[1:])
    ordered = np.ascontiguousarray(np.swapaxes(by_pairs, 1, 2))
    ordered.flags.writeable = False  # so that `setup` reads it here, and the arena has no copy
    return ordered.reshape(rows.shape)
