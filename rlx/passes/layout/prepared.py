"""Whether a value is computed once: from params and constants, in `setup`."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.ir.op import Trait


def is_prepared(value: Value) -> bool:
    """True if `value` depends on params and constants only: its packing runs once."""
    seen, open_values = {value}, [value]
    while open_values:  # deep networks have more nodes on a path than calls may nest
        current = open_values.pop()
        if current.op is ops.input or current.op.has(Trait.EXPANDS):
            return False
        if current.op is ops.param and current.node.name in current.graph.donations:
            return False
        fresh = [operand for operand in current.node.operands if operand not in seen]
        seen.update(fresh)
        open_values += fresh
    return True
