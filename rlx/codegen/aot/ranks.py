"""Communicator inputs of an artifact, and the ranks of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rlx.ir.graph import Graph
from rlx.ir.ranks import RankAxis, row_major_axes


def communicators_of(graph: Graph) -> Mapping[str, RankAxis]:
    """Return the axis of ranks that each communicator reaches, by the name of the input.

    A graph that declares none was made by hand: its communicators are those that collectives
    read, of a mesh whose axes are in the order of these inputs.
    """
    if graph.communicators:
        return graph.communicators
    extents: dict[str, int] = {}
    for node in graph.nodes:
        for name, operand in zip(node.op.operands, node.operands, strict=False):
            if name == "communicator" and operand in graph.inputs:
                extents[str(operand.node.name)] = node.attribute("axis_size")
    ordered = {str(leaf.node.name): leaf for leaf in graph.inputs}
    axes = row_major_axes({name: extents[name] for name in ordered if name in extents})
    return {axis.name: axis for axis in axes}


def rank_count(axes: Iterable[RankAxis]) -> int:
    """Return how many ranks the mesh has that `axes` belong to."""
    return max((axis.size * axis.stride for axis in axes), default=1)
