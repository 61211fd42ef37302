"""Insertion of copies for outputs that alias an input, a constant or another output."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.op import Trait
from rlx.passes.memory.liveness import DonationCheck
from rlx.passes.rewrite import Rewritten, copy_node, finish, graph_pass, unchanged
from rlx.passes.views import root_of


@graph_pass
def copy_outputs(graph: Graph) -> Rewritten:
    """Give every output bytes of its own, and every donation a producer that may write there.

    Outputs that are (views of) inputs, params or constants and outputs that overlap are
    copied. So are donated outputs whose leaf is read after they are computed: the copy comes
    last. A copy is an `expand` to the same shape, the one op that moves every element and
    is never a view; `simplify` would remove it, so this pass comes after.

        %0: f32[4] = input "state"          %0: f32[4] = input "state"
        return %0, %0                  ->   %1: f32[4] = expand %0 {shape = (4)}
                                            %2: f32[4] = expand %0 {shape = (4)}
                                            return %1, %2
    """
    target = Graph(graph.name)
    value_map: dict[Value, Value] = {}
    for node in graph.nodes:
        copy_node(target, node, value_map)
    finish(target, graph, value_map)
    _separate(target)
    _make_donations_fit(target)
    return (
        Rewritten(target, value_map) if len(target.nodes) > len(graph.nodes) else unchanged(graph)
    )


def _separate(graph: Graph) -> None:
    """Copy outputs that are parts of leaves or overlap an earlier output."""
    taken: dict[Value, list[tuple[int, int]]] = {}
    replaced = {position: name for name, position in graph.donations.items()}
    outputs: list[Value] = []
    for position, output in enumerate(graph.outputs):
        root, offset = root_of(output)
        span = (offset, offset + output.type.bytes)
        spans = taken.setdefault(root, [])
        free = all(span[1] <= begin or end <= span[0] for begin, end in spans)
        donated = replaced.get(position)
        replaces_itself = output is root and donated is not None and donated == root.node.name
        if free and (replaces_itself or not root.op.has(Trait.LEAF)):
            spans.append(span)
            outputs.append(output)
        else:
            outputs.append(_copy(output))
    graph.outputs = tuple(outputs)


def _make_donations_fit(graph: Graph) -> None:
    check = DonationCheck(graph)
    outputs = list(graph.outputs)
    for name, position in graph.donations.items():
        if not check.fits(graph.leaf(name), outputs[position]):
            outputs[position] = _copy(outputs[position])
    graph.outputs = tuple(outputs)


def _copy(value: Value) -> Value:
    with value.graph.attributed(value.node.source):
        return ops.expand(value, shape=value.shape)
