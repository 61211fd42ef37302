"""Quantize-dequantize pairs are inserted, cancelled, moved; products between them are integer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import DTypeError, GraphError, ShapeError
from rlx.ir.graph import Graph, Value
from rlx.passes.lowering.scaled_products import scaled_products
from rlx.passes.rewrites.decompose import decompose
from rlx.quantization import (
    CalibrationEntry,
    calibrate,
    cancel_pairs,
    freeze_fake_quant,
    insert_q_dq,
    integer_graph,
    quant_propagate,
    scales_of,
)

TENSOR = CalibrationEntry.per_tensor(0.05)
RANDOM = np.random.default_rng(1)


def names(graph: Graph) -> list[str]:
    kept = {"input", "param", "constant"}
    return [node.op.name for node in graph.nodes if node.op.name not in kept]


def tapped() -> tuple[Graph, Value]:
    graph = Graph("tapped")
    y = graph.relu(graph.input("x", (4, 6), "f32"))
    graph.set_outputs([graph.add(y, y)])
    return graph, y


def test_the_calibrator_keeps_the_largest_magnitude() -> None:
    graph = Graph("calibrated")
    x = graph.input("x", (4,), "f32")
    y = graph.relu(x)
    graph.set_outputs([y])
    batches = [[-3, 1, -2, 0.5], [-7, 0, -7, -2], [10, 0, 0, 5]]
    feeds = [{"x": np.array(batch, np.float32)} for batch in batches]
    found = scales_of(calibrate(graph, [x, y], feeds, params={}))
    assert [found[value].scales[0] for value in (x, y)] == pytest.approx([10 / 127] * 2, abs=1e-6)


def test_all_that_reads_a_tap_reads_the_rounded_value() -> None:
    graph, y = tapped()
    rounded = insert_q_dq(graph, {y: TENSOR})
    assert names(rounded) == ["relu", "quantize", "dequantize", "add"]
    assert {operand.op.name for operand in rounded.nodes[-1].operands} == {"dequantize"}


def test_inserting_twice_and_inserting_nothing_change_nothing() -> None:
    graph, y = tapped()
    rounded = insert_q_dq(graph, {y: TENSOR})
    (tap,) = [node.result for node in rounded.nodes if node.op.name == "relu"]
    assert names(insert_q_dq(rounded, {tap: TENSOR})) == names(rounded)
    assert len(insert_q_dq(graph, {}).nodes) == len(graph.nodes)


def test_taps_of_integers_other_graphs_and_wrong_lengths_are_errors() -> None:
    graph, y = tapped()
    codes = graph.cast(y, to="i32")
    with pytest.raises(DTypeError, match="cannot be rounded to eight bits"):
        insert_q_dq(graph, {codes: TENSOR})
    with pytest.raises(GraphError, match="a value of another graph"):
        insert_q_dq(graph, {tapped()[1]: TENSOR})
    with pytest.raises(ShapeError, match="2 scales"):
        insert_q_dq(graph, {y: CalibrationEntry.per_channel(1, (0.1, 0.2))})


def fake_chain(*between: Any, bits: tuple[int, int] = (8, 8), state: bool = False) -> Graph:
    """A rounding, what is between, and a rounding."""
    graph = Graph("chain")
    x = graph.input("x", (2, 8), "f32")
    scale = [graph.input("s", (1,), "f32")] if state else []
    value = graph.fake_quantize(x, *scale, bits=bits[0])
    for step in between:
        value = step(graph, value)
    graph.set_outputs([graph.fake_quantize(value, *scale, bits=bits[1])])
    return graph


def _relu(graph: Graph, x: Value) -> Value:
    return graph.relu(x)


def _exp(graph: Graph, x: Value) -> Value:
    return graph.exp(x)


def _reshape(graph: Graph, x: Value) -> Value:
    return graph.reshape(x, shape=(16,))


@pytest.mark.parametrize(
    ("between", "bits", "state", "removed", "last"),
    [
        ((_relu,), (8, 8), False, 0, "fake_quantize"),
        ((_relu,), (8, 8), True, 1, "relu"),
        ((_relu,), (8, 4), True, 0, "fake_quantize"),
        ((_exp,), (8, 8), True, 0, "fake_quantize"),
        ((_reshape,), (8, 8), False, 1, "reshape"),
        ((), (4, 4), False, 1, "fake_quantize"),
    ],
)
def test_redundant_roundings_go_where_that_is_exact(
    between: Any, bits: tuple[int, int], state: bool, removed: int, last: str
) -> None:
    graph = fake_chain(*between, bits=bits, state=state)
    found = quant_propagate(graph)
    assert names(graph).count("fake_quantize") - names(found).count("fake_quantize") == removed
    assert found.outputs[0].op.name == last
    feeds = {"x": RANDOM.normal(size=(2, 8)).astype("f4")}
    feeds |= {"s": np.array([0.03], np.float32)} if state else {}
    made, expected = (rlx.compile(g, backend="reference").run(feeds)[0] for g in (found, graph))
    np.testing.assert_array_equal(made, expected)


def test_three_in_a_row_are_one() -> None:
    def rounded(graph: Graph, x: Value) -> Value:
        return graph.fake_quantize(x)

    assert names(quant_propagate(fake_chain(rounded))) == ["fake_quantize"]


def test_frozen_averages_are_fixed_scales() -> None:
    graph = Graph("frozen")
    x, state = graph.input("x", (8,), "f32"), graph.param("s", (1,), "f32")
    graph.set_outputs(list(graph.fake_quantize_ema(x, state, decay=0.9)))
    found = freeze_fake_quant(graph)
    assert names(found) == ["fake_quantize"]
    assert found.outputs[1].op.name == "param"


def test_codes_pass_through_what_moves_or_chooses_them() -> None:
    graph = Graph("codes")
    q = graph.input("q", (1, 2, 4, 4), "i8")
    x = graph.max_pool(graph.relu(graph.dequantize(q, scales=(0.1,), zero_points=(3,))),
                       kernel_size=(2, 2), stride=(2, 2))  # fmt: skip
    flat = graph.reshape(x, shape=(1, 8))
    graph.set_outputs([graph.quantize(flat, scales=(0.1,), zero_points=(3,))])
    found = cancel_pairs(graph)
    assert set(names(found)) == {"maximum", "max_pool", "reshape"}
    feeds = {"q": RANDOM.integers(-128, 128, (1, 2, 4, 4)).astype(np.int8)}
    made, expected = (rlx.compile(g, backend="reference").run(feeds)[0] for g in (found, graph))
    np.testing.assert_array_equal(made, expected)


def network() -> tuple[Graph, dict[str, Any]]:
    """Codes in, a convolution, pooling and a product, each with bias and relu; codes out."""
    graph = Graph("network")
    q = graph.input("q", (2, 4, 6, 6), "i8")
    taps, w = graph.param("taps", (8, 4, 3, 3), "i8"), graph.param("w", (32, 5), "i8")
    scales = tuple(0.01 + 0.001 * i for i in range(8))
    x = graph.dequantize(q, scales=(0.05,), zero_points=(-3,))
    h = graph.conv(x, graph.dequantize(taps, scales=scales, axis=0), stride=(1, 1))
    h = graph.relu(h + graph.constant(RANDOM.normal(size=(8, 1, 1)).astype("f4")))
    h = graph.dequantize(graph.quantize(h, scales=(0.04,), zero_points=(-128,)),
                         scales=(0.04,), zero_points=(-128,))  # fmt: skip
    h = graph.reshape(graph.max_pool(h, kernel_size=(2, 2), stride=(2, 2)), shape=(2, 32))
    y = graph.matmul(h, graph.dequantize(w, scales=(0.02,)))
    graph.set_outputs([graph.quantize(y, scales=(0.1,))])
    codes = {
        "q": RANDOM.integers(-128, 128, (2, 4, 6, 6)).astype(np.int8),
        "taps": RANDOM.integers(-127, 128, (8, 4, 3, 3)).astype(np.int8),
        "w": RANDOM.integers(-127, 128, (32, 5)).astype(np.int8),
    }
    return graph, codes


def test_a_network_of_pairs_stays_in_eight_bits() -> None:
    graph, codes = network()
    found = integer_graph(graph)
    assert names(found) == ["qconv", "maximum", "max_pool", "reshape", "qmatmul"]
    params = {name: codes[name] for name in ("taps", "w")}
    results = [
        rlx.compile(found, params=params, backend=backend).run({"q": codes["q"]})[0]
        for backend in ("reference", "c", "llvm")
    ]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    (floats,) = rlx.compile(graph, params=params, backend="reference").run({"q": codes["q"]})
    assert np.abs(results[0].astype(int) - floats).max() <= 1  # a folded bias is rounded


def test_products_that_are_not_requantized_are_integer_ones_when_they_are_compiled() -> None:
    graph, codes = network()
    graph.set_outputs([graph.outputs[0].node.operands[0]])
    found = integer_graph(graph)
    assert names(found)[-1] == "matmul"
    params = {name: codes[name] for name in ("taps", "w")}
    spelled_out = scaled_products(decompose(())(found))
    (product,) = [node for node in spelled_out.nodes if node.op.name == "matmul"]
    assert str(product.result.dtype) == "i32"
    made, floats = (
        rlx.compile(g, params=params, backend="reference").run({"q": codes["q"]})[0]
        for g in (found, graph)
    )
    assert np.linalg.norm(made - floats) < 0.01 * np.linalg.norm(floats)


@pytest.mark.parametrize(("depth", "op"), [(40_000, "qmatmul"), (150_000, "matmul")])
def test_sums_that_may_wrap_stay_products_of_floats(depth: int, op: str) -> None:
    graph = Graph("long")
    q, w = graph.input("q", (1, depth), "i8"), graph.param("w", (depth, 2), "i8")
    floats = graph.dequantize(q, scales=(0.1,)), graph.dequantize(w, scales=(1e-6,))
    graph.set_outputs([graph.quantize(graph.matmul(*floats), scales=(10.0,))])
    found = integer_graph(graph)
    assert op in names(found)
    params, codes = {"w": np.full((depth, 2), 127, np.int8)}, np.full((1, depth), 127, np.int8)
    made, expected = (
        rlx.compile(g, params=params, backend="reference").run({"q": codes})[0]
        for g in (found, graph)
    )
    np.testing.assert_array_equal(made, expected)


def test_a_zero_point_that_no_byte_holds_leaves_relu_to_floats() -> None:
    graph = Graph("far")
    q, w = graph.input("q", (1, 4), "i8"), graph.param("w", (4, 2), "i8")
    y = graph.matmul(graph.dequantize(q, scales=(0.1,)), graph.dequantize(w, scales=(0.1,)))
    graph.set_outputs([graph.quantize(graph.relu(y), scales=(1.0,), zero_points=(300,))])
    assert "relu" in names(integer_graph(graph))


def test_other_readers_of_a_tap_are_rounded_too() -> None:
    graph = Graph("two_readers")
    y = graph.relu(graph.input("x", (4,), "f32"))
    pair = graph.dequantize(graph.quantize(y, scales=(0.05,)), scales=(0.05,))
    graph.set_outputs([graph.exp(pair), graph.exp(y), y])
    found = insert_q_dq(graph, {y: TENSOR})
    (tap,) = [node.result for node in found.nodes if node.op.name == "relu"]
    assert [node.op.name for node in found.users()[tap]] == ["quantize"]
    feeds = {"x": np.array([-1.0, 0.04, 0.06, 2.0], np.float32)}
    for made in rlx.compile(found, backend="reference").run(feeds)[:2]:
        np.testing.assert_allclose(
            made, np.exp(np.array([0, 0.05, 0.05, 2], np.float32)), rtol=1e-6
        )
