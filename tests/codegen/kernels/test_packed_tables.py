"""Tables whose rows are gathered and that a product reads too: memory holds them once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from rlx.errors import IndexOutOfRangeError, ShapeError
from rlx.gguf import encode
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.layout import Panels
from rlx.ir.lowering import GatherFromPanels
from rlx.ir.op import make_attrs
from rlx.ir.reference import evaluate
from rlx.runtime.compile import compile as compile_graph
from rlx.runtime.executable import Executable
from rlx.target import detect_target

Array = NDArray[Any]
pytestmark = pytest.mark.skipif(detect_target().lanes(4) == 1, reason="the target has no vectors")


def table(scheme: str, rows: int = 256) -> Array:
    return encode(np.random.default_rng(0).standard_normal((rows, 512)), scheme)


def tied(blocks: Array, scheme: str, count: int | rlx.Dim, *, int8: bool = False) -> Graph:
    """Gather rows of a table, and multiply them with all of its rows."""
    g = Graph("tied")
    w, tokens = g.param("w", blocks.shape, "u8"), g.input("tokens", (count,), "i32")
    x = g.dequantize_blocks(g.gather(w, tokens, axis=0), scheme=scheme)
    multiply = g.int8_dequant_matmul if int8 else g.dequant_matmul
    g.set_outputs([x, multiply(x, w, scheme=scheme)])
    return g


def compiled(graph: Graph, blocks: Array, backend: str = "llvm", threads: int = 1) -> Executable:
    program = compile_graph(graph, params={"w": blocks}, backend=backend, threads=threads)
    assert isinstance(program, Executable)
    return program


@pytest.mark.parametrize(
    ("scheme", "int8", "backend"),
    [
        ("q8_0", False, "c"),
        ("q8_0", True, "llvm"),
        ("q4_1", True, "c"),
        ("q4_k", False, "llvm"),
        ("q6_k", True, "llvm"),
    ],
)
def test_rows_are_picked_from_where_the_product_reads(
    scheme: str, int8: bool, backend: str
) -> None:
    if int8 and not detect_target().dots_unsigned_bytes:
        pytest.skip("without products of bytes both operands are decoded")
    blocks, tokens = table(scheme), np.array([5, 255, 16, 0, 5], np.int32)
    graph = tied(blocks, scheme, 5, int8=int8)
    program = compiled(graph, blocks, backend)
    rows, products = program.run({"tokens": tokens})
    expected = evaluate(graph, {"tokens": tokens, "w": blocks})
    np.testing.assert_array_equal(rows, expected[0])
    np.testing.assert_allclose(products, expected[1], rtol=1e-4, atol=1e-2)
    schedule = str(program.schedule)
    assert "gather_from_panels()" in schedule
    assert f"u8[{blocks.shape[0]}, {blocks.shape[1]}]" not in schedule.partition("run:")[2]
    read_by_setup_alone = "w" in program._image.passing
    assert read_by_setup_alone


@pytest.mark.parametrize("threads", [1, 2])
def test_many_rows_are_picked_by_threads(threads: int) -> None:
    blocks = table("q8_0")
    graph = tied(blocks, "q8_0", rlx.Dim("n", max=300))
    program = compiled(graph, blocks, threads=threads)
    for count in (300, 1):
        tokens = np.random.default_rng(count).integers(0, 256, count).astype(np.int32)
        rows = program.run({"tokens": tokens})[0]
        np.testing.assert_array_equal(rows, evaluate(graph, {"tokens": tokens, "w": blocks})[0])


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("bad", [-1, 256])
@pytest.mark.parametrize("count", [3, 300])
def test_a_row_that_is_not_there_is_named_as_in_the_table(bad: int, count: int, int8: bool) -> None:
    blocks, tokens = table("q8_0"), np.zeros(count, np.int32)
    tokens[2] = bad
    program = compiled(tied(blocks, "q8_0", count, int8=int8), blocks)
    message = rf"gather: index out of range at position 2: {bad} .*for an axis of extent 256"
    with pytest.raises(IndexOutOfRangeError, match=message):
        program.run({"tokens": tokens})


def test_tables_that_do_not_fill_their_panels_are_read_in_place() -> None:
    blocks, tokens = table("q8_0", 250), np.array([249, 3], np.int32)
    graph = tied(blocks, "q8_0", 2)
    program = compiled(graph, blocks)
    assert "gather_from_panels()" not in str(program.schedule)
    expected = evaluate(graph, {"tokens": tokens, "w": blocks})
    np.testing.assert_array_equal(program.run({"tokens": tokens})[0], expected[0])


def test_a_table_without_a_product_is_not_packed() -> None:
    blocks = table("q8_0")
    g = Graph("rows")
    w, tokens = g.param("w", blocks.shape, "u8"), g.input("tokens", (2,), "i32")
    g.set_outputs([g.dequantize_blocks(g.gather(w, tokens, axis=0), scheme="q8_0")])
    assert "gather_from_panels()" not in str(compiled(g, blocks).schedule)


@pytest.mark.parametrize(("columns", "width", "axis"), [(250, 16, 1), (256, None, 1), (256, 16, 0)])
def test_records_that_do_not_fit_are_refused(columns: int, width: int | None, axis: int) -> None:
    g = Graph("bad")
    matrix: Value = g.param("w", (8, columns), "u8")
    if width is not None:
        attrs = make_attrs(ops.pack_panels, {"layout": Panels(width)})
        matrix = g.append(ops.pack_panels, (matrix,), attrs)[0]
        assert matrix.type.layout == Panels(width)
    indices = g.input("i", (2,), "i32")
    with pytest.raises(ShapeError, match="no whole panels"):
        g.append(
            ops.gather,
            (matrix, indices),
            make_attrs(ops.gather, {"axis": axis}),
            lowering=GatherFromPanels(),
        )
