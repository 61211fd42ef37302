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
    value = file.tensor_bytes(name) if packed else _numbers(file, name)
    order = rope_order(config, name.rpartition(".")[0])
    if order is None:
        return value
    ordered = value[order]
    ordered.flags.writeable = False  # so that `setup` reads it here, and the arena has no copy
    return ordered


def _numbers(file: ModelFile, name: str) -> Array:
    """Return a tensor as f32: that of the file itself, which `setup` can read there, if it is."""
    if file.element_type(name).name != "f32":
        return file.dequant_f32(name)
    return file.tensor_bytes(name).view("<f4").reshape(file.tensors[name].shape)


def rope_order(config: DecoderConfig, name: str) -> Array | None:
    """Return the rows of a matrix in the order of `rope`; None where they are in it.

    Of what is rotated of each head the even rows come before the odd ones.
    """
    prefix, _, kind = name.rpartition(".")
    if not config.interleaved_rope or kind not in _TURNED:
        return None
    layer = config.of_layer(int(prefix.rpartition(".")[2]))
    rotated, width = layer.rope_rotated, layer.head_dim
    heads = layer.kv_heads if kind == "attn_k" else layer.heads
    if kind == "attn_kv_a_mqa":
        heads, width = 1, layer.latent + rotated
    # Latent attention turns the last elements of a head, others the first.
    first = width - rotated if layer.latent else 0
    of_head = np.arange(width)
    of_head[first : first + rotated] = first + np.arange(rotated).reshape(-1, 2).T.reshape(-1)
    rows: Array = np.arange(heads)[:, None] * width + of_head
    return rows.reshape(-1)


_TURNED = ("attn_q", "attn_k", "attn_q_b", "attn_kv_a_mqa")
"""Matrices whose products are rotated."""


def is_by_token(name: str) -> bool:
    """Return True for a state that has a row for each token, False for one of all together."""
    return name.endswith((".keys", ".values"))
