"""The meaning of `fused`: that of its body, node by node, each rounded to its own dtype."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.reference.interpreter import evaluate
from rlx.ir.reference.registry import Array, reference


@reference.exact(ops.scalar_region)
@reference.exact(ops.row_region)
@reference.exact(ops.fused)
def fused(*operands: Array, body: Graph) -> tuple[Array, ...]:
    names = [str(value.node.name) for value in body.inputs]
    return tuple(evaluate(body, dict(zip(names, operands, strict=True))))
