"""What mixes the tokens of a layer: attention, plain or latent, convolutions, recurrences.

Which one a layer has is read off its tensors, by the names of GGUF files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.ir.ops.linalg import swapped
from rlx.language.convolution import columns, short_convolution
from rlx.language.layer_builder import LayerBuilder
from rlx.language.recurrence import delta_net, state_space

Mixer: TypeAlias = Callable[[LayerBuilder, Value, str], Value]

_LATENT_EPS = 1e-6
"""Of norms in latent attention, whatever that of the others is."""


def mixed(decoder: LayerBuilder, x: Value, name: str) -> Value:
    """Return what a layer finds for each row in the rows up to it."""
    if all(decoder.weights.has(f"{name}.{own}.weight") for own in ("attn_q", "ssm_in")):
        return decoder.attention(x, name) + state_space(decoder, x, name)  # Falcon-H1
    for tensor, mixer in _MIXERS.items():
        if decoder.weights.has(f"{name}.{tensor}"):
            return mixer(decoder, x, name)
    return decoder.attention(x, name)


def latent_attention(decoder: LayerBuilder, x: Value, name: str) -> Value:
    """Multi-head latent attention (DeepSeek-V2): keys and values are products of one narrow row.

    The row, `latent` normalized elements and `rope_rotated` rotated ones, is all that is kept.
    Queries are multiplied by the matrices that would make keys of it, so that one head of rows
    serves all heads of queries as keys and as values, and what is found by those of values.
    """
    config, weights, rows = decoder.config, decoder.weights, x.shape[0]
    heads, turned, latent = config.heads, config.rope_rotated, config.latent
    plain = config.head_dim - turned
    if weights.has(f"{name}.attn_q_a.weight"):
        narrow = weights.linear(x, f"{name}.attn_q_a", weights.rows(f"{name}.attn_q_a.weight"))
        narrow = decoder.norm(narrow, f"{name}.attn_q_a_norm", int(narrow.shape[1]), _LATENT_EPS)
        q = weights.linear(narrow, f"{name}.attn_q_b", heads * config.head_dim)
    else:
        q = weights.linear(x, f"{name}.attn_q", heads * config.head_dim)
    q = ops.reshape(q, shape=(rows, heads, config.head_dim))
    to_keys, to_values = _latent_matrices(decoder, name, plain)
    row = weights.linear(x, f"{name}.attn_kv_a_mqa", latent + turned)
    normed = decoder.norm(columns(row, 0, latent), f"{name}.attn_kv_a_norm", latent, _LATENT_EPS)
    with decoder.configured(replace(config, head_dim=turned)):
        row_turned = decoder.rotated(columns(row, latent, turned))
        q_turned = ops.reshape(columns(q, plain, turned), shape=(rows, heads * turned))
        q_turned = ops.reshape(decoder.rotated(q_turned), shape=(rows, heads, turned))
    absorbed = _by_head(columns(q, 0, plain), to_keys)
    width = latent + turned
    q = ops.reshape(ops.concat(absorbed, q_turned, axis=2), shape=(rows, heads * width))
    kept = ops.concat(normed, row_turned, axis=1)
    with decoder.configured(replace(config, head_dim=width, kv_heads=1)):
        found = decoder.attended(q, kept, None, name)
    found = columns(ops.reshape(found, shape=(rows, heads, width)), 0, latent)
    values = ops.reshape(_by_head(found, to_values), shape=(rows, heads * config.value_dim))
    return weights.linear(values, f"{name}.attn_output", config.hidden)


def _latent_matrices(decoder: LayerBuilder, name: str, plain: int) -> tuple[Value, Value]:
    """Return what queries and what is found are multiplied by, for each head.

    Files have `attn_k_b` and `attn_v_b`, or older ones both in the rows of `attn_kv_b`.
    """
    config, weights = decoder.config, decoder.weights
    heads, latent, wide = config.heads, config.latent, config.value_dim
    if weights.has(f"{name}.attn_kv_b.weight"):
        both = weights.array(f"{name}.attn_kv_b.weight", (heads * (plain + wide), latent))
        both = ops.reshape(both, shape=(heads, plain + wide, latent))
        to_keys = ops.narrow(both, axis=1, start=0, length=plain)
        return to_keys, swapped(ops.narrow(both, axis=1, start=plain, length=wide))
    to_keys = weights.array(f"{name}.attn_k_b.weight", (heads, latent, plain))
    to_values = weights.array(f"{name}.attn_v_b.weight", (heads, wide, latent))
    return swapped(to_keys), swapped(to_values)


def _by_head(x: Value, matrices: Value) -> Value:
    """Multiply `[rows, heads, a]` by the matrix `[a, b]` of each head."""
    product = ops.matmul(ops.transpose(x, perm=(1, 0, 2)), matrices)
    result: Value = ops.transpose(product, perm=(1, 0, 2))
    return result


_MIXERS: dict[str, Mixer] = {
    "attn_kv_a_mqa.weight": latent_attention,
    "shortconv.conv.weight": short_convolution,
    "ssm_ba.weight": delta_net,
    "ssm_in.weight": state_space,
}
"""By a tensor that layers with the mixer have."""
