"""In-place updates: `x + pad(block)` updates one block of `x`, in place if possible.

Derivatives of what reads one element, row or block bring such sums, and so does
`x.at[i].add(v)`. As a sum they take passes over the whole array; as `dynamic_update_slice` they
are one store where the array may be overwritten. Elements outside of the block stay as they are: a
-0.0, too, to which the sum would add 0.0.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.shape import normalize_axis
from rlx.ir.types import TensorType
from rlx.passes.rewrite import Rewritten, apply_rewrites, graph_pass, rewrite
from rlx.passes.scalars import splat

_DEEPEST = 6
"""Sums within sums that are looked through, so that long chains take no long time."""


@graph_pass
def update_in_place(graph: Graph) -> Rewritten:
    """Add blocks where they belong, instead of whole arrays that are zero elsewhere.

    %1 = dynamic_update_slice 0, %u, %at         %1 = dynamic_slice %x, %at
    %2 = add %x, %1                        ->    %2 = dynamic_update_slice %x, %1 + %u, %at
    """
    return apply_rewrites(graph, [_sum_with_block])


def _adds_block(node: Node) -> bool:
    """True if one operand is zero but for some blocks; two such wait for what both are added to."""
    a, b = node.operands
    return _is_sparse(a) != _is_sparse(b)


@rewrite(ops.add, when=_adds_block)
def _sum_with_block(node: Node) -> Value | None:
    """Add blocks to what is none."""
    a, b = node.operands
    x, sparse = (a, b) if _is_sparse(b) else (b, a)
    fits = x.type == node.result.type and _ends_like(x, sparse)
    return _added(x, sparse) if fits else None


def _is_sparse(value: Value, depth: int = _DEEPEST) -> bool:
    """True for zeros with one block in them, and sums of some such."""
    if value.op is ops.add:
        same = all(operand.type == value.type for operand in value.node.operands)
        return same and depth > 0 and all(_is_sparse(o, depth - 1) for o in value.node.operands)
    if value.op is ops.reshape:
        return depth > 0 and _is_sparse(value.node.operands[0], depth - 1)
    if value.op is ops.dynamic_update_slice:
        return bool(splat(value.node.operands[0]) == 0)
    return value.op.has(Trait.SCATTERS_SUM) and _has_one_index(value.node)


def _added(x: Value, sparse: Value) -> Value:
    """Return `x + sparse`, which is zero but for some blocks."""
    node = sparse.node
    if sparse.op is ops.add:
        return _added(_added(x, node.operands[0]), node.operands[1])
    if sparse.op is ops.reshape:
        leading = x.shape[: x.rank - sparse.rank]
        before = node.operands[0]
        changed = _added(ops.reshape(x, shape=(*leading, *before.shape)), before)
        return ops.reshape(changed, shape=x.shape)
    if sparse.op is ops.dynamic_update_slice:
        return _block_added(x, node)
    return _slice_added(x, node)


def _ends_like(x: Value, sparse: Value) -> bool:
    return sparse.rank <= x.rank and x.shape[x.rank - sparse.rank :] == sparse.shape


def _has_one_index(node: Node) -> bool:
    indices = node.operands[1]
    return indices.dtype.is_int and indices.type.elements == 1


def _block_added(x: Value, sparse: Node) -> Value:
    """Add the block to all of `x` along leading axes that only `x` has."""
    zeros, update, starts = sparse.operands
    leading = x.shape[: x.rank - zeros.rank]
    if leading:
        update = ops.expand(update, shape=(*leading, *update.shape))
        starts = ops.concat(x.graph.constant([0] * len(leading), starts.dtype), starts, axis=0)
    old = ops.dynamic_slice(x, starts, sizes=update.shape)
    return ops.dynamic_update_slice(x, ops.add(old, update), starts)


def _slice_added(x: Value, sparse: Node) -> Value:
    """Read through `gather`, which fails for an index out of range."""
    update, index = sparse.operands
    leading = x.rank - sparse.result.rank
    axis = leading + normalize_axis(sparse.attrs.get("axis", 0), sparse.result.rank)
    new = ops.add(ops.gather(x, index, axis=axis), update)
    block = ops.reshape(new, shape=(*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    return ops.dynamic_update_slice(x, block, _starts(index, axis, x.rank))


def slice_in_zeros(sparse: Node) -> Value | None:
    """Return what a scatter of one slice makes as a block in zeros; None for other scatters.

    Its place is read through `gather`, which fails for an index out of range.
    """
    (update, index), type = sparse.operands, sparse.result.type
    axis = normalize_axis(sparse.attrs.get("axis", 0), type.rank)
    extent = type.shape[axis]
    if not _has_one_index(sparse) or not isinstance(extent, int):
        return None
    places = index.graph.iota(type=TensorType(DType.I64, (extent,)))
    block = ops.reshape(update, shape=(*type.shape[:axis], 1, *type.shape[axis + 1 :]))
    zeros = ops.expand(index.graph.constant(0, type.dtype), shape=type.shape)
    starts = _starts(ops.gather(places, index, axis=0), axis, type.rank)
    return ops.dynamic_update_slice(zeros, block, starts)


def _starts(index: Value, axis: int, rank: int) -> Value:
    """Return where a slice at one index along `axis` starts."""
    place = ops.reshape(ops.cast(index, to=DType.I64), shape=(1,))
    origin = [index.graph.constant([0] * count, DType.I64) for count in (axis, rank - axis - 1)]
    parts = [part for part in (origin[0], place, origin[1]) if part.shape != (0,)]
    return parts[0] if len(parts) == 1 else ops.concat(*parts, axis=0)
