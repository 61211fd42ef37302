"""Products of scaled integers: integer ones wherever the scales are not along what is summed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx.ir.graph import Graph, Value
from rlx.passes.lowering.exact_products import exact_products
from rlx.passes.lowering.scaled_products import scaled_products
from rlx.target import named_target

RANDOM = np.random.default_rng(0)


def scaled(graph: Graph, q: Value, scale: Any, zero: int = 0) -> Value:
    """What `DequantizeLinear` is: codes less a zero point, times a scale."""
    wide = graph.cast(q, to="i32")
    made: Value = graph.cast(wide - zero if zero else wide, to="f32") * scale
    return made


def codes(*shape: Any) -> Any:
    return RANDOM.integers(-128, 128, shape).astype(np.int8)


def static(value: Value) -> tuple[int, ...]:
    return tuple(int(str(extent)) for extent in value.shape)


def products(graph: Graph) -> list[str]:
    """The dtypes of products once scales are moved after them."""
    found = scaled_products(graph)
    return [str(n.result.dtype) for n in found.nodes if n.op.name in ("matmul", "conv")]


def agree(graph: Graph, given: dict[str, Any]) -> None:
    """Both back ends compute what the floats of the graph, in f64, would be."""
    inputs, params = (
        {name: given[name] for name in (str(leaf.node.name) for leaf in leaves)}
        for leaves in (graph.inputs, graph.params)
    )
    (expected,) = rlx.compile(graph, params=params, backend="reference").run(inputs)
    for backend in ("c", "llvm"):
        (made,) = rlx.compile(graph, params=params, backend=backend).run(inputs)
        np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def matrices(scale: str, *, transposed: bool = False, zero: int = 0) -> Graph:
    """A product of activations by weights whose scale is one, per column, or per row."""
    graph = Graph("matrices")
    x, w = graph.input("x", (3, 7, 32), "i8"), graph.param("w", (24, 32), "i8")
    shapes = {"one": (), "columns": (24, 1), "rows": (1, 32)}
    factor = graph.param("s", shapes[scale], "f32")
    if not transposed:
        w, shapes = graph.param("w2", (32, 24), "i8"), {"one": (), "columns": (24,)}
        factor = graph.param("t", shapes[scale], "f32")
    b = scaled(graph, w, factor)
    b = graph.transpose(b, perm=(1, 0)) if transposed else b
    made = graph.matmul(scaled(graph, x, graph.constant(np.float32(0.03)), zero), b)
    graph.set_outputs([made + graph.param("bias", (24,), "f32")])
    return graph


def values(graph: Graph) -> dict[str, Any]:
    return {
        str(leaf.node.name): codes(*leaf.shape)
        if str(leaf.dtype) == "i8"
        else RANDOM.uniform(0.01, 0.1, static(leaf)).astype(np.float32)
        for leaf in (*graph.inputs, *graph.params)
    }


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("scale", "zero"), [("one", 0), ("columns", -5)])
def test_codes_are_multiplied_and_their_sums_scaled(
    transposed: bool, scale: str, zero: int
) -> None:
    graph = matrices(scale, transposed=transposed, zero=zero)
    assert products(graph) == ["i32"]
    bytes_ = exact_products(named_target("x86-64-v4-vnni"))(scaled_products(graph))
    assert "stored_matmul" in [node.op.name for node in bytes_.nodes]
    agree(graph, values(graph))


def test_scales_along_what_is_summed_stay_in_floats() -> None:
    assert products(matrices("rows", transposed=True)) == ["f32"]


def test_the_rows_of_activations_may_have_scales() -> None:
    graph = Graph("rows")
    x, w = graph.input("x", (6, 32), "i8"), graph.param("w", (32, 8), "i8")
    rows = graph.input("s", (6, 1), "f32")
    graph.set_outputs([graph.matmul(scaled(graph, x, rows), graph.cast(
        graph.cast(w, to="i32"), to="f32"))])  # fmt: skip
    assert products(graph) == ["i32"]
    agree(graph, values(graph))


def test_sums_beyond_i32_and_integers_without_a_range_stay_in_floats() -> None:
    for depth, dtype in ((1 << 18, "i8"), (16, "i32")):
        graph = Graph("long")
        x, w = graph.input("x", (1, depth), dtype), graph.param("w", (depth, 2), "i8")
        one = graph.constant(np.float32(0.5))
        graph.set_outputs([graph.matmul(scaled(graph, x, one), scaled(graph, w, one))])
        assert products(graph) == ["f32"]


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_of_codes_by_channels_with_scales(groups: int) -> None:
    graph = Graph("image")
    x = graph.input("x", (2, 8, 9, 9), "u8")
    w, s = graph.param("w", (16, 8 // groups, 3, 3), "i8"), graph.param("s", (16, 1, 1, 1), "f32")
    image = scaled(graph, x, graph.constant(np.float32(0.02)), 128)
    made = graph.conv(image, scaled(graph, w, s), padding=((1, 1), (1, 1)), groups=groups)
    graph.set_outputs([graph.relu(made + graph.param("bias", (16, 1, 1), "f32"))])
    assert products(graph) == ["i32"]
    given = values(graph) | {"x": RANDOM.integers(0, 256, (2, 8, 9, 9)).astype(np.uint8)}
    agree(graph, given)


def test_dequantized_codes_of_a_traced_function_are_such_integers() -> None:
    graph = Graph("ops")
    x, w = graph.input("x", (4, 16), "f32"), graph.param("w", (16, 8), "i8")
    q = graph.dequantize(graph.quantize(x, scales=(0.05,), zero_points=(3,)), scales=(0.05,),
                         zero_points=(3,))  # fmt: skip
    scales = tuple(0.01 + 0.001 * i for i in range(8))
    graph.set_outputs([graph.matmul(q, graph.dequantize(w, scales=scales, axis=1))])
    run = rlx.compile(graph, params={"w": codes(16, 8)})
    assert not any("f32[16, 8]" in str(line) for line in str(run.schedule).splitlines())
    agree(graph, values(graph) | {"x": RANDOM.normal(size=(4, 16)).astype(np.float32)})
