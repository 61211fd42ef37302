"""Choose the tile of the one-pass attention kernel for this machine.

    %4 = attention %q, %k, %v  ->  %4 = attention_tiled %q, %k, %v {rows = 12, panel = 32, ...}

f32 and f64 only; other dtypes, and head sizes that no vector divides, stay `attention`.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.ops.attention_layout import attention_layout
from rlx.ir.shape import upper
from rlx.passes.rewrite import GraphPass, LocalRewrite, Rewritten, apply_rewrites
from rlx.target import Target

_REGISTERS_BESIDE_TILE = 8
_MAX_ROWS = 12


def tile_attention(target: Target) -> GraphPass:
    """Return the pass for `target`."""

    def rule(node: Node) -> Value | None:
        return tiled(node, target)

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [LocalRewrite((ops.attention,), rule)])

    return GraphPass("tile-attention", run, __doc__ or "")


def tiled(node: Node, target: Target) -> Value | None:
    """Return `node`, an attention, with a tile, or None where the kernel does not apply."""
    q = node.operands[0]
    head_dim: int = node.attribute("head_dim")
    if q.dtype not in (DType.F32, DType.F64):
        return None
    lanes = target.lanes(q.dtype.size)
    while lanes > 1 and head_dim % lanes:
        lanes //= 2
    budget = target.vector_registers - _REGISTERS_BESIDE_TILE
    if lanes == 1 or head_dim // lanes > budget:
        return None
    most = min(_MAX_ROWS, budget // (head_dim // lanes))
    queries = upper(_queries(node))
    rows = max(1, -(-queries // max(1, -(-queries // most))))
    panel = max(1, min(8, budget // rows)) * lanes
    result: Value = ops.attention_tiled(
        *node.operands, rows=rows, panel=panel, lanes=lanes, **node.attrs.as_dict()
    )
    return result


def _queries(node: Node) -> int:
    q, k, v = (operand.shape for operand in node.operands[:3])
    attributes = node.attrs.as_dict()
    named = {key: attributes[key] for key in ("num_heads", "head_dim", "layout")}
    return upper(attention_layout(q, k, v, **named).queries)
