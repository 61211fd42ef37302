"""Lowering records: printed, parsed, verified, in every key of a graph, and no part of meaning."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.errors import FormatError, GraphError, ShapeError
from rlx.ir import ops
from rlx.ir.digest import graph_digest
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.lowering import Library, Lowering, OneKernel, Schedule
from rlx.ir.op import make_attrs
from rlx.ir.parser import parse_graph
from rlx.ir.printer import format_graph
from rlx.ir.reference import evaluate
from rlx.ir.serialize import dumps, fingerprint, loads
from rlx.ir.verify import errors_of
from rlx.passes.autodiff import grad_with_loss
from rlx.passes.fusion.fuse import fuse
from rlx.passes.loops.fuse_loop_bodies import fuse_loop_bodies
from rlx.passes.loops.invariant_code_motion import loop_invariant_code_motion
from rlx.passes.memory.bufferize import bufferize_loops
from rlx.passes.rewrite import apply_rewrites, copy_node, rewrite, with_lowering
from rlx.passes.rewrites.common_subexpressions import common_subexpressions
from rlx.passes.rewrites.decompose import decompose
from rlx.runtime.compile import compile

TILE = Schedule(rows=2, columns=4, lanes=4)


def attention(lowering: Lowering | None) -> Graph:
    graph = Graph("heads")
    x = graph.input("x", (5, 8))
    attrs = make_attrs(ops.attention, {"num_heads": 2, "head_dim": 4})
    graph.set_outputs(graph.append(ops.attention, (x, x, x), attrs, lowering=lowering))
    return graph


def tiled() -> Graph:
    return attention(Schedule(rows=2, columns=4, lanes=4))


def test_a_record_prints_after_the_attributes_and_parses_back() -> None:
    text = format_graph(tiled(), full=False)
    assert (
        "{num_heads = 2, head_dim = 4} lowering = schedule(rows = 2, columns = 4, lanes = 4)"
        in text
    )
    assert parse_graph(text) == tiled()
    assert loads(dumps(tiled())) == tiled()


def test_graphs_with_different_records_differ_in_every_key() -> None:
    others = attention(None), attention(Schedule(rows=4, columns=4, lanes=4))
    for other in others:
        assert tiled() != other
        assert graph_digest(tiled()) != graph_digest(other)
        assert fingerprint(tiled()) != fingerprint(other)


def test_a_record_is_no_part_of_the_meaning() -> None:
    x = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    plain, chosen = (evaluate(graph, {"x": x})[0] for graph in (attention(None), tiled()))
    np.testing.assert_array_equal(plain, chosen)


def test_an_op_refuses_records_that_are_not_for_it() -> None:
    with pytest.raises(GraphError, match=r"attention has no lowering library \(has: schedule\)"):
        attention(Library("lapack"))
    graph = Graph("sum")
    x = graph.input("x", (4,))
    with pytest.raises(GraphError, match=r"neg has no lowering schedule \(has: none\)"):
        graph.append(ops.neg, (x,), make_attrs(ops.neg, {}), lowering=TILE)


@pytest.mark.parametrize(
    "tile", [Schedule(2, 0, 4), Schedule(2, 6, 4), Schedule(3, 4, 4), Schedule(2, 8, 8)]
)
def test_a_tile_must_fit_the_operands(tile: Schedule) -> None:
    with pytest.raises(ShapeError, match="tile"):
        attention(tile)


def test_the_verifier_checks_records_and_the_types_of_their_fields() -> None:
    graph = tiled()
    node = graph.nodes[-1]
    object.__setattr__(node, "lowering", Schedule("many", 4, 4))  # type: ignore[arg-type] # on purpose
    (fault,) = errors_of(graph)
    assert "rows is 'many'; it must be int" in fault.message


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ("slab(rows = 4)", "unknown lowering slab"),
        ("library()", "missing"),
        ("schedule(rows = 2, columns = 4, lanes = 4, height = 1)", "height"),
        ("schedule(rows = 2, columns = 3, lanes = 3)", "do not fit"),
        ('library(library = "lapack")', "has no lowering library"),
    ],
)
def test_a_text_with_a_wrong_record_is_refused(record: str, complaint: str) -> None:
    text = format_graph(tiled()).replace("schedule(rows = 2, columns = 4, lanes = 4)", record)
    with pytest.raises(FormatError, match=complaint):
        parse_graph(text)


def test_a_copy_keeps_the_record_and_a_changed_node_drops_it() -> None:
    source = tiled()
    node = source.nodes[-1]
    for shape, kept in (((5, 8), node.lowering), ((6, 8), None)):
        target = Graph("copy")
        x = target.input("x", shape)
        (copied,) = copy_node(target, node, {source.nodes[0].result: x})
        assert copied.node.lowering == kept
    target = Graph("other")
    x = target.input("x", (5, 8))
    attrs = make_attrs(ops.attention, {**node.attrs.as_dict(), "softcap": 3.0})
    (changed,) = copy_node(target, node, {source.nodes[0].result: x}, attrs=attrs)
    assert changed.node.lowering is None


def test_nodes_with_different_records_are_not_merged() -> None:
    graph = attention(None)
    (plain,) = graph.outputs
    (chosen,) = with_lowering(plain.node, Schedule(rows=2, columns=4, lanes=4))
    graph.set_outputs([plain, chosen])
    assert len(common_subexpressions(graph).nodes) == 3


def test_a_node_with_a_record_is_not_decomposed() -> None:
    assert decompose()(tiled()) == tiled()
    assert all(node.op is not ops.attention for node in decompose()(attention(None)).nodes)


def loop() -> Graph:
    body = Graph("body")
    body.set_outputs([body.input("c", (4,)) + 1.0])
    graph = Graph("loop")
    attrs = make_attrs(ops.scan, {"body": body, "length": 3, "num_carries": 1})
    operands = (graph.input("c", (4,)),)
    graph.set_outputs(graph.append(ops.scan, operands, attrs, lowering=OneKernel()))
    return graph


def test_a_loop_in_one_kernel_is_a_loop() -> None:
    assert "num_carries = 1} lowering = one_kernel()" in format_graph(loop(), full=False)
    assert parse_graph(format_graph(loop())) == loop()
    (y,) = evaluate(loop(), {"c": np.zeros(4, np.float32)})
    np.testing.assert_array_equal(y, np.full(4, 3, np.float32))


def test_no_pass_touches_the_body_of_a_loop_in_one_kernel() -> None:
    @rewrite(ops.add)
    def doubled(node: Node) -> Value:
        return ops.mul(*node.operands)

    graph = loop()
    assert apply_rewrites(graph, [doubled]).graph == graph
    later = (loop_invariant_code_motion, fuse(), bufferize_loops, fuse_loop_bodies)
    assert [each(graph) for each in later] == [graph] * len(later)


def test_the_gradient_of_a_loop_in_one_kernel_is_that_of_the_loop() -> None:
    graph = loop()
    graph.set_outputs([ops.reduce_sum(ops.square(graph.outputs[0]), axes=(0,))])
    gradient = grad_with_loss(graph, ["c"])
    feeds = {"c": np.arange(4, dtype=np.float32), "d_output": np.ones((), np.float32)}
    compiled = compile(gradient, backend="llvm", threads=1).run(feeds)
    for found in (evaluate(gradient, feeds)[1], compiled[1]):
        np.testing.assert_allclose(found, 2 * (feeds["c"] + 3))
