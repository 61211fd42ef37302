"""Canonicalization of ops that move elements: compose them, or see that they move nothing."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Node, Value
from rlx.ir.op import Trait
from rlx.ir.ops.reduction import reduced_axes
from rlx.ir.shape import Extent
from rlx.passes.rewrite import LocalRewrite, rewrite

_MAY_BE_IDENTITY = (ops.reshape, ops.expand, ops.narrow, ops.slice, ops.pad)


@rewrite(*_MAY_BE_IDENTITY)
def movement_to_same_shape(node: Node) -> Value | None:
    """Of these ops only the identity keeps the shape (a slice may not skip and still fill it)."""
    operand = node.operands[0]
    return operand if operand.type == node.result.type else None


@rewrite(ops.concat)
def concat_of_one(node: Node) -> Value | None:
    return node.operands[0] if len(node.operands) == 1 else None


@rewrite(ops.concat)
def concat_with_empty(node: Node) -> Value | None:
    axis = node.attribute("axis")
    kept = [operand for operand in node.operands if operand.shape[axis] != 0]
    if len(kept) in (0, len(node.operands)):
        return None
    return ops.concat(*kept, axis=axis)


@rewrite(ops.reshape)
def reshape_of_reshape(node: Node) -> Value | None:
    """A trivial reshape in between counts, too: row-major order is kept by all of them."""
    inner = node.operands[0]
    if inner.op is not ops.reshape:
        return None
    return ops.reshape(inner.node.operands[0], shape=node.result.shape)


@rewrite(ops.expand)
def expand_of_expand(node: Node) -> Value | None:
    inner = node.operands[0]
    if inner.op is not ops.expand:
        return None
    return ops.expand(inner.node.operands[0], shape=node.result.shape)


@rewrite(ops.expand)
def expand_by_ones_alone(node: Node) -> Value | None:
    operand = node.operands[0]
    added = len(node.result.shape) - operand.rank
    if (1,) * added + operand.shape != node.result.shape:
        return None
    return ops.reshape(operand, shape=node.result.shape)


@rewrite(ops.transpose)
def transpose_that_keeps_order(node: Node) -> Value | None:
    """Moving axes of extent 1 moves no element."""
    perm = node.attribute("perm")
    operand = node.operands[0]
    if perm == tuple(range(operand.rank)):
        return operand
    moved = [axis for axis in perm if operand.shape[axis] != 1]
    if moved != sorted(moved):
        return None
    return ops.reshape(operand, shape=node.result.shape)


@rewrite(ops.transpose)
def transpose_of_transpose(node: Node) -> Value | None:
    inner = node.operands[0]
    if inner.op is not ops.transpose:
        return None
    first = inner.node.attribute("perm")
    perm = tuple(first[axis] for axis in node.attribute("perm"))
    return ops.transpose(inner.node.operands[0], perm=perm)


@rewrite(ops.narrow)
def narrow_of_narrow(node: Node) -> Value | None:
    inner = node.operands[0]
    rank = inner.rank
    axis = node.attribute("axis") % rank
    if inner.op is not ops.narrow or inner.node.attribute("axis") % rank != axis:
        return None
    start = inner.node.attribute("start") + node.attribute("start")
    return ops.narrow(
        inner.node.operands[0], axis=axis, start=start, length=node.attribute("length")
    )


@rewrite(ops.narrow)
def narrow_of_concat(node: Node) -> Value | None:
    """A part that is exactly one of the joined tensors is that tensor."""
    inner = node.operands[0]
    if inner.op is not ops.concat:
        return None
    axis = node.attribute("axis") % inner.rank
    if inner.node.attribute("axis") % inner.rank != axis:
        return None
    at: Extent = 0
    for part in inner.node.operands:
        if at == node.attribute("start") and part.type == node.result.type:
            return part
        at = at + part.shape[axis]
    return None


@rewrite(ops.slice)
def slice_of_one_axis(node: Node) -> Value | None:
    """Consecutive elements of one axis are a narrow, which later passes know."""
    operand = node.operands[0]
    if any(step != 1 for step in node.attribute("step")):
        return None
    axes = [axis for axis, extent in enumerate(operand.shape) if node.result.shape[axis] != extent]
    if len(axes) != 1:
        return None
    (axis,) = axes
    return ops.narrow(
        operand,
        axis=axis,
        start=node.attribute("start")[axis],
        length=node.result.shape[axis],
    )


@rewrite(ops.reverse)
def reverse_of_nothing(node: Node) -> Value | None:
    operand = node.operands[0]
    axes = node.attribute("axes")
    return operand if all(operand.shape[axis] == 1 for axis in axes) else None


@rewrite(ops.reverse)
def reverse_of_reverse(node: Node) -> Value | None:
    inner = node.operands[0]
    if inner.op is not ops.reverse or _axes(inner.node) != _axes(node):
        return None
    return inner.node.operands[0]


@rewrite(having=Trait.REDUCTION)
def reduction_of_one_element(node: Node) -> Value | None:
    """A fold of one element is the element; sums begin with 0.0, which makes 0.0 of -0.0."""
    if node.op.has(Trait.SEARCH):
        return None
    operand = node.operands[0]
    if any(operand.shape[axis] != 1 for axis in reduced_axes(node)):
        return None
    element = ops.reshape(operand, shape=node.result.shape)
    is_sum = node.op is ops.reduce_sum or node.op is ops.reduce_mean
    return element + 0.0 if is_sum and not operand.dtype.is_int else element


def _axes(node: Node) -> frozenset[int]:
    return frozenset(axis % node.operands[0].rank for axis in node.attribute("axes"))


MOVEMENT: tuple[LocalRewrite, ...] = (
    movement_to_same_shape,
    concat_of_one,
    concat_with_empty,
    reshape_of_reshape,
    expand_of_expand,
    expand_by_ones_alone,
    transpose_that_keeps_order,
    transpose_of_transpose,
    narrow_of_narrow,
    narrow_of_concat,
    slice_of_one_axis,
    reverse_of_nothing,
    reverse_of_reverse,
    reduction_of_one_element,
)
