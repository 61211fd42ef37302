"""The gradient of attention by blocks of queries: its values, and the memory it takes."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.passes.rewrites.decompose import decompose
from rlx.runtime.lower import lower_for
from rlx.target import detect_target
from tests.loop_programs import everywhere

formula = importlib.import_module("rlx.ir.ops.attention_formula")


def gradient(
    queries: int, keys: int, *, dtype: str = "f64", heads: int = 2, kv_heads: int = 1,
    mask: tuple[int, ...] | None = None, head_dim: int = 4, **attributes: Any,
) -> Graph:  # fmt: skip
    """Return the graph of the gradients by q, k, v, and the bias if `mask` has a shape."""
    graph = Graph("gradient")
    q, dy = (graph.input(name, (1, heads, queries, head_dim), dtype=dtype) for name in ("q", "dy"))
    k, v = (graph.input(name, (1, kv_heads, keys, head_dim), dtype=dtype) for name in "kv")
    masks = [] if mask is None else [graph.input("mask", mask, dtype=dtype)]
    found = ops.attention_backward(
        q, k, v, dy, *masks, num_heads=heads, head_dim=head_dim, layout="bhsd", **attributes
    )
    graph.set_outputs(found)
    return graph


def feeds_of(graph: Graph) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {value.node.attrs["name"]: rng.standard_normal(value.shape) for value in graph.inputs}


@pytest.mark.whole
@pytest.mark.parametrize("queries", [40, 64])
@pytest.mark.parametrize("keys", [40, 51])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"mask_kind": "causal"},
        {"mask_kind": "causal", "softcap": 2.0},
        {"mask_kind": "sliding_window", "window": 0},
        {"mask_kind": "sliding_window", "window": 18},
        {"mask_kind": "custom", "mask": "rows"},
        {"mask_kind": "bias", "mask": "rows"},
        {"mask_kind": "bias", "mask": "keys"},
    ],
    ids=str,
)
def test_blocks_of_queries_change_no_gradient(
    queries: int, keys: int, attributes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = {"rows": (1, 1, queries, keys), "keys": (1, 2, 1, keys), None: None}
    chosen = {**attributes, "mask": shapes[attributes.get("mask")]}
    graph = gradient(queries, keys, **chosen)
    feeds = feeds_of(graph)
    expected = evaluate(graph, feeds)
    monkeypatch.setattr(formula, "_SCORE_BYTES", 1)
    monkeypatch.setattr(formula, "_BLOCK_BYTES", 1)
    in_blocks = decompose()(graph)
    products = [node for node in in_blocks.nodes if node.op is ops.matmul]
    assert len(products) == 5 * -(-queries // 16)
    for found, wanted in zip(evaluate(in_blocks, feeds), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_blocks_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formula, "_SCORE_BYTES", 1)
    monkeypatch.setattr(formula, "_BLOCK_BYTES", 1)
    graph = gradient(40, 51, mask_kind="sliding_window", window=18)
    everywhere(graph, feeds_of(graph), rtol=1e-10)


@pytest.mark.parametrize("mask_kind", ["none", "causal"])
def test_the_memory_of_the_gradient_is_a_small_multiple_of_its_arrays(mask_kind: str) -> None:
    """Eight heads of 2,048 queries have 134 MB of scores; operands and results take 29 MB."""
    graph = gradient(2048, 2048, dtype="f32", heads=8, kv_heads=8, head_dim=64, mask_kind=mask_kind)
    arrays = sum(value.type.bytes for value in (*graph.inputs, *graph.outputs))
    assert lower_for(graph, detect_target()).plan.arena_bytes < 3 * arrays
