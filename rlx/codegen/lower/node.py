"""Lowering of one node: its thunks."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.codegen.lower.registry import Placement, lowering
from rlx.codegen.schedule import AnyThunk
from rlx.errors import blamed
from rlx.ir.graph import Node
from rlx.ir.op import Trait
from rlx.passes.views import view_of


def lower_node(node: Node, place: Placement) -> Sequence[AnyThunk]:
    """Return the thunks of a node: by its rule, or one of the op's name; none for a view."""
    if not computes(node):
        return ()
    rule = None if node.is_one_kernel and node.lowering else lowering.get(node.op)
    with blamed(f"lowering {node.title}", node.source):
        return rule(node, place) if rule else [place.thunk(node)]


def computes(node: Node) -> bool:
    """False for leaves, and for views, whose memory is their operand's."""
    return not node.op.has(Trait.LEAF) and view_of(node) is None
