"""The verifier finds every fault, in bodies too, and shows each in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from rlx.errors import GraphError
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import OPS, Attrs, make_attrs
from rlx.ir.ranks import RankAxis
from rlx.ir.shape import Dim
from rlx.ir.types import TensorType
from rlx.ir.verify import Checked, errors_of, verify
from rlx.passes.rewrite import copy_node
from tests.ir.strategies import graphs


def chain() -> Graph:
    graph = Graph("chain")
    x = graph.input("x", (2, 3))
    w = graph.param("w", (3, 3))
    graph.set_outputs([graph.tanh(x @ w)])
    return graph


def damage(node: Node | Attrs, **fields: Any) -> None:
    """Break a frozen node the way a faulty pass might."""
    for name, value in fields.items():
        object.__setattr__(node, name, value)


def messages(graph: Graph) -> list[str]:
    return [fault.message for fault in errors_of(graph)]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(graphs())
def test_a_graph_made_by_the_builders_has_no_fault(graph: Graph) -> None:
    assert errors_of(graph) == []


FAULTY: dict[str, tuple[Callable[[Graph], object], list[str]]] = {
    "a type that inference does not give": (
        lambda g: setattr(g.nodes[2].result, "type", TensorType(DType.F32, (2, 4))),
        ["declared f32[2, 4], inferred f32[2, 3]", "declared f32[2, 3], inferred f32[2, 4]"],
    ),
    "an operand before it is computed": (
        lambda g: damage(g.nodes[2], operands=(g.nodes[3].result, g.nodes[1].result)),
        ["operand 0 (%3) is not computed before it is used"],
    ),
    "a value of another graph": (
        lambda g: damage(g.nodes[3], operands=(Graph("other").input("x", (2, 3)),)),
        ["operand 0 (%0) belongs to graph 'other'"],
    ),
    "a wrong index": (
        lambda g: damage(g.nodes[3], index=7),
        ["has index 7 at position 3", "output 0 (%7) is not in the graph"],
    ),
    "a wrong number of operands": (
        lambda g: damage(g.nodes[2], operands=(g.nodes[0].result,)),
        ["takes 2 operands and was given 1"],
    ),
    "an attribute out of range": (
        lambda g: damage(g.softmax(g.nodes[0].result, axis=1).node.attrs, axis=5),
        ["axis 5 is out of range for rank 2"],
    ),
    "an attribute of the wrong kind": (
        lambda g: damage(g.softmax(g.nodes[0].result, axis=1).node.attrs, axis="last"),
        ["attribute axis is 'last'; it must be int"],
    ),
    "a missing output": (lambda g: g.nodes.pop(), ["output 0 (%3) is not in the graph"]),
    "a communicator that is no number": (
        lambda g: g.communicators.update(x=RankAxis("rows", 2, 1)),
        ["'x', the communicator of axis 'rows', is no i64 scalar"],
    ),
}
"""What is done to `chain()`, and all faults that are found."""


@pytest.mark.parametrize("case", FAULTY)
def test_a_damaged_graph_has_these_faults(case: str) -> None:
    graph, (harm, expected) = chain(), FAULTY[case]
    harm(graph)
    assert messages(graph) == expected


def test_two_leaves_of_one_name_are_a_fault() -> None:
    graph = chain()
    damage(graph.nodes[1].attrs, name="x")
    assert "%0 is also named 'x'" in messages(graph)


def test_a_result_that_does_not_point_back_is_a_fault() -> None:
    graph = chain()
    node = graph.nodes[3]
    stranger = Value(graph, graph.nodes[2], 0, node.result.type)
    damage(node, results=(stranger,))
    assert "result 0 does not point back to its node" in messages(graph)


@pytest.mark.parametrize(
    ("donations", "message"),
    [
        ({"nothing": 0}, "has no such input or param to replace"),
        ({"x": 4}, "does not exist"),
        ({"w": 0}, "has type f32[2, 3], not f32[3, 3]"),
    ],
)
def test_a_donation_that_does_not_fit_is_a_fault(donations: dict[str, int], message: str) -> None:
    graph = chain()
    graph.donations = donations
    (name, position), *_ = donations.items()
    assert messages(graph) == [f"output {position}, donated to {name!r}, {message}"]


def test_a_symbol_with_two_bounds_is_a_fault() -> None:
    graph = Graph()
    graph.input("x", (Dim("n", max=4),))
    graph.input("y", (Dim("n", max=8),))
    assert messages(graph) == ["symbol n has two bounds: 0..4 and 0..8"]


def test_faults_of_bodies_are_found() -> None:
    body = Graph("body")
    body.set_outputs([body.relu(body.input("u", (2, 3)))])
    graph = chain()
    graph.append(OPS["fused"], (graph.nodes[0].result,), make_attrs(OPS["fused"], {"body": body}))
    damage(body.nodes[1], index=9)
    faults = errors_of(graph)
    assert {fault.graph.name for fault in faults} == {"body"}


def test_all_faults_are_shown_in_place_with_the_last_pass() -> None:
    graph = chain()
    damage(graph.nodes[2], operands=(graph.nodes[3].result, graph.nodes[1].result))
    graph.donations = {"x": 3}
    with pytest.raises(GraphError) as caught:
        verify(graph, after="fuse-elementwise")
    assert caught.value.message == (
        "graph 'chain' has 2 faults after fuse-elementwise\n"
        '  %0: f32[2, 3] = input "x"\n'
        '  %1: f32[3, 3] = param "w"\n'
        "  %2: f32[2, 3] = matmul %3, %1\n"
        "  ^ operand 0 (%3) is not computed before it is used\n"
        "  %3: f32[2, 3] = tanh %2\n"
        "\n"
        "  graph @chain\n"
        "  ^ output 3, donated to 'x', does not exist"
    )
    assert caught.value.source is not None
    assert caught.value.source.file == __file__


def test_copies_of_what_was_right_are_not_inferred_again(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, copy = Graph("g"), Graph("g")
    checked = Checked()
    graph.set_outputs([graph.tanh(graph.input("x", (2, 3)))])
    value_map: dict[Value, Value] = {}
    for node in graph.nodes:
        copy_node(copy, node, value_map)
    copy.set_outputs([value_map[output] for output in graph.outputs])
    verify(graph, checked=checked)
    looked_at: list[Node] = []

    def no_faults(node: Node) -> list[str]:
        looked_at.append(node)
        return []

    monkeypatch.setattr("rlx.ir.verify._type_faults", no_faults)
    verify(copy, checked=checked)
    assert not looked_at
    object.__setattr__(copy.nodes[1].result, "type", TensorType(DType.F32, (3, 3)))
    verify(copy, checked=checked)
    assert looked_at == [copy.nodes[1]]
