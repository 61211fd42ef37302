"""Codebook materialization: kernels of packed weights get those of their block types as constants.

    %2 = dequant_matmul %x, %w {scheme = "iq2_xs"}
    ->  %2 = constant {..}
        %3 = dequant_matmul %x, %w, %2 {scheme = "iq2_xs"}

What the scheme means stays as it is; equal constants become one. Requires nothing.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.block_type import block_type
from rlx.ir.codebooks import codebook
from rlx.ir.graph import Graph, Node, Value
from rlx.passes.rewrite import Rewritten, apply_rewrites, graph_pass, rewrite


@graph_pass
def attach_codebooks(graph: Graph) -> Rewritten:
    """Add the codebook of the scheme as an operand, where it has one."""
    return apply_rewrites(graph, [_with_codebook])


@rewrite(
    ops.dequant_matmul,
    ops.dequant_matmul_words,
    ops.dequantize_blocks,
    ops.grouped_dequant_matmul,
)
def _with_codebook(node: Node) -> Value | None:
    book = block_type(str(node.attribute("scheme"))).codebook
    if book is None or len(node.operands) == len(node.op.operands):
        return None
    graph = node.operands[0].graph
    operands = (*node.operands, graph.constant(codebook(book)))
    return graph.append(node.op, operands, node.attrs)[0]
