"""Products of quantized operands are differentiated as products of centered floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.op import OpDef
from rlx.ir.reference import evaluate
from rlx.passes.autodiff import grad, grad_with_loss, jvp
from rlx.passes.autodiff.rules import packed
from rlx.runtime.lower import lower_for
from rlx.target import detect_target
from tests.passes.autodiff.checking import Array

POINTS = {"x_zero_point": 3, "w_zero_point": -2, "out_zero_point": 5}
SHAPES = [
    ((4, 5), (5, 3)),
    ((2, 4, 5), (5, 3)),
    ((4, 0), (0, 3)),
    ((4, 5), (5, 0)),
    ((0, 5), (5, 3)),
]


def quantized(op: OpDef, x: Array, w: Array, weights: Array, **attributes: Any) -> Graph:
    """Return the weighted sum of a product of integers, by the floats that they are made of."""
    graph = Graph("quantized")
    operands = [graph.input(name, a.shape, "f32") for name, a in (("x", x), ("w", w))]
    codes = [ops.quantize(operand, scales=(1.0,)) for operand in operands]
    channels = w.shape[-1] if op is ops.qmatmul else w.shape[0]
    bias = graph.constant(np.arange(channels, dtype=np.int32))
    y = ops.dequantize(op(*codes, bias, **attributes, **POINTS), scales=(1.0,))
    graph.set_outputs([_total(y * graph.constant(weights))])
    return graph


def centered(op: OpDef, x: Array, w: Array, weights: Array, **attributes: Any) -> Graph:
    """Return the same of centered floats."""
    graph = Graph("centered")
    given, kernel = graph.input("x", x.shape, "f32"), graph.input("w", w.shape, "f32")
    y = op(given - 3.0, kernel + 2.0, **attributes)
    graph.set_outputs([_total(y * graph.constant(weights))])
    return graph


def _total(x: Value) -> Value:
    return ops.reduce_sum(x, axes=tuple(range(x.rank)))


def integers(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(-9, 10, shape).astype(np.float32)


def derivatives(graph: Graph, x: Array, w: Array) -> list[Array]:
    """Return both gradients, and the derivative along `x` and `w` themselves."""
    feeds = {"x": x, "w": w}
    back = grad(graph, wrt=[graph.leaf("x"), graph.leaf("w")])
    forward = jvp(graph, ["x", "w"])
    seeds = {f"tangent_{name}": array for name, array in feeds.items()}
    return [
        *evaluate(back, {**feeds, "d_output": np.ones((), np.float32)}),
        evaluate(forward, {**feeds, **seeds})[-1],
    ]


@pytest.mark.parametrize(("x_shape", "w_shape"), SHAPES)
def test_matmul(x_shape: tuple[int, ...], w_shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    x, w = integers(rng, x_shape), integers(rng, w_shape)
    weights = integers(rng, (*x_shape[:-1], w_shape[-1]))
    own = derivatives(quantized(ops.qmatmul, x, w, weights, multiplier=(0.25,)), x, w)
    floats = derivatives(centered(ops.matmul, x, w, weights * np.float32(0.25)), x, w)
    for found, wanted in zip(own, floats, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "geometry",
    [
        {},
        {"stride": (2, 1), "padding": ((1, 1), (0, 2)), "dilation": (1, 2)},
        {"groups": 2},
    ],
)
def test_conv(geometry: dict[str, Any]) -> None:
    rng = np.random.default_rng(7)
    x, w = integers(rng, (2, 4, 6, 7)), integers(rng, (4, 4 // geometry.get("groups", 1), 3, 2))
    graph = Graph("shape")
    pair = [graph.input(name, a.shape, "f32") for name, a in (("x", x), ("w", w))]
    shape = ops.conv(*pair, **geometry).type.static_shape
    weights, multiplier = integers(rng, shape), (0.25, 0.5, 1.0, 2.0)
    own = derivatives(quantized(ops.qconv, x, w, weights, multiplier=multiplier, **geometry), x, w)
    scaled = weights * np.array(multiplier, np.float32)[:, None, None]
    floats = derivatives(centered(ops.conv, x, w, scaled, **geometry), x, w)
    for found, wanted in zip(own, floats, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def packed_loss(rows: int, columns: int) -> Graph:
    """Return a loss of a product with q8_0 weights."""
    graph = Graph("packed")
    x = graph.input("x", (8, columns), dtype="f32")
    blocks = graph.input("blocks", (rows, columns // 32 * 34), dtype="u8")
    y = ops.dequant_matmul(x, blocks, scheme="q8_0")
    graph.set_outputs([ops.reduce_sum(ops.sin(y), axes=(0, 1))])
    return graph


def test_the_gradient_decodes_some_rows_of_packed_weights_at_a_time() -> None:
    """Decoded, the weights have 67 MB; in blocks 18 MB."""
    graph = packed_loss(4096, 4096)
    plan = lower_for(grad_with_loss(graph, ["x"]), detect_target()).plan
    assert plan.arena_bytes < 2.5 * graph.leaf("blocks").type.bytes


def test_decoding_rows_in_parts_changes_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    feeds: dict[str, Array] = {
        "x": rng.standard_normal((8, 64), dtype=np.float32),
        "blocks": rng.integers(0, 60, (11, 68), dtype=np.uint8),
        "d_output": np.array(1.0, np.float32),
    }
    graph = packed_loss(11, 64)
    _, whole = evaluate(grad_with_loss(graph, ["x"]), feeds)
    monkeypatch.setattr(packed, "_DECODED_BYTES", 4 * 64 * 4)
    parts = grad_with_loss(graph, ["x"])
    assert [node.op for node in parts.nodes].count(ops.dequantize_blocks) == 3
    np.testing.assert_allclose(evaluate(parts, feeds)[1], whole, rtol=1e-5, atol=1e-6)
