"""Batch norms of frozen statistics become part of the convolution before them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx.runtime.compile as runtime
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.passes.rewrites.fold_batch_norm import fold_batch_norm

VECTORS = ("gamma", "beta", "mean", "variance")


def network(kind: str, groups: int = 1, dtype: str = "f32") -> Graph:
    """Return convolution, what `kind` names between them, and batch norm, all of params."""
    g = Graph("network")
    x, w = g.input("x", (2, 4, 6, 5), dtype), g.param("w", (6, 4 // groups, 3, 3), dtype)
    y = g.conv(x, w, padding=((1, 1), (1, 1)), groups=groups)
    axis = 1
    if kind in ("bias", "last"):
        y = y + g.reshape(g.param("bias", (6,), dtype), shape=(6, 1, 1))
    if kind == "last":
        y, axis = g.transpose(y, perm=(0, 2, 3, 1)), -1
    make: Any = g.input if kind == "inputs" else g.param
    vectors: list[Value] = [make(name, (6,), dtype) for name in VECTORS]
    z = g.batch_norm_inference(y, *vectors, axis=axis, eps=1e-3)
    outputs = [g.relu(z), y] if kind == "read twice" else [g.relu(z)]
    g.set_outputs(outputs)
    return g


def feeds(graph: Graph) -> dict[str, Any]:
    random = np.random.default_rng(0)
    leaves = [*graph.inputs, *graph.params]
    drawn = {}
    for leaf in leaves:
        name, shape = str(leaf.node.name), [e for e in leaf.shape if isinstance(e, int)]
        numbers = random.standard_normal(shape).astype(leaf.dtype.numpy)
        drawn[name] = np.abs(numbers) + numbers.dtype.type(0.5) if name == "variance" else numbers
    return drawn


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
@pytest.mark.parametrize(("kind", "groups"), [("plain", 1), ("plain", 2), ("bias", 1), ("last", 1)])
def test_a_frozen_batch_norm_scales_the_weights(kind: str, groups: int, dtype: str) -> None:
    graph = network(kind, groups, dtype)
    folded = fold_batch_norm(graph)
    names = [node.op.name for node in folded.nodes]
    assert "batch_norm_inference" not in names
    assert names.count("conv") == 1
    given = feeds(graph)
    bound = {"f32": 1e-5, "f64": 1e-13, "f16": 3e-2}[dtype]
    for before, after in zip(evaluate(graph, given), evaluate(folded, given), strict=True):
        np.testing.assert_allclose(after, before, rtol=bound, atol=10 * bound)


@pytest.mark.parametrize("kind", ["inputs", "read twice"])
def test_others_stay_as_they_are(kind: str) -> None:
    graph = network(kind)
    assert fold_batch_norm(graph) is graph


def test_what_follows_a_convolution_is_computed_in_its_kernel() -> None:
    compiled = runtime.compile(network("bias"), backend="llvm", threads=1)
    bodies = [
        {inner.op.name for inner in node.attribute("body").nodes}
        for node in compiled.plan.graph.nodes
        if node.op.name == "fused"
    ]
    (with_conv,) = [body for body in bodies if "conv" in body]
    assert {"add", "relu"} <= with_conv
    assert not with_conv & {"mul", "sub", "rsqrt"}
    assert not any("relu" in body for body in bodies if body is not with_conv)


def test_what_surrounds_a_pool_is_computed_in_its_kernel() -> None:
    g = Graph("pool")
    x, bias = g.input("x", (1, 8, 16, 16), "f32"), g.input("bias", (8, 1, 1), "f32")
    y = g.max_pool(g.relu(x + bias), kernel_size=(2, 2), stride=(2, 2))
    g.set_outputs([g.tanh(y)])
    compiled = runtime.compile(g, backend="llvm", threads=1)
    (node,) = [node for node in compiled.plan.graph.nodes if node.op.name == "fused"]
    names = {inner.op.name for inner in node.attribute("body").nodes}
    assert {"add", "relu", "max_pool", "tanh"} <= names
    given = feeds(g)
    np.testing.assert_allclose(compiled.run(given)[0], evaluate(g, given)[0], rtol=1e-5)
