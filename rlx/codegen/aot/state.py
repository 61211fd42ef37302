"""Inputs that an artifact keeps: state and weights of a traced function become params."""

from __future__ import annotations

from collections.abc import Collection

from rlx.ir.graph import Graph, Value


def inputs_as_params(graph: Graph, names: Collection[str]) -> Graph:
    """Return `graph` with its donated inputs, and those in `names`, declared as params.

    A function takes everything as arguments; between the runs of an artifact they stay.

        %0: f32[4] = input "w"     ->     %0: f32[4] = param "w"
    """
    kept = {*names, *graph.donations} & {str(value.node.name) for value in graph.inputs}
    if not kept:
        return graph
    target = Graph(graph.name)
    image: dict[Value, Value] = {}
    for node in graph.nodes:
        if node.op.name == "input" and node.name in kept:
            with target.attributed(node.source):
                type = node.result.type
                image[node.result] = target.param(node.name or "", type.shape, type.dtype)
        else:
            target.copy_node(node, image)
    target.outputs = tuple(image[output] for output in graph.outputs)
    target.take_roles(graph)
    return target
