"""The parts of loops, and loops rebuilt from them."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Node
from rlx.ir.loop_signature import (
    LoopSignature,
    Parts,
    is_loop,
    loop_signature,
    rebuild_loop,
    stacked,
)


def a_scan() -> tuple[Graph, Node]:
    """Return `scan(c, k, x) -> (c + k * x, c, x)`, whose last row is a residual."""
    body = Graph("body")
    c, k, x = (body.input(name, (), "f32") for name in "ckx")
    body.set_outputs([c + k * x, c, x])
    graph = Graph("main")
    first, factor = graph.input("first", (), "f32"), graph.input("factor", (), "f32")
    rows = graph.input("rows", (5,), "f32")
    results = ops.scan(
        first, factor, rows, body=body, length=5, num_carries=1, num_consts=1, residuals=1
    )
    graph.set_outputs(results)
    return graph, results[0].node


def a_while() -> Node:
    body, condition = Graph("body"), Graph("condition")
    a, b, most = (body.input(name, (), "f32") for name in ("a", "b", "most"))
    body.set_outputs([b, a + b])
    a, b, most = (condition.input(name, (), "f32") for name in ("a", "b", "most"))
    condition.set_outputs([ops.lt(b, most)])
    graph = Graph("main")
    operands = [graph.input(name, (), "f32") for name in ("a", "b", "most")]
    return ops.while_loop(*operands, condition=condition, body=body, num_consts=1)[0].node


def test_a_scan_has_carries_consts_rows_and_residuals() -> None:
    graph, scan = a_scan()
    signature = loop_signature(scan)
    assert signature == LoopSignature(1, 1, 1, 1)
    assert signature.first_row == 2
    assert signature.split(scan.operands) == Parts(*((value,) for value in graph.inputs))
    assert signature.positions == Parts((0,), (1,), (2,))
    assert stacked(scan, scan.results) == scan.results[1:]


def test_a_while_loop_has_carries_and_consts() -> None:
    node = a_while()
    assert loop_signature(node) == LoopSignature(num_carries=2, num_consts=1)
    assert loop_signature(node).split("abm") == Parts(("a", "b"), ("m",))
    assert stacked(node, node.results) == ()


def test_parts_in_order_are_the_operands() -> None:
    assert Parts.of(range(6), 1, 2).all == tuple(range(6))


def test_loops_alone_are_loops() -> None:
    graph, scan = a_scan()
    assert is_loop(scan)
    assert is_loop(a_while())
    assert not is_loop(graph.inputs[0].node)


def test_a_loop_is_rebuilt_with_more_consts_and_fewer_residuals() -> None:
    graph, scan = a_scan()
    body = Graph("body")
    c, k, m, x = (body.input(name, (), "f32") for name in "ckmx")
    body.set_outputs([c + k * m * x, c])
    given = loop_signature(scan).split(scan.operands)
    consts = (*given.consts, graph.input("more", (), "f32"))
    operands = Parts(given.carries, consts, given.rows)
    last, _ = rebuild_loop(graph, scan, operands, body, num_residuals=0)
    assert loop_signature(last.node) == LoopSignature(1, 2, 1, 0)
    assert (last.node.name, last.node.source) == (scan.name, scan.source)


def test_a_rebuilt_loop_keeps_its_condition_unless_it_gets_another() -> None:
    node = a_while()
    graph = node.results[0].graph
    given = loop_signature(node).split(node.operands)
    again = rebuild_loop(graph, node, given, node.attribute("body"))[0].node
    assert again.attribute("condition") == node.attribute("condition")
