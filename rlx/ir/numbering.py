"""Value numbers of a whole program: nodes of bodies, too, each its own."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.ir.graph import Graph, Node


def program_nodes(graph: Graph) -> list[Node]:
    """Return the nodes of `graph` and then those of its loops and branches, at any depth.

    A node's place in the list is its number: for nodes of `graph` itself that is their index.
    What is fused into one node has no numbers of its own.
    """
    found: dict[Node, None] = dict.fromkeys(graph.nodes)
    waiting = list(graph.nodes)
    for node in waiting:  # grows while it is walked
        for body in _bodies(node):
            new = [inner for inner in body.nodes if inner not in found]
            found.update(dict.fromkeys(new))
            waiting += new
    return list(found)


def number_nodes(graph: Graph) -> dict[Node, int]:
    """Return the number of every node of a program; see `program_nodes`."""
    return {node: number for number, node in enumerate(program_nodes(graph))}


def _bodies(node: Node) -> Iterator[Graph]:
    if node.is_one_kernel:
        return
    for value in node.attrs.as_dict().values():
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, Graph):
                yield each
