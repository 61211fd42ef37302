"""Blocks of matrix products: linear layers, feed-forward networks, embeddings."""

from __future__ import annotations

from rlx.blocks.block import Block, activated, require_shape
from rlx.errors import ShapeError
from rlx.ir.graph import Value
from rlx.ir.shape import Extent, format_shape


def linear(
    x: Value,
    weight: Value,
    bias: Value | None = None,
    *,
    activation: str | None = None,
    name: str | None = None,
) -> Value:
    """`activation(x @ weight + bias)`: `[.., K]` by `[K, N]` to `[.., N]`; bias is `[N]`."""
    with Block(x.graph, "linear", name):
        require_shape("weight", weight, (_last_extent(x), None))
        product = x.graph.matmul(x, weight)
        if bias is not None:
            require_shape("bias", bias, (weight.shape[1],))
            product = product + bias
        return activated(product, activation)


def shared_linear_pair(
    x: Value, first: Value, second: Value, *, name: str | None = None
) -> tuple[Value, Value]:
    """`x @ first` and `x @ second` by one product with the weights side by side."""
    with Block(x.graph, "shared_linear_pair", name):
        rows = _last_extent(x)
        require_shape("first", first, (rows, None))
        require_shape("second", second, (rows, None))
        both = x.graph.matmul(x, x.graph.concat(first, second, axis=1))
        width = first.shape[1]
        left = x.graph.narrow(both, axis=-1, start=0, length=width)
        right = x.graph.narrow(both, axis=-1, start=width, length=second.shape[1])
        return left, right


def swiglu_ffn(x: Value, up: Value, gate: Value, down: Value, *, name: str | None = None) -> Value:
    """`((x @ up) * silu(x @ gate)) @ down`; up and gate are `[H, F]`, down is `[F, H]`."""
    with Block(x.graph, "swiglu_ffn", name):
        hidden = _last_extent(x)
        require_shape("up", up, (hidden, None))
        require_shape("gate", gate, up.shape)
        require_shape("down", down, (up.shape[1], None))
        gated = x.graph.matmul(x, up) * x.graph.silu(x.graph.matmul(x, gate))
        return x.graph.matmul(gated, down)


def feed_forward(
    x: Value,
    up: Value,
    down: Value,
    up_bias: Value | None = None,
    down_bias: Value | None = None,
    *,
    activation: str = "gelu",
    name: str | None = None,
) -> Value:
    """Two linear layers with an activation between them; up is `[H, F]`, down `[F, H]`."""
    with Block(x.graph, "feed_forward", name):
        inner = linear(x, up, up_bias, activation=activation, name="up")
        return linear(inner, down, down_bias, name="down")


def embedding(table: Value, indices: Value, *, name: str | None = None) -> Value:
    """Rows of `table` `[V, H]` at integer `indices` of any shape: `[.., H]`."""
    with Block(table.graph, "embedding", name):
        require_shape("table", table, (None, None))
        return table.graph.gather(table, indices, axis=0)


def _last_extent(x: Value) -> Extent:
    if x.rank == 0:
        raise ShapeError(
            f"x has shape {format_shape(x.shape)}; its rank must be at least 1",
            remedy="add an axis with reshape",
        )
    return x.shape[-1]
