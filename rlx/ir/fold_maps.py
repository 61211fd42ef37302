"""Fold maps: which elements of which operands an op folds into each element of its result.

A fold runs over the axes of the result and then over those that are folded away; each operand
is read at one position there:

    reduce_sum(x, axes=(1,))    over k:  [i]       <- x[i, k]
    matmul(a, b)                over k:  [b, i, j] <- a[b, i, k], b[b, k, j]

Batch axes, vector axes, the terms of loop nests, counts of operations and the letters of an
`Einsum` are derived from these declarations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from rlx.dataclass import dataclass
from rlx.ir.graph import Node
from rlx.ir.index_maps import Index, Position, along, broadcast
from rlx.ir.op import Attrs, OpDef, Trait
from rlx.ir.ops import linalg as ops
from rlx.ir.ops.reduction import reduced_axes
from rlx.ir.registry import Registry
from rlx.ir.shape import Shape


@dataclass(frozen=True, slots=True)
class FoldMap:
    """What a fold reads: a term has one element of each operand."""

    folded: Shape
    """The extents that are folded away."""
    positions: tuple[Position, ...]
    """Of each operand, over the axes of the result and then those of `folded`."""
    kept: int
    """The axes of the result."""

    def folded_axes(self, operand: int) -> tuple[int, ...]:
        """Return the axes of an operand that are folded away, in the order of `folded`."""
        axes = {index.axis: axis for axis, index in enumerate(self.positions[operand])}
        return tuple(axes[self.kept + number] for number in range(len(self.folded)))


FoldRule: TypeAlias = Callable[..., FoldMap]
folds: Registry[FoldRule] = Registry("fold map")
"""Rules `(operand shapes, result shape, **attributes) -> map` of products; reductions share one."""


def fold_map(node: Node) -> FoldMap | None:
    """Return what `node` folds, or None if it is no fold."""
    if node.op.has(Trait.REDUCTION):
        return _reduction(node.operands[0].shape, node.result.shape, reduced_axes(node))
    if node.op not in folds:
        return None
    return _product(node.op, node.attrs, tuple(x.shape for x in node.operands), node.result.shape)


@functools.lru_cache(maxsize=4096)  # loops ask for each element that they spell out
def _reduction(source: Shape, result: Shape, axes: tuple[int, ...]) -> FoldMap:
    rank = len(result) + len(axes)
    # Where the result keeps a folded axis, with extent 1, the operand is not read along it.
    stays = len(result) == len(source)
    outer = iter([at for at in range(len(result)) if not (stays and at in axes)])
    inner = iter(range(len(result), rank))
    places = [next(inner if axis in axes else outer) for axis in range(len(source))]
    return FoldMap(tuple(source[axis] for axis in axes), (_along(places, rank),), len(result))


@functools.lru_cache(maxsize=4096)
def _product(definition: OpDef, attrs: Attrs, shapes: tuple[Shape, ...], result: Shape) -> FoldMap:
    rule = folds.get(definition)
    assert rule is not None, "`fold_map` says so"
    return rule(shapes, result, **attrs.as_dict())


@folds(ops.matmul)
def matmul_map(sources: Sequence[Shape], result: Shape) -> FoldMap:
    a, b = sources
    rank = len(result) + 1
    *batch, row, column, inner = _along(range(rank), rank)

    def matrix(source: Shape, *last: Index) -> Position:
        return (*broadcast(tuple(batch), source[:-2], rank), *last)

    return FoldMap(a[-1:], (matrix(a, row, inner), matrix(b, inner, column)), rank - 1)


@folds(ops.dot_general)
def dot_general_map(
    sources: Sequence[Shape],
    result: Shape,
    *,
    lhs_contracting: tuple[int, ...],
    rhs_contracting: tuple[int, ...],
    lhs_batch: tuple[int, ...],
    rhs_batch: tuple[int, ...],
) -> FoldMap:
    a, b = sources
    rank = len(result) + len(lhs_contracting)
    outer, inner = iter(range(len(lhs_batch), len(result))), range(len(result), rank)

    def places(source: Shape, batch: Sequence[int], contracting: Sequence[int]) -> list[int]:
        known = dict(zip((*batch, *contracting), (*range(len(batch)), *inner), strict=True))
        return [known[axis] if axis in known else next(outer) for axis in range(len(source))]

    left = places(a, lhs_batch, lhs_contracting)
    right = places(b, rhs_batch, rhs_contracting)
    folded = tuple(a[axis] for axis in lhs_contracting)
    return FoldMap(folded, (_along(left, rank), _along(right, rank)), len(result))


def _along(axes: Iterable[int], rank: int) -> Position:
    return tuple(along(axis, rank) for axis in axes)
