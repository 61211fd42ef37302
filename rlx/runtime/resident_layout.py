"""Residents of a plan: a digest for sharing between programs, and params that may be discarded."""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING

from rlx.ir.digest import graph_digest
from rlx.ir.graph import Graph, Node, Value
from rlx.passes.phases import setup_nodes
from rlx.passes.views import root_of

if TYPE_CHECKING:
    from rlx.passes.memory.plan import MemoryPlan

_LEAST_BYTES = 64 * 1024
"""Smaller params are not worth a call of the system."""


def passing_params(plan: MemoryPlan) -> tuple[str, ...]:
    """Return the names of the large params that `setup` reads and `run` does not."""
    graph, first = plan.graph, setup_nodes(plan.graph)
    read = {root_of(o)[0] for node in graph.nodes if node not in first for o in node.operands}
    read.update(root_of(output)[0] for output in graph.outputs)
    large = [p for p in graph.params if p.node in first and plan.slots[p].size >= _LEAST_BYTES]
    return tuple(str(param.node.name) for param in large if param not in read)


def residents_digest(plan: MemoryPlan) -> str | None:
    """Return a digest of what the residents are, how `setup` makes them, and their offsets.

    What a run writes in place of a param, its next value, is none of them. None if bodies of loops
    and branches have residents of their own, which other programs overwrite.
    """
    if any(map(_has_residents, itertools.chain(*plan.bodies.values()))):
        return None
    first = setup_nodes(plan.graph)
    places = {
        value: slot.offset
        for value, slot in plan.slots.items()
        if slot.resident and slot.root is None and (value.node in first or not value.node.operands)
    }
    digest = graph_digest(_apart(plan.graph, list(places)))
    offsets = list(places.values())
    return None if digest is None else hashlib.sha256(f"{digest} {offsets}".encode()).hexdigest()


def _has_residents(plan: MemoryPlan) -> bool:
    """True if values of a body, or of bodies in it, stay from run to run."""
    own = any(slot.resident for slot in plan.slots.values())
    return own or any(map(_has_residents, itertools.chain(*plan.bodies.values())))


def _apart(graph: Graph, values: list[Value]) -> Graph:
    """Return a graph of what `values` are made of."""
    needed: set[Node] = set()
    open_nodes = [value.node for value in values]
    while open_nodes:
        node = open_nodes.pop()
        if node not in needed:
            needed.add(node)
            open_nodes += [operand.node for operand in node.operands]
    apart, image = Graph("residents"), dict[Value, Value]()
    for node in graph.nodes:
        if node in needed:
            apart.copy_node(node, image)
    apart.set_outputs(image[value] for value in values)
    return apart
