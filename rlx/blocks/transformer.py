"""Transformer blocks: attention with its projections, encoder layer, Llama decoder block.

Weights are matrices `[inputs, outputs]`, applied from the right. A block with many weights
takes them as one record, which can also declare them as params of a graph:

    weights = EncoderLayerWeights.params(graph, "layer.0", hidden=384, intermediate=1536)
    x = transformer_encoder_layer(x, weights, num_heads=12, mask=mask, name="layer.0")
"""

from __future__ import annotations

import dataclasses
from typing import Self

from rlx.blocks.block import Block, require_all_or_none, require_hidden, require_shape
from rlx.blocks.dense import feed_forward, linear, swiglu_ffn
from rlx.blocks.residual import residual_layer_norm
from rlx.dataclass import dataclass
from rlx.errors import ShapeError
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.shape import Extent


@dataclass(frozen=True, slots=True)
class AttentionWeights:
    """Projections `[H, H]` (key and value may be narrower) and their biases, all or none."""

    query: Value
    key: Value
    value: Value
    output: Value
    query_bias: Value | None = None
    key_bias: Value | None = None
    value_bias: Value | None = None
    output_bias: Value | None = None


@dataclass(frozen=True, slots=True)
class EncoderLayerWeights:
    """Attention, its layer norm, the feed-forward matrices, and their layer norm."""

    attention: AttentionWeights
    attention_gamma: Value
    attention_beta: Value
    up: Value
    down: Value
    output_gamma: Value
    output_beta: Value
    up_bias: Value | None = None
    down_bias: Value | None = None

    @classmethod
    def params(
        cls,
        graph: Graph,
        prefix: str,
        *,
        hidden: int,
        intermediate: int,
        bias: bool = True,
        dtype: DType | str = DType.F32,
    ) -> Self:
        """Declare all weights as params called `<prefix>.attention.query` and so on."""

        def param(name: str, *shape: int) -> Value:
            return graph.param(f"{prefix}.{name}", shape, dtype)

        def optional(name: str, size: int) -> Value | None:
            return param(name, size) if bias else None

        return cls(
            attention=AttentionWeights(
                query=param("attention.query", hidden, hidden),
                key=param("attention.key", hidden, hidden),
                value=param("attention.value", hidden, hidden),
                output=param("attention.output", hidden, hidden),
                query_bias=optional("attention.query_bias", hidden),
                key_bias=optional("attention.key_bias", hidden),
                value_bias=optional("attention.value_bias", hidden),
                output_bias=optional("attention.output_bias", hidden),
            ),
            attention_gamma=param("attention_gamma", hidden),
            attention_beta=param("attention_beta", hidden),
            up=param("up", hidden, intermediate),
            down=param("down", intermediate, hidden),
            output_gamma=param("output_gamma", hidden),
            output_beta=param("output_beta", hidden),
            up_bias=optional("up_bias", intermediate),
            down_bias=optional("down_bias", hidden),
        )


@dataclass(frozen=True, slots=True)
class LlamaDecoderWeights:
    """Two RMS gains `[H]` with optional offsets, four projections, three matrices of the FFN."""

    attention_gamma: Value
    query: Value
    key: Value
    value: Value
    output: Value
    ffn_gamma: Value
    gate: Value
    up: Value
    down: Value
    attention_beta: Value | None = None
    ffn_beta: Value | None = None


def multi_head_attention(
    x: Value,
    weights: AttentionWeights,
    *,
    num_heads: int,
    mask: Value | None = None,
    mask_kind: str | None = None,
    name: str | None = None,
) -> Value:
    """Self-attention with its four projections; x is `[S, H]` or `[B, S, H]`, as the result.

    A `mask` without `mask_kind` is of kind `custom` (1 = visible), usually `[B, S]`.
    """
    with Block(x.graph, "multi_head_attention", name):
        require_hidden("x", x)
        require_all_or_none("biases", **_biases(weights))
        q = linear(x, weights.query, weights.query_bias, name="query")
        k = linear(x, weights.key, weights.key_bias, name="key")
        v = linear(x, weights.value, weights.value_bias, name="value")
        attended = x.graph.attention(
            q, k, v, mask, num_heads=num_heads, head_dim=_head_dim(q, num_heads),
            mask_kind=mask_kind or ("none" if mask is None else "custom"), layout="bshd",
        )  # fmt: skip
        return linear(attended, weights.output, weights.output_bias, name="output")


def transformer_encoder_layer(
    x: Value,
    weights: EncoderLayerWeights,
    *,
    num_heads: int,
    eps: float = 1e-12,
    activation: str = "gelu",
    mask: Value | None = None,
    name: str | None = None,
) -> Value:
    """A BERT layer: attention and feed-forward, each summed with its input and normalized.

    x is `[S, H]` or `[B, S, H]`, as the result; `mask` is `[B, S]` with 1 for real tokens.
    """
    with Block(x.graph, "transformer_encoder_layer", name):
        require_hidden("x", x)
        require_all_or_none(
            "biases",
            **_biases(weights.attention),
            up_bias=weights.up_bias,
            down_bias=weights.down_bias,
        )
        attended = multi_head_attention(
            x, weights.attention, num_heads=num_heads, mask=mask, name="attention"
        )
        h = residual_layer_norm(
            attended, x, weights.attention_gamma, weights.attention_beta, eps=eps,
            name="attention_norm",
        )  # fmt: skip
        fed = feed_forward(
            h, weights.up, weights.down, weights.up_bias, weights.down_bias, activation=activation
        )
        return residual_layer_norm(
            fed, h, weights.output_gamma, weights.output_beta, eps=eps, name="output_norm"
        )


def llama_decoder_block(
    x: Value,
    weights: LlamaDecoderWeights,
    cos: Value,
    sin: Value,
    *,
    num_heads: int,
    head_dim: int,
    num_kv_heads: int | None = None,
    eps: float = 1e-6,
    mask: Value | None = None,
    mask_kind: str = "causal",
    name: str | None = None,
) -> Value:
    """A Llama layer: normalized rotary attention and a normalized SwiGLU network, both added.

    x is `[S, H]` or `[B, S, H]`; cos and sin are `[rows, head_dim / 2]`. Keys and values have
    `num_kv_heads` heads, each shared by `num_heads / num_kv_heads` consecutive query heads.
    """
    with Block(x.graph, "llama_decoder_block", name):
        graph, hidden = x.graph, require_hidden("x", x)
        kv_width = head_dim * (num_heads if num_kv_heads is None else num_kv_heads)
        require_shape("query", weights.query, (hidden, num_heads * head_dim))
        require_shape("key", weights.key, (hidden, kv_width))
        require_shape("value", weights.value, (hidden, kv_width))
        n = graph.rms_norm(x, weights.attention_gamma, weights.attention_beta, axis=-1, eps=eps)
        q = graph.rope(linear(n, weights.query, name="query"), cos, sin, head_dim=head_dim)
        k = graph.rope(linear(n, weights.key, name="key"), cos, sin, head_dim=head_dim)
        v = linear(n, weights.value, name="value")
        attended = graph.attention(
            q, k, v, mask, num_heads=num_heads, head_dim=head_dim, mask_kind=mask_kind,
            layout="bshd",
        )  # fmt: skip
        h = x + linear(attended, weights.output, name="output")
        m = graph.rms_norm(h, weights.ffn_gamma, weights.ffn_beta, axis=-1, eps=eps)
        return h + swiglu_ffn(m, weights.up, weights.gate, weights.down, name="ffn")


def _biases(weights: AttentionWeights) -> dict[str, Value | None]:
    names = [f.name for f in dataclasses.fields(weights) if f.name.endswith("_bias")]
    return {name: getattr(weights, name) for name in names}


def _head_dim(q: Value, num_heads: int) -> int:
    width: Extent = q.shape[-1]
    if not isinstance(width, int) or num_heads < 1 or width % num_heads:
        raise ShapeError(
            f"width {width} does not divide into {num_heads} heads",
            remedy="choose a width that is a multiple of the number of heads",
        )
    return width // num_heads
