"""Layouts: part of a type, printed and parsed, and read only by what says that it reads them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlx.codegen.lower import lower_graph
from rlx.errors import FormatError, GraphError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.layout import ChannelPanels, Layout, Panels, WinogradPanels
from rlx.ir.lowering import Schedule
from rlx.ir.op import make_attrs
from rlx.ir.parser import parse_graph
from rlx.ir.printer import format_graph
from rlx.ir.reference import evaluate
from rlx.ir.types import TensorType
from rlx.ir.verify import errors_of
from rlx.passes.rewrites.unfuse import unfuse

SCHEDULE = Schedule(rows=2, columns=4, lanes=4, order=("batch", "rows", "panels"))


def packed_product(tile: Schedule | None = SCHEDULE) -> Graph:
    graph = Graph("packed")
    a, b = graph.input("a", (3, 5)), graph.input("b", (5, 6))
    attrs = make_attrs(ops.matmul, {})
    packed = ops.pack_panels(b, layout=Panels(4))
    graph.set_outputs(graph.append(ops.matmul, (a, packed), attrs, lowering=tile))
    return graph


def test_a_packed_tensor_keeps_its_shape_and_counts_its_padding() -> None:
    packed = packed_product().nodes[2].result.type
    assert packed.shape == (5, 6)
    assert packed.stored_shape == (2, 5, 4)
    assert packed.bytes == 2 * 5 * 4 * 4
    assert str(packed) == "f32[5, 6]{panels(width = 4)}"


def test_a_layout_prints_and_parses() -> None:
    text = format_graph(packed_product())
    assert "%2: f32[5, 6]{panels(width = 4)} = pack_panels %1" in text
    assert parse_graph(text) == packed_product()


@pytest.mark.parametrize("layout", [Panels(4), ChannelPanels(2, 3), WinogradPanels(2, 4)], ids=str)
def test_every_layout_is_an_attribute_of_packing(layout: Layout) -> None:
    graph = Graph("weights")
    packed = ops.pack_panels(graph.param("w", (3, 3, 2, 4)), layout=layout)
    graph.set_outputs([packed])
    assert packed.type.layout == layout
    assert parse_graph(format_graph(graph)) == graph


def test_only_matrices_are_packed_transposed() -> None:
    graph = Graph("weights")
    w = graph.param("w", (3, 3, 2, 4))
    with pytest.raises(ShapeError, match="are not packed transposed"):
        ops.pack_panels(w, layout=ChannelPanels(2, 3), transposed=True)


@pytest.mark.parametrize(
    ("layout", "complaint"),
    [("tiles(width = 4)", "unknown layout"), ("panels(width = 0)", "has no layout"),
     ("panels()", "missing"), ("panels(width = 3)", "declared")],
)  # fmt: skip
def test_a_text_with_a_wrong_layout_is_refused(layout: str, complaint: str) -> None:
    text = format_graph(packed_product()).replace("panels(width = 4)", layout)
    with pytest.raises(FormatError, match=complaint):
        parse_graph(text)


def test_the_reference_computes_with_the_elements() -> None:
    random = np.random.default_rng(0)
    feeds = {"a": random.standard_normal((3, 5)), "b": random.standard_normal((5, 6))}
    feeds = {name: array.astype(np.float32) for name, array in feeds.items()}
    (y,) = evaluate(packed_product(), feeds)
    np.testing.assert_allclose(y, feeds["a"] @ feeds["b"], rtol=1e-6)


def test_an_op_that_does_not_read_a_layout_is_a_fault() -> None:
    (fault,) = errors_of(packed_product(None))
    assert fault.message.startswith("operand 1 (%2) has layout panels(width = 4), which matmul")
    graph = Graph("neg")
    graph.set_outputs([ops.neg(ops.pack_panels(graph.input("b", (5, 6)), layout=Panels(4)))])
    assert any("which neg does not read" in fault.message for fault in errors_of(graph))


def test_an_output_in_a_layout_is_a_fault() -> None:
    graph = Graph("out")
    graph.set_outputs([ops.pack_panels(graph.input("b", (5, 6)), layout=Panels(4))])
    assert any("has the layout panels" in fault.message for fault in errors_of(graph))


def test_an_input_in_a_layout_is_not_compiled() -> None:
    graph = Graph("given")
    b = graph.input_of("b", TensorType(DType.F32, (5, 6), Panels(4)))
    tile = SCHEDULE
    attrs = make_attrs(ops.matmul, {})
    graph.set_outputs(graph.append(ops.matmul, (graph.input("a", (3, 5)), b), attrs, lowering=tile))
    assert errors_of(graph) == []
    with pytest.raises(GraphError, match=r"'b' has type .* inputs and params are row-major"):
        lower_graph(graph)


def test_a_tile_of_another_width_than_the_panels_is_refused() -> None:
    with pytest.raises(ShapeError, match="does not fit b"):
        packed_product(replace(SCHEDULE, columns=8))


def test_only_static_columns_are_packed_and_once() -> None:
    graph = Graph("twice")
    packed = ops.pack_panels(graph.input("b", (5, 6)), layout=Panels(4))
    with pytest.raises(ShapeError, match="already has the layout panels"):
        ops.pack_panels(packed, layout=Panels(4))


def test_transforms_see_plain_tensors_and_no_record() -> None:
    plain = unfuse(packed_product())
    assert [node.op.name for node in plain.nodes] == ["input", "input", "matmul"]
    assert plain.nodes[-1].lowering is None
