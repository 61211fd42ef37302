"""Symbolic extents pass through the inference of every family, and evaluate right."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim

N, M = Dim("n", max=64), Dim("m", max=8)


def test_broadcasting_keeps_symbols_and_stretches_ones() -> None:
    graph = Graph("g")
    x, y = graph.input("x", (N, 1)), graph.input("y", (M,))
    assert (x + y).shape == (N, M)
    with pytest.raises(ShapeError, match="extents n and m differ on axis -1"):
        graph.add(graph.input("a", (2, N)), graph.input("b", (2, M)))


def test_matmul_checks_and_keeps_symbols() -> None:
    graph = Graph("g")
    a, b = graph.input("a", (M, 1, 2, N)), graph.input("b", (3, N, 5))
    assert graph.matmul(a, b).shape == (M, 3, 2, 5)
    with pytest.raises(ShapeError, match="the last extent of a, n, must equal 3"):
        graph.matmul(a, graph.input("c", (3, 5)))
    with pytest.raises(ShapeError, match=re.escape("b has shape (5,) of rank 1")):
        graph.matmul(a, graph.input("d", (5,)))


def test_indexing_keeps_symbols() -> None:
    graph = Graph("g")
    table, ids = graph.input("t", (2, N, 3)), graph.input("i", (M, 4), "i32")
    taken = graph.gather(table, ids, axis=1)
    assert taken.shape == (2, M, 4, 3)
    assert graph.gather_backward(taken, ids, axis=1, size=N).shape == (2, N, 3)
    assert graph.scatter_add(graph.input("u", (M, 4, 5)), ids, size=N).shape == (N, 5)
    values, positions = graph.topk(table, k=2)
    assert values.shape == positions.shape == (2, N, 2)
    assert positions.dtype is DType.I64


@pytest.mark.parametrize(("queries", "keys"), [(3, 3), (1, 5), (2, 6), (5, 2)])
@pytest.mark.parametrize("mask_kind", ["causal", "sliding_window"])
def test_attention_decomposes_before_its_lengths_are_known(
    queries: int, keys: int, mask_kind: str
) -> None:
    graph = Graph("g")
    q = graph.input("q", (2, N, 8), "f64")
    k, v = graph.input("k", (2, M, 8), "f64"), graph.input("v", (2, M, 8), "f64")
    window = 1 if mask_kind == "sliding_window" else None
    fused = graph.attention(q, k, v, num_heads=2, head_dim=4, mask_kind=mask_kind, window=window)
    assert ops.attention.decompose is not None
    apart = ops.attention.decompose(q, k, v, **fused.node.attrs.as_dict())
    graph.set_outputs([fused, apart])
    rng = np.random.default_rng(0)
    shapes = {"q": (2, queries, 8), "k": (2, keys, 8), "v": (2, keys, 8)}
    feeds = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    expected, computed = evaluate(graph, feeds)
    np.testing.assert_allclose(computed, expected, rtol=1e-12, atol=1e-14)


def test_losses_and_norms_take_symbolic_batches() -> None:
    graph = Graph("g")
    logits, labels = graph.input("z", (N, 5), "f64"), graph.input("l", (N,), "i64")
    loss = graph.softmax_cross_entropy_with_logits(logits, labels)
    assert loss.shape == (N,)
    gain = graph.input("gain", (5,), "f64")
    graph.set_outputs([loss, graph.rms_norm(logits, gain, axis=1, eps=1e-6)])
    feeds = {"z": np.ones((3, 5)), "l": np.arange(3), "gain": np.ones(5)}
    loss_value, normalized = evaluate(graph, feeds)
    np.testing.assert_allclose(loss_value, np.log(5) * np.ones(3))
    np.testing.assert_allclose(normalized, np.ones((3, 5)), rtol=1e-6)


@pytest.mark.parametrize("n", [2, 7, 64])
def test_slices_in_steps_have_quotients_as_extents(n: int) -> None:
    graph = Graph("steps")
    x = graph.input("x", (N + 1, 3))
    y = graph.slice(x, start=(1, 0), stop=(N + 1, 3), step=(2, 2))
    assert y.shape == ((N + 1) // 2, 2)
    graph.set_outputs([y])
    array = np.arange(3.0 * (n + 1), dtype=np.float32).reshape(n + 1, 3)
    np.testing.assert_array_equal(evaluate(graph, {"x": array})[0], array[1::2, ::2])
