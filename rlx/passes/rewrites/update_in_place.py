"""Sums with arrays that are zero but for one block: updates of that block.

Derivatives of what reads one element, row or block bring such sums, and so does
`x.at[i].add(v)`. As a sum they take passes over the whole array; as `dynamic_update_slice` they
are one store where the array may be overwritten. Elements beside the block stay as they are: a
-0.0, too, to which the sum would add 0.0.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.shape import normalize_axis
from rlx.passes.rewrite import Rewritten, apply_rewrites, graph_pass, rewrite
from rlx.passes.rewrites.scalars import splat


@graph_pass
def update_in_place(graph: Graph) -> Rewritten:
    """Add blocks where they belong, instead of whole arrays that are zero elsewhere.

    %1 = dynamic_update_slice 0, %u, %at         %1 = dynamic_slice %x, %at
    %2 = add %x, %1                        ->    %2 = dynamic_update_slice %x, %1 + %u, %at
    """
    return apply_rewrites(graph, [_sum_with_block])


@rewrite(ops.add)
def _sum_with_block(node: Node) -> Value | None:
    a, b = node.operands
    if a.type != b.type:
        return None
    for x, sparse in ((a, b), (b, a)):
        if sparse.op is ops.dynamic_update_slice and splat(sparse.node.operands[0]) == 0:
            return _block_added(x, sparse.node)
        if sparse.op in (ops.scatter_add, ops.gather_backward) and _has_one_index(sparse.node):
            return _slice_added(x, sparse.node)
    return None


def _has_one_index(node: Node) -> bool:
    indices = node.operands[1]
    return indices.dtype.is_int and indices.type.elements == 1


def _block_added(x: Value, sparse: Node) -> Value:
    _, update, starts = sparse.operands
    old = ops.dynamic_slice(x, starts, sizes=update.shape)
    changed: Value = ops.dynamic_update_slice(x, ops.add(old, update), starts)
    return changed


def _slice_added(x: Value, sparse: Node) -> Value:
    """Read through `gather`, which fails for an index out of range."""
    update, index = sparse.operands
    axis = sparse.attrs.as_dict().get("axis", 0)
    axis = normalize_axis(axis, x.rank)
    new = ops.add(ops.gather(x, index, axis=axis), update)
    block = ops.reshape(new, shape=(*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    place = ops.reshape(ops.cast(index, to=DType.I64), shape=(1,))
    origin = [x.graph.constant([0] * count, DType.I64) for count in (axis, x.rank - axis - 1)]
    parts = [part for part in (origin[0], place, origin[1]) if part.shape != (0,)]
    starts = parts[0] if len(parts) == 1 else ops.concat(*parts, axis=0)
    changed: Value = ops.dynamic_update_slice(x, block, starts)
    return changed
