"""What the params of a decoder hold, read from its GGUF file and its adapters."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.language.config import DecoderConfig
from rlx.language.lora import Adapters
from rlx.language.model_file import ModelFile

Array = NDArray[Any]
Accuracy: TypeAlias = Literal["exact", "int8"]
"""Activations of packed matrices: in f32, or rounded to eight bits in blocks of 32."""
CacheDType: TypeAlias = Literal["f32", "f16", "bf16"]
"""What keys and values are kept as."""


def param_value(
    file: ModelFile, config: DecoderConfig, adapters: Adapters | None, name: str
) -> Array:
    """Return what a param holds: rows of blocks as stored in the file, or decoded numbers.

    Rows of q and k are in rope's order.
    """
    if adapters is not None and name in adapters.values:
        return adapters.values[name]
    packed = file.element_type(name).blocks is not None and len(file.tensors[name].dims) > 1
    value = file.tensor_bytes(name) if packed else file.dequant_f32(name)
    order = rope_order(config, name.rpartition(".")[0])
    if order is None:
        return value
    ordered = value[order]
    ordered.flags.writeable = False  # so that `setup` reads it here, and the arena has no copy
    return ordered


def rope_order(config: DecoderConfig, name: str) -> Array | None:
    """Return the rows of a matrix in the order of `rope`; None where they are in it.

    Of what is rotated of each head the even rows come before the odd ones.
    """
    prefix, _, kind = name.rpartition(".")
    if not config.interleaved_rope or kind not in ("attn_q", "attn_k"):
        return None
    layer = config.of_layer(int(prefix.rpartition(".")[2]))
    rotated, heads = layer.rope_rotated, layer.heads if kind == "attn_q" else layer.kv_heads
    pairs = np.arange(rotated).reshape(-1, 2).T.reshape(-1)
    of_head = np.concatenate([pairs, np.arange(rotated, layer.head_dim)])
    rows: Array = np.arange(heads)[:, None] * layer.head_dim + of_head
    return rows.reshape(-1)
