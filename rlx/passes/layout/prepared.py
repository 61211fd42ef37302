"""Whether a value is computed once: from params and constants, in `setup`."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Node, Value
from rlx.ir.op import Trait


def is_prepared(value: Value) -> bool:
    """True if `value` depends on params and constants only: its packing runs once."""
    known = value.graph.facts(is_prepared)
    open_nodes = [value.node]
    while open_nodes:  # deep networks have more nodes on a path than calls may nest
        node = open_nodes[-1]
        fixed = not _differs_by_run(node)
        operands = [operand.node for operand in node.operands if fixed]
        unknown = [operand for operand in operands if operand not in known]
        if unknown:
            open_nodes += unknown
        else:
            known[open_nodes.pop()] = fixed and all(known[operand] for operand in operands)
    return known[value.node]


def _differs_by_run(node: Node) -> bool:
    """True for what is given or computed anew at every run, whatever its operands are."""
    if node.op is ops.param:
        return node.name in node.results[0].graph.donations
    return node.op is ops.input or node.op.has(Trait.EXPANDS)
