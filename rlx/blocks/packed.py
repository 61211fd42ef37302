"""Blocks over packed weights: gate and up side by side, and q, k and v in one product."""

from __future__ import annotations

from typing import Any

from rlx.blocks.block import Block, activated, require_all_or_none, require_hidden, require_shape
from rlx.blocks.dense import linear
from rlx.blocks.residual import residual_layer_norm
from rlx.errors import ShapeError
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.shape import Extent, divide


def packed_swiglu(
    packed: Value,
    *,
    gate_first: bool = False,
    cast_to: DType | str | None = None,
    name: str | None = None,
) -> Value:
    """`up * silu(gate)` of `[.., 2n]`: up in front, or the gate with `gate_first`."""
    with Block(packed.graph, "packed_swiglu", name):
        up, gate = _halves(packed)
        if gate_first:
            up, gate = gate, up
        gated = up * packed.graph.silu(gate)
        return gated if cast_to is None else packed.graph.cast(gated, to=cast_to)


def lora_matmul(
    x: Value, w: Value, a: Value, b: Value, *, scale: float, name: str | None = None
) -> Value:
    """`x @ w + scale * (x @ a) @ b` for x `[.., K]`, w `[K, N]`, a `[K, r]` and b `[r, N]`."""
    with Block(x.graph, "lora_matmul", name):
        require_shape("w", w, (x.shape[-1], None))
        require_shape("a", a, (x.shape[-1], None))
        require_shape("b", b, (a.shape[1], w.shape[1]))
        low_rank = x.graph.matmul(x.graph.matmul(x, a) * scale, b)
        return x.graph.matmul(x, w) + low_rank


def packed_attention(
    hidden: Value,
    qkv: Value,
    out: Value,
    mask: Value,
    qkv_bias: Value | None = None,
    out_bias: Value | None = None,
    cos: Value | None = None,
    sin: Value | None = None,
    *,
    num_heads: int,
    head_dim: int,
    name: str | None = None,
) -> Value:
    """Self-attention of `[B, S, E]` or `[S, E]` with one product for q, k and v.

    qkv is `[E, 3 * num_heads * head_dim]`, out `[num_heads * head_dim, E]`; `mask` hides keys
    where it is below 0.5. Both biases or none; with tables q and k are rotated whole.
    """
    with Block(hidden.graph, "packed_attention", name):
        graph, width = hidden.graph, num_heads * head_dim
        embedded = require_hidden("hidden", hidden)
        require_all_or_none("biases", qkv_bias=qkv_bias, out_bias=out_bias)
        require_shape("qkv", qkv, (embedded, 3 * width))
        require_shape("out", out, (width, embedded))
        both = linear(hidden, qkv, qkv_bias, name="qkv")
        q, k, v = (graph.narrow(both, axis=-1, start=n * width, length=width) for n in range(3))
        if require_all_or_none("tables", cos=cos, sin=sin) and cos is not None and sin is not None:
            q, k = (graph.rope(part, cos, sin, head_dim=head_dim) for part in (q, k))
        options: dict[str, Any] = {"num_heads": num_heads, "head_dim": head_dim}
        attended = graph.attention(q, k, v, mask, mask_kind="custom", **options)
        return linear(attended, out, out_bias, name="out")


def packed_transformer_layer(
    hidden: Value,
    qkv: Value,
    out: Value,
    norm1: tuple[Value, Value | None],
    up: Value,
    down: Value,
    norm2: tuple[Value, Value | None],
    mask: Value,
    biases: tuple[Value, Value, Value, Value] | None = None,
    *,
    num_heads: int,
    head_dim: int,
    eps: tuple[float, float],
    activation: str = "gelu",
    name: str | None = None,
) -> Value:
    """Post-norm encoder layer; `biases` are those of qkv, out, up and down.

    Norms are (gamma, beta); a beta of None is 0.
    """
    with Block(hidden.graph, "packed_transformer_layer", name):
        qkv_bias, out_bias, up_bias, down_bias = biases or (None,) * 4
        attended = packed_attention(
            hidden, qkv, out, mask, qkv_bias, out_bias, num_heads=num_heads, head_dim=head_dim
        )
        first = residual_layer_norm(attended, hidden, *_affine(norm1), eps=eps[0], name="norm1")
        inner = activated(linear(first, up, up_bias, name="up"), activation)
        last = linear(inner, down, down_bias, name="down")
        return residual_layer_norm(last, first, *_affine(norm2), eps=eps[1], name="norm2")


def nomic_layer(
    hidden: Value,
    qkv: Value,
    out: Value,
    norm1: tuple[Value, Value | None],
    up_and_gate: Value,
    down: Value,
    norm2: tuple[Value, Value | None],
    mask: Value,
    cos: Value,
    sin: Value,
    *,
    num_heads: int,
    head_dim: int,
    eps: tuple[float, float],
    name: str | None = None,
) -> Value:
    """Post-norm encoder layer with rotated heads and a SwiGLU network, as Nomic's; no biases.

    `up_and_gate` is `[E, 2 * F]`: up first, then the gate. Norms are (gamma, beta); a beta of
    None is 0.
    """
    with Block(hidden.graph, "nomic_layer", name):
        attended = packed_attention(
            hidden, qkv, out, mask, cos=cos, sin=sin, num_heads=num_heads, head_dim=head_dim
        )
        first = residual_layer_norm(attended, hidden, *_affine(norm1), eps=eps[0], name="norm1")
        gated = packed_swiglu(linear(first, up_and_gate, name="up_and_gate"))
        last = linear(gated, down, name="down")
        return residual_layer_norm(last, first, *_affine(norm2), eps=eps[1], name="norm2")


def _halves(packed: Value) -> tuple[Value, Value]:
    graph, extent = packed.graph, packed.shape[-1] if packed.rank else 0
    if extent == 0 or (isinstance(extent, int) and extent % 2):
        raise ShapeError(
            f"packed has a last extent of {extent}; it must hold two equal halves",
            remedy="concatenate gate and up along their rows",
        )
    half: Extent = divide(extent, 2)
    return (
        graph.narrow(packed, axis=-1, start=0, length=half),
        graph.narrow(packed, axis=-1, start=half, length=half),
    )


def _affine(norm: tuple[Value, Value | None]) -> tuple[Value, Value]:
    gamma, beta = norm
    zero = gamma.graph.constant(0.0, gamma.dtype)
    return gamma, gamma.graph.expand(zero, shape=gamma.shape) if beta is None else beta
