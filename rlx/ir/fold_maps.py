"""Fold maps: which elements of which operands an op folds into each element of its result.

A fold runs over the axes of the result and then over those that are folded away; each operand
is read at one position there:

    reduce_sum(x, axes=(1,))    over k:  [i]       <- x[i, k]
    matmul(a, b)                over k:  [b, i, j] <- a[b, i, k], b[b, k, j]
    conv(x, w, stride=2)        over c, t:  [n, o, i] <- x[n, c, 2 * i + t], w[o, c, t]

Batch axes, vector axes, the terms of loop nests, counts of operations, the letters of an
`Einsum` and the addresses of kernels are derived from these declarations. `fold_map` returns those
whose operands are read along whole axes; `contraction_map` also returns those of windows, which may
reach outside of an operand, and of products of words, which hold several elements.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, TypeAlias

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.declaration import takes
from rlx.ir.graph import Node
from rlx.ir.index_maps import Index, Position, along, broadcast
from rlx.ir.op import Attrs, OpDef, Trait
from rlx.ir.ops.conv_geometry import ConvAttributes, Geometry
from rlx.ir.ops.reduction import reduced_axes
from rlx.ir.registry import Registry
from rlx.ir.shape import Shape, floor_divide


class Combine(Enum):
    """What a contraction adds to a sum for one element of each operand."""

    PRODUCT = "product"
    BYTES = "bytes"
    """The products of the four bytes of words."""
    BF16 = "bf16"
    """The products of the two bf16 of words."""

    @property
    def products(self) -> int:
        """The number of products."""
        return {Combine.PRODUCT: 1, Combine.BYTES: 4, Combine.BF16: 2}[self]


@dataclass(frozen=True, slots=True)
class FoldMap:
    """What a fold reads: a term has one element of each operand."""

    folded: Shape
    """The extents that are folded away."""
    positions: tuple[Position, ...]
    """Of each operand, over the axes of the result and then those of `folded`."""
    outer: Shape
    """The extents that are not folded: the result's shape, with axes split where positions are
    affine only then (a channel into its group and its number there)."""
    split: int | None = None
    """The axis of the result that `outer` has in two; None if there is none."""
    spacing: tuple[int, ...] = ()
    """Of each axis of the first operand: its elements are so far apart, with zeros between and
    around them. Empty if every position is that of an element."""
    combine: Combine = Combine.PRODUCT
    """What a contraction adds; the fold of a reduction is its op's."""
    is_grouped: bool = False
    """True if the first outer axis counts groups of rows, and is no axis of the result."""

    @property
    def kept(self) -> int:
        """The number of axes that are not folded."""
        return len(self.outer)

    @property
    def result(self) -> Position:
        """The position in the result, over the same axes as those of the operands."""
        here = list(_along(range(self.kept), self.kept + len(self.folded)))
        if self.split is not None:
            outer, inner = here[self.split : self.split + 2]
            merged = outer.scaled(self.outer[self.split + 1]).plus(inner)
            here[self.split : self.split + 2] = [merged]
        return tuple(here[self.is_grouped :])

    def folded_axes(self, operand: int) -> tuple[int, ...]:
        """Return the axes of an operand that are folded away, in the order of `folded`."""
        axes = {index.axis: axis for axis, index in enumerate(self.positions[operand])}
        return tuple(axes[self.kept + number] for number in range(len(self.folded)))


FoldRule: TypeAlias = Callable[..., FoldMap]
folds: Registry[FoldRule] = Registry("fold map")
"""Rules `(operand shapes, result shape, **attributes) -> map` of products; reductions share one."""


contractions: Registry[FoldRule] = Registry("contraction map")
"""The same of contractions that are no folds of whole axes, or whose elements are words."""


def contraction_map(node: Node) -> FoldMap | None:
    """Return what a contraction sums products of, or None if `node` is none."""
    if node.op not in folds and node.op not in contractions:
        return None
    shapes = tuple(x.shape for x in node.operands)
    return _product(node.op, node.attrs, shapes, node.result.shape)


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
    return FoldMap(tuple(source[axis] for axis in axes), (_along(places, rank),), result)


@functools.lru_cache(maxsize=4096)
def _product(
    definition: OpDef, attrs: Attrs, shapes: tuple[Shape, ...], result: Shape
) -> FoldMap | None:
    rule = folds.get(definition) or contractions.get(definition)
    return None if rule is None else rule(shapes, result, **attrs.as_dict())


@folds(ops.matmul)
def matmul_map(sources: Sequence[Shape], result: Shape) -> FoldMap:
    a, b = sources
    rank = len(result) + 1
    *batch, row, column, inner = _along(range(rank), rank)

    def matrix(source: Shape, *last: Index) -> Position:
        return (*broadcast(tuple(batch), source[:-2], rank), *last)

    return FoldMap(a[-1:], (matrix(a, row, inner), matrix(b, inner, column)), result)


@contractions(ops.stored_matmul)
def stored_matmul_map(
    sources: Sequence[Shape], result: Shape, *, left: bool, right: bool, elements: str
) -> FoldMap:
    a, b = (
        (*shape[:-2], shape[-1], shape[-2]) if swapped else shape
        for shape, swapped in zip(sources, (left, right), strict=True)
    )
    found = matmul_map((a, b), result)
    (*batch, row, inner), right_position = found.positions
    left_position = (*batch, inner, row) if left else (*batch, row, inner)
    *batch, inner, column = right_position
    right_position = (*batch, column, inner) if right else right_position
    positions = left_position, right_position
    return replace(found, positions=positions, combine=_combine_of(elements))


def _combine_of(elements: str) -> Combine:
    """Return what is added for elements of operands, as they are stored."""
    return {"bytes": Combine.BYTES, "bf16": Combine.BF16}.get(elements, Combine.PRODUCT)


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
    return FoldMap(folded, (_along(left, rank), _along(right, rank)), result)


@contractions(ops.conv)
@takes(ConvAttributes)
def conv_map(sources: Sequence[Shape], result: Shape, window: ConvAttributes) -> FoldMap:
    """Over `[n, group, o, *positions]` and `[c, *taps]`."""
    x, w = sources
    axes = len(x) - 2
    images, channels, *positions = result
    split = (images, window.groups, floor_divide(channels, window.groups), *positions)
    rank = len(split) + len(w) - 1
    n, group, output, *places = _along(range(len(split)), rank)
    inner, *taps = _along(range(len(split), rank), rank)
    spatial = _windows(places, taps, window.sliding(len(x)))
    return FoldMap(
        w[1:],
        (
            (n, group.scaled(w[1]).plus(inner), *spatial),
            (group.scaled(split[2]).plus(output), inner, *taps),
        ),
        split,
        1,
        (1, 1, *window.input_dilation) if window.input_dilation else (1,) * (axes + 2),
    )


@takes(ConvAttributes)
def _channels_last_map(sources: Sequence[Shape], result: Shape, window: ConvAttributes) -> FoldMap:
    """Over `[n, *positions, group, o]` and `[*taps, c]`."""
    x, w = sources
    axes = len(x) - 2
    *outer, channels = result
    split = (*outer, window.groups, floor_divide(channels, window.groups))
    rank = len(split) + len(w) - 1
    n, *places, group, output = _along(range(len(split)), rank)
    *taps, inner = _along(range(len(split), rank), rank)
    spatial = _windows(places, taps, window.sliding(len(x)))
    return FoldMap(
        w[:-1],
        (
            (n, *spatial, group.scaled(w[-2]).plus(inner)),
            (*taps, inner, group.scaled(split[-1]).plus(output)),
        ),
        split,
        axes + 1,
        (1, *window.input_dilation, 1) if window.input_dilation else (1,) * (axes + 2),
    )


@contractions(ops.stored_conv)
def stored_conv_map(
    sources: Sequence[Shape], result: Shape, *, elements: str, channels_last: bool, **window: Any
) -> FoldMap:
    by_order = _channels_last_map if channels_last else conv_map
    return replace(by_order(sources, result, **window), combine=_combine_of(elements))


def _windows(places: Iterable[Index], taps: Iterable[Index], sliding: Geometry) -> Position:
    """Return the element of each axis that a tap of a window is, counted with the zeros between."""
    return tuple(
        place.scaled(axis.stride).plus(tap.scaled(axis.dilation)).shifted(-axis.low)
        for place, tap, axis in zip(places, taps, sliding, strict=True)
    )


def _along(axes: Iterable[int], rank: int) -> Position:
    return tuple(along(axis, rank) for axis in axes)
