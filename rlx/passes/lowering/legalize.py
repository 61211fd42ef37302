"""Legalization: ops that only transforms use are dropped, and unsupported ops are errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container

from rlx.errors import UnsupportedError
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import OpDef, Trait
from rlx.passes.rewrite import (
    Replacement,
    Rewritten,
    apply_rewrites,
    bodies_of,
    graph_pass,
    rewrite,
)
from rlx.passes.rewrites.decompose import expand_formula


@graph_pass
def legalize(graph: Graph) -> Rewritten:
    """Drop what only transforms read. Decompositions have gone before (`decompose`).

    %1: f32[4] = stop_gradient %0      ->      %1: f32[4] = exp %0
    %2: f32[4] = exp %1
    """
    return apply_rewrites(graph, [_operand, _of_words])


@rewrite(ops.stop_gradient, ops.refuse_derivative)
def _operand(node: Node) -> Value:
    return node.operands[0]


@rewrite(ops.stored_matmul, ops.stored_conv)
def _of_words(node: Node) -> Replacement:
    """Take words apart where no schedule says how their products are computed."""
    of_words = node.attribute("elements") in ("bytes", "bf16")
    return expand_formula(node) if of_words and node.lowering is None else None


def unsupported_nodes(graph: Graph, supports: Callable[[OpDef], bool]) -> list[Node]:
    """Return the nodes, those of bodies included, that are neither leaves nor supported."""
    found: list[Node] = []
    for node in graph.nodes:
        if not node.op.has(Trait.LEAF) and not supports(node.op):
            found.append(node)
        if not node.is_one_kernel:
            for body in bodies_of(node.attrs):
                found.extend(unsupported_nodes(body, supports))
    return found


def require_supported(graph: Graph, backend: str, claimed: Container[str]) -> None:
    """Raise UnsupportedError with the count and kinds of nodes that `backend` cannot run."""
    found = unsupported_nodes(graph, lambda definition: definition.name in claimed)
    if not found:
        return
    kinds = Counter(node.op.name for node in found)
    listed = ", ".join(f"{name} ({count})" for name, count in sorted(kinds.items()))
    raise UnsupportedError(
        f"backend {backend!r} cannot run {len(found)} nodes of graph {graph.name!r}: {listed}",
        source=found[0].source,
        remedy="give these ops a kernel, or a formula to decompose into",
    )
