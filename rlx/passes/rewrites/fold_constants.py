"""Constant folding: nodes that depend on constants only are evaluated at compile time."""

from __future__ import annotations

import numpy as np

from rlx.errors import RlxError
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.reference import fold
from rlx.passes.effects import is_impure
from rlx.passes.rewrite import (
    Replacement,
    Rewritten,
    apply_rewrites,
    bodies_of,
    graph_pass,
    rewrite,
)

LARGEST_FOLDED = 1 << 20
"""Bytes: above this a value is cheaper to compute in `setup` than to carry in the artifact."""

_WORTH_GROWING = 256
"""Bytes: below this a folded value may be larger than what it is computed from."""


@graph_pass
def fold_constants(graph: Graph) -> Rewritten:
    """Replace nodes of constant operands by their value, by the reference interpreter.

        %0: f32[] = constant {2}
        %1: f32[] = constant {3}      ->      %0: f32[] = constant {5}
        %2: f32[] = add %0, %1

    A node that would grow the artifact (an `expand`), and one whose evaluation fails (an
    index out of range), stays for run time.
    """
    return apply_rewrites(graph, [_node_of_constants])


def _reads_constants_only(node: Node) -> bool:
    return bool(node.operands) and all(o.op is ops.constant for o in node.operands)


@rewrite(when=_reads_constants_only)
def _node_of_constants(node: Node) -> Replacement:
    lowered = node.op.has(Trait.FUSED) or node.op.has(Trait.LAYOUT) or node.op.has(Trait.FOREIGN)
    foldable = not is_impure(node) and not lowered and not bodies_of(node.attrs)
    if not foldable or not _is_small(node):
        return None
    return _evaluate(node)


def _is_small(node: Node) -> bool:
    if not all(result.type.is_static for result in node.results):
        return False
    size = sum(result.type.bytes for result in node.results)
    given = sum(operand.type.bytes for operand in dict.fromkeys(node.operands))
    return size <= LARGEST_FOLDED and (size <= given or size <= _WORTH_GROWING)


def _evaluate(node: Node) -> tuple[Value, ...] | None:
    graph = node.results[0].graph
    try:
        with np.errstate(all="ignore"):
            arrays = fold(
                node, [operand.node.attribute("value").array for operand in node.operands]
            )
    except RlxError:
        return None
    structural = _has_structural_zeros(node)
    return tuple(
        graph.constant(np.asarray(array), result.dtype, structural=structural)
        for array, result in zip(arrays, node.results, strict=True)
    )


def _has_structural_zeros(node: Node) -> bool:
    """True if zeros of the result are absent entries, as those of what it is linear in."""
    absent = [bool(operand.node.attribute("structural")) for operand in node.operands]
    if node.op is ops.div:
        return absent[0]
    if node.op.has(Trait.BILINEAR):
        return any(absent)
    if node.op is ops.pad:
        return absent[0] and bool(node.attribute("structural"))
    return (node.op.has(Trait.LINEAR) or node.op is ops.cast) and all(absent)
