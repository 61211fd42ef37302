"""Tile size selection for the one-pass attention kernel.

    %4 = attention %q, %k, %v  ->  %4 = attention %q, %k, %v lowering = schedule(...)

f32 and f64 only; other dtypes, and head sizes that no vector divides, get no record.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node
from rlx.ir.lowering import Schedule
from rlx.ir.ops.attention_layout import AttentionLayout, layout_of
from rlx.ir.shape import upper
from rlx.passes.layout.choices import ChoiceObserver, Why, no_layout
from rlx.passes.rewrite import (
    GraphPass,
    LocalRewrite,
    Replacement,
    Rewritten,
    apply_rewrites,
    with_lowering,
)
from rlx.target import Target

_REGISTERS_BESIDE_TILE = 8
_MOST_VECTORS = 2
"""Vectors of queries in a tile: a scalar of a key then feeds two products."""
_MANY_VECTORS = 6
"""From so many on, an empty one in the last tile does not matter."""
_FEWEST_PRODUCTS = 4
"""Products in a register tile below which additions wait for each other."""


def tile_attention(target: Target, seen: ChoiceObserver = no_layout) -> GraphPass:
    """Return the pass for `target`; `seen` is called with every attention."""

    def rule(node: Node) -> Replacement:
        if node.lowering is not None:
            return None
        tile = attention_tile(node, target)
        found = Why.NO_QUERIES if tile is None else Why.QUERIES
        seen(node, found.because(node.operands[0].type, lowering=tile))
        return None if tile is None else with_lowering(node, tile)

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [LocalRewrite((ops.attention,), rule)])

    return GraphPass("tile-attention", run, __doc__ or "")


def attention_tile(node: Node, target: Target) -> Schedule | None:
    """Return the tile of keys by queries, or of few queries by keys; None where none fits."""
    q = node.operands[0]
    if q.dtype not in (DType.F32, DType.F64):
        return None
    axes = layout_of(node)
    return (_direct_tile if axes.is_direct else _lane_tile)(axes, q.dtype, target)


def _lane_tile(axes: AttentionLayout, dtype: DType, target: Target) -> Schedule | None:
    """Return a tile whose queries fill the lanes: as few idle lanes as can be."""
    queries, lanes = upper(axes.queries), target.lanes(dtype.size)
    while lanes > 1 and (axes.head_dim % lanes or lanes >= 2 * queries):
        lanes //= 2
    vectors = -(-queries // lanes)
    few_and_odd = vectors < _MANY_VECTORS and vectors % 2 == 1
    vectors = 1 if few_and_odd else _MOST_VECTORS
    budget = (target.vector_registers - _REGISTERS_BESIDE_TILE) // vectors
    panel = max(size for size in range(1, budget + 1) if axes.head_dim % size == 0)
    if lanes == 1 or panel * vectors < _FEWEST_PRODUCTS:
        return None
    return Schedule(panel, vectors * lanes, lanes)


def _direct_tile(axes: AttentionLayout, dtype: DType, target: Target) -> Schedule | None:
    """Return a tile of the few queries of as many heads that share keys as registers hold.

    Lanes divide a head.
    """
    lanes = target.lanes(dtype.size)
    while lanes > 1 and axes.head_dim % lanes:
        lanes //= 2
    budget = target.vector_registers - _REGISTERS_BESIDE_TILE
    queries = max(1, upper(axes.queries))
    most = budget // (axes.head_dim // lanes * queries)
    if lanes == 1 or most < 1:
        return None
    rows = queries * max(n for n in range(1, most + 1) if axes.group % n == 0)
    return Schedule(rows, max(1, min(8, budget // rows)) * lanes, lanes)
