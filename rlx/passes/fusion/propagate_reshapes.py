"""Reshape propagation: reshapes sink below elementwise ops, which can then fuse with a product."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.shape import Shape
from rlx.passes.rewrite import Rewritten, apply_rewrites, graph_pass, rewrite
from rlx.passes.rewrites.simplify_shape import MOVEMENT

_LONGEST_EPILOGUE = 8
"""Elementwise ops after a product that are looked through."""


@graph_pass
def propagate_reshapes(graph: Graph) -> Rewritten:
    """Compute elementwise ops at the lower rank of what they read through a reshape.

    A product whose leading axes are merged is seen by bias, activation and residual through a
    reshape that would keep them out of its epilogue.

        %2: f32[32, 4] = matmul %0, %1
        %3: f32[2, 16, 4] = reshape %2          ->  %3: f32[32, 4] = add %2, %bias
        %4: f32[2, 16, 4] = add %3, %bias           %4: f32[2, 16, 4] = reshape %3

    The product of a vector has a row that its readers lack; they are computed with it.
    """
    return apply_rewrites(graph, (_sink, *MOVEMENT))


def _reads_reshaped(node: Node) -> bool:
    return any(operand.op is ops.reshape for operand in node.operands)


@rewrite(having=Trait.ELEMENTWISE, when=_reads_reshaped)
def _sink(node: Node) -> Value | None:
    """Compute an elementwise op at the shape that an operand has before its reshape.

    This ends: each time the rank of the op falls, or it is fused with a product.
    """
    if node.op.has(Trait.VIEW) or len(node.results) != 1:
        return None
    for operand in node.operands:
        source = operand.node.operands[0] if operand.op is ops.reshape else None
        if source is None or operand.shape != node.result.shape:
            continue
        if source.rank >= operand.rank:
            found = _lacks_units_of(operand, source) and _follows_product(source)
        elif any(map(_follows_product, node.operands)):
            found = False  # at this shape it is fused with that product
        else:
            found = source.op.has(Trait.ELEMENTWISE) or source.op.has(Trait.EPILOGUE)
        if found:
            return _at_shape(node, source.shape)
    return None


def _lacks_units_of(operand: Value, source: Value) -> bool:
    """True if a reshape only drops axes of extent 1, as after the product of a vector."""
    kept = tuple(extent for extent in source.shape if extent != 1)
    return source.rank > operand.rank and kept == operand.shape


def _follows_product(value: Value) -> bool:
    """True for a product and for the result of a chain of elementwise ops on one."""
    seen = 0
    while value.op.has(Trait.ELEMENTWISE) and seen < _LONGEST_EPILOGUE:
        alike = (operand for operand in value.node.operands if operand.shape == value.shape)
        first = next(alike, None)
        if first is None:
            return False
        value, seen = first, seen + 1
    return value.op.has(Trait.CONTRACTION) and value.op.has(Trait.EPILOGUE)


def _at_shape(node: Node, shape: Shape) -> Value | None:
    """Return `node` computed at `shape` and reshaped back, or None if an operand does not fit."""
    operands: list[Value] = []
    for operand in node.operands:
        wanted = reshaped_broadcast(operand.shape, node.result.shape, shape)
        if wanted is None:
            return None
        view: Value = operand if wanted == operand.shape else ops.reshape(operand, shape=wanted)
        operands.append(view)
    graph = node.result.graph
    (computed,) = graph.append(node.op, operands, node.attrs, scope=node.scope)
    if computed.shape != shape:
        return None
    return ops.reshape(computed, shape=node.result.shape)


def reshaped_broadcast(operand: Shape, full: Shape, target: Shape) -> Shape | None:
    """Return the shape to which `operand`, which broadcasts to `full`, is reshaped for `target`.

    `target` is a reshape of `full`. None if the operand varies along an axis that is merged or
    split, and not along all of it.
    """
    if operand == full:
        return target
    padded = (1,) * (len(full) - len(operand)) + operand
    if all(extent == 1 for extent in padded):
        return ()
    if 0 in full:
        return None  # which axes are merged shows in products of extents, and these are 0
    kept = _common_suffix(full, target)
    if all(extent == 1 for extent in padded[: len(padded) - kept]):
        return padded[len(padded) - kept :]
    if tuple(extent for extent in full if extent != 1) == target:
        return tuple(own for own, extent in zip(padded, full, strict=True) if extent != 1)
    return _between(padded, full, target, kept)


def _between(operand: Shape, full: Shape, target: Shape, kept: int) -> Shape | None:
    """Return the shape that an operand has after the axes between common ones were reshaped.

    It must have all of these axes, or extent 1 along all; else None. The last `kept` are common.
    """
    first = _common_suffix(full[: len(full) - kept][::-1], target[: len(target) - kept][::-1])
    last, end = len(full) - kept, len(target) - kept
    own = operand[first:last]
    if own == full[first:last]:
        changed = target[first:end]
    elif all(extent == 1 for extent in own):
        changed = (1,) * (end - first)
    else:
        return None
    return (*operand[:first], *changed, *operand[last:])


def _common_suffix(a: Shape, b: Shape) -> int:
    count = 0
    for left, right in zip(reversed(a), reversed(b), strict=False):
        if left != right:
            break
        count += 1
    return count
