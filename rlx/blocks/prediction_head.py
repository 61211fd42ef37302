"""The multi-token prediction head of Qwen 3.5: one gated decoder layer before an LM head."""

from __future__ import annotations

from rlx.blocks.block import Block, require_hidden, require_shape
from rlx.blocks.dense import embedding, linear, swiglu_ffn
from rlx.dataclass import dataclass
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.shape import Extent
from rlx.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class Norm:
    """Gain and offset of an RMS norm."""

    gamma: Value
    beta: Value | None = None


@dataclass(frozen=True, slots=True)
class MtpHeadWeights:
    """E is the model's width, D a head's; matrices are `[inputs, outputs]`."""

    embed: Value
    """`[V, E]`"""
    embed_norm: Norm
    hidden_norm: Norm
    joint: Value
    """`[2E, E]`: joins the token's embedding and the hidden state."""
    attention_norm: Norm
    query_gate: Value
    """`[E, heads * 2D]`: per head D columns of query, then D of gate."""
    key: Value
    value: Value
    query_norm: Norm
    key_norm: Norm
    output: Value
    ffn_norm: Norm
    gate: Value
    up: Value
    down: Value
    head_norm: Norm
    head: Value
    """`[E, mtp_vocab]`"""


def qwen35_mtp_head(
    hidden: Value,
    input_ids: Value,
    last_token: Value,
    weights: MtpHeadWeights,
    cos: Value,
    sin: Value,
    *,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    n_rot: int,
    eps: float = 1e-6,
    name: str | None = None,
) -> Value:
    """Logits `[B, mtp_vocab]` of the token after next.

    `hidden` `[B, S, E]` are the states before the model's last norm, `input_ids` `[B, S]` the
    next tokens, `last_token` `[B]` the i64 position to predict from in each row.
    """
    with Block(hidden.graph, "qwen35_mtp_head", name):
        graph, width = hidden.graph, require_hidden("hidden", hidden, (3,))
        require_shape("input_ids", input_ids, hidden.shape[:2])
        require_shape("last_token", last_token, hidden.shape[:1])
        require_shape("joint", weights.joint, (2 * width, width))
        tokens = _rms(embedding(weights.embed, input_ids), weights.embed_norm, eps)
        joined = graph.concat(tokens, _rms(hidden, weights.hidden_norm, eps), axis=-1)
        c = linear(joined, weights.joint, name="joint")
        heads = _Heads(num_heads, num_kv_heads, head_dim, n_rot)
        n = _rms(c, weights.attention_norm, eps)
        h = c + _gated_attention(n, weights, cos, sin, heads, eps)
        m = _rms(h, weights.ffn_norm, eps)
        h = h + swiglu_ffn(m, weights.up, weights.gate, weights.down, name="ffn")
        last = _rms(_row_per_batch(h, last_token), weights.head_norm, eps)
        return linear(last, weights.head, name="head")


@dataclass(frozen=True, slots=True)
class _Heads:
    queries: int
    keys: int
    dim: int
    rotated: int


def _gated_attention(
    x: Value, weights: MtpHeadWeights, cos: Value, sin: Value, heads: _Heads, eps: float
) -> Value:
    """Causal attention with normalized, rotated queries and keys, times a sigmoid gate."""
    graph, dim, lead = x.graph, heads.dim, x.shape[:2]
    both = linear(x, weights.query_gate, name="query_gate")
    both = graph.reshape(both, shape=(*lead, heads.queries, 2 * dim))
    gate = graph.narrow(both, axis=3, start=dim, length=dim)
    q = _rms(graph.narrow(both, axis=3, start=0, length=dim), weights.query_norm, eps)
    k = graph.reshape(linear(x, weights.key, name="key"), shape=(*lead, heads.keys, dim))
    k = _rms(k, weights.key_norm, eps)
    attended = graph.attention(
        graph.rope(_side_by_side(q), cos, sin, head_dim=dim, n_rot=heads.rotated),
        graph.rope(_side_by_side(k), cos, sin, head_dim=dim, n_rot=heads.rotated),
        linear(x, weights.value, name="value"),
        num_heads=heads.queries,
        head_dim=dim,
        mask_kind="causal",
        layout="bshd",
    )
    gated = attended * graph.sigmoid(_side_by_side(gate))
    return linear(gated, weights.output, name="output")


def _rms(x: Value, norm: Norm, eps: float) -> Value:
    return x.graph.rms_norm(x, norm.gamma, norm.beta, axis=-1, eps=eps)


def _side_by_side(x: Value) -> Value:
    """`[B, S, heads, D]` to `[B, S, heads * D]`."""
    batch, steps, heads, head_dim = x.shape
    return x.graph.reshape(x, shape=(batch, steps, heads * head_dim))


def _row_per_batch(x: Value, positions: Value) -> Value:
    """Take row `positions[b]` of each `x[b]`: `[B, S, E]` to `[B, E]`."""
    batch, steps, width = x.shape
    graph = x.graph
    rows = graph.reshape(x, shape=(batch * steps, width))
    first = graph.iota(type=TensorType(DType.I64, (batch,))) * _extent(x, steps)
    return graph.gather(rows, first + positions, axis=0)


def _extent(x: Value, steps: Extent) -> Value | int:
    if isinstance(steps, int):
        return steps
    # A symbolic extent as a number: the last position along it, plus one.
    positions = x.graph.iota(type=TensorType(DType.I64, (steps,)))
    return x.graph.reduce_max(positions, axes=(0,)) + 1
