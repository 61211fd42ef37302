"""Small models for the tests of passes."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.passes.pipeline import pipeline
from rlx.target import Target


def encoder(*, layers: int, length: int = 16, width: int = 32, heads: int = 4) -> Graph:
    """A post-norm transformer encoder spelled out in primitive ops."""
    graph = Graph("encoder")
    x = graph.input("x", (1, length, width))
    mask = graph.input("mask", (1, 1, 1, length))

    def linear(x: Value, name: str, given: int, wanted: int) -> Value:
        product = ops.matmul(x, graph.param(f"{name}.weight", (given, wanted)))
        result: Value = product + graph.param(f"{name}.bias", (wanted,))
        return result

    def norm(x: Value, name: str) -> Value:
        gamma, beta = (graph.param(f"{name}.{p}", (width,)) for p in ("gamma", "beta"))
        return ops.layer_norm(x, gamma, beta, axis=-1, eps=1e-12)

    def by_head(x: Value) -> Value:
        split = ops.reshape(x, shape=(1, length, heads, width // heads))
        return ops.transpose(split, perm=(0, 2, 1, 3))

    for layer in range(layers):
        q, k, v = (by_head(linear(x, f"{layer}.{part}", width, width)) for part in "qkv")
        scores = ops.matmul(q, ops.transpose(k, perm=(0, 1, 3, 2))) / 2.0 + mask
        mixed = ops.matmul(ops.softmax(scores, axis=-1), v)
        joined = ops.reshape(ops.transpose(mixed, perm=(0, 2, 1, 3)), shape=(1, length, width))
        x = norm(linear(joined, f"{layer}.out", width, width) + x, f"{layer}.norm1")
        hidden = ops.gelu(linear(x, f"{layer}.up", width, 4 * width))
        x = norm(linear(hidden, f"{layer}.down", 4 * width, width) + x, f"{layer}.norm2")
    graph.set_outputs([x])
    return graph


TARGET = Target(
    architecture="x86_64",
    vendor="none",
    cpu="generic",
    features=frozenset({"avx", "avx2", "fma"}),
    cores=2,
    l1=32 << 10,
    l2=1 << 20,
    l3=8 << 20,
)

CLAIMED = frozenset({"softmax", "log_softmax", "layer_norm", "rms_norm", "matmul_packed"})


def prepared(graph: Graph) -> Graph:
    """Return `graph` after the whole pipeline, for a fixed target."""
    return pipeline(CLAIMED, TARGET).run(graph)
