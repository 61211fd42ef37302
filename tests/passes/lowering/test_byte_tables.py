"""Chains of arithmetic on one byte as tables: the same bytes, and where there are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.passes.lowering.byte_tables import byte_tables
from rlx.passes.rewrites.dead_code import dead_code
from rlx.target import named_target

WIDE, SMALL = named_target("x86-64-v3"), named_target("cortex-m4")
SHAPE = (64, 33)


def rounded(x: Value, scale: float, dtype: str = "u8") -> Value:
    low, high = (0.0, 255.0) if dtype == "u8" else (-128.0, 127.0)
    g = x.graph
    codes = g.minimum(g.maximum(g.round(x / scale) + 3.0, low), high)
    result: Value = g.cast(codes, to=dtype)
    return result


def real(x: Value, scale: float) -> Value:
    g = x.graph
    result: Value = g.cast(g.cast(x, to="i32") - 3, to="f32") * scale
    return result


def gelu(x: Value, dtype: str) -> Value:
    """As exporters spell it: every operator rounds."""
    g, inner = x.graph, real(x, 0.02)
    curve = real(
        rounded(g.erf(real(rounded(inner / 1.4142135, 0.015, dtype), 0.015)), 0.008), 0.008
    )
    return rounded(real(rounded(inner * (curve + 1.0), 0.03, dtype), 0.03) * 0.5, 0.015, dtype)


def graph_of(made: Callable[[Value], Value], shape: tuple[Any, ...], dtype: str) -> Graph:
    graph = Graph("chain")
    graph.set_outputs([made(graph.input("x", shape, dtype))])
    return graph


def names(graph: Graph, target: Any = WIDE) -> list[str]:
    return [node.op.name for node in dead_code(byte_tables(target)(graph)).nodes]


@pytest.mark.parametrize("backend", ["reference", "c", "llvm"])
@pytest.mark.parametrize("dtype", ["u8", "i8"])
def test_a_chain_is_one_table_of_the_same_bytes(dtype: str, backend: Any) -> None:
    graph = graph_of(lambda x: gelu(x, dtype), SHAPE, dtype)
    mapped = dead_code(byte_tables(WIDE)(graph))
    assert [node.op.name for node in mapped.nodes].count("map_bytes") == 1
    assert [node.op.name for node in mapped.nodes if node.results[0].shape == SHAPE] == [
        "input", "map_bytes",
    ]  # fmt: skip
    x = np.random.default_rng(0).integers(0, 256, SHAPE, np.uint8).view(dtype[0] + "1")
    (found,) = rlx.compile(mapped, backend=backend, without=["byte-tables"]).run({"x": x})
    (expected,) = rlx.compile(graph, backend=backend, without=["byte-tables"]).run({"x": x})
    np.testing.assert_array_equal(found, expected)


def test_symbolic_extents_have_tables() -> None:
    shape = (rlx.Dim("n", min=1, max=64), 33)
    graph = graph_of(lambda x: gelu(x, "u8"), shape, "u8")
    assert "map_bytes" in names(graph)
    f, g = rlx.compile(graph), rlx.compile(graph, without=["byte-tables"])
    x = np.random.default_rng(0).integers(0, 256, (7, 33), np.uint8)
    np.testing.assert_array_equal(f.run({"x": x})[0], g.run({"x": x})[0])


@pytest.mark.parametrize(
    ("made", "shape"),
    [
        (lambda x: rounded(real(x, 0.02), 0.03), SHAPE),  # one rounding: as fast as a table
        (lambda x: gelu(x, "u8"), (4, 33)),
    ],
    ids=["cheap", "few"],
)
def test_what_is_no_faster_stays(made: Callable[[Value], Value], shape: tuple[int, ...]) -> None:
    assert "map_bytes" not in names(graph_of(made, shape, "u8"))


def test_functions_of_two_bytes_have_no_table() -> None:
    graph = Graph("two")
    x, y = (graph.input(name, SHAPE, "u8") for name in "xy")
    graph.set_outputs([rounded(graph.erf(real(x, 0.02)) * graph.exp(real(y, 0.01)), 0.01)])
    assert "map_bytes" not in names(graph)


def test_microcontrollers_compute_the_chain() -> None:
    assert "map_bytes" not in names(graph_of(lambda x: gelu(x, "u8"), SHAPE, "u8"), SMALL)


def test_a_table_has_an_entry_for_every_byte() -> None:
    graph = Graph("short")
    x, table = graph.input("x", SHAPE, "u8"), graph.input("table", (255,), "u8")
    with pytest.raises(ShapeError, match="every byte needs an entry"):
        ops.map_bytes(x, table)
