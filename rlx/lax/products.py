"""Products over named axes, and of groups of rows, with JAX's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.dataclass import dataclass
from rlx.errors import InputError, UnsupportedError
from rlx.ir import ops
from rlx.numpy import cumulative, elementwise, shaping
from rlx.numpy.axes import static_shape
from rlx.numpy.products import summed_in
from rlx.runtime.arrays import Array
from rlx.tracing.apply import emit, function, promoted


@function
def dot(
    lhs: Any,
    rhs: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    dimension_numbers: Any = None,
) -> Array:
    """The product of vectors and matrices, or with `dimension_numbers` that of `dot_general`."""
    if dimension_numbers is not None:
        found: Any = dot_general(lhs, rhs, dimension_numbers, None, preferred_element_type)
        return found
    lhs, rhs = summed_in(preferred_element_type, lhs, rhs)
    return _preferred(rnp.dot(lhs, rhs), preferred_element_type)


@function
def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Array:
    """The products of matrices."""
    return rnp.matmul(lhs, rhs)


@function
def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Sum products over paired axes, apart for paired batch axes."""
    try:
        (left, right), (left_batch, right_batch) = dimension_numbers
    except (TypeError, ValueError):
        raise InputError(
            f"dimension_numbers is {dimension_numbers!r}",
            remedy="pass ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))",
        ) from None
    lhs, rhs = summed_in(preferred_element_type, lhs, rhs)
    found = emit(
        ops.dot_general, *promoted([lhs, rhs]), lhs_contracting=tuple(left),
        rhs_contracting=tuple(right), lhs_batch=tuple(left_batch), rhs_batch=tuple(right_batch),
    )  # fmt: skip
    return _preferred(found, preferred_element_type)


def _preferred(x: Any, dtype: Any) -> Any:
    return x if dtype is None else elementwise.astype(x, dtype)


@function
def ragged_dot(
    lhs: Any, rhs: Any, group_sizes: Any, precision: Any = None,
    preferred_element_type: Any = None, group_offset: Any = None,
) -> Array:  # fmt: skip
    """`lhs[i] @ rhs[group of row i]`: (m, k) by (g, k, n); rows after all groups are zeros.

    The first `group_sizes[0]` rows are of group 0, and so on.
    """
    if group_offset is not None:
        raise UnsupportedError("ragged_dot has no group_offset", remedy="pass the groups' part")
    lhs, rhs = promoted(summed_in(preferred_element_type, lhs, rhs))
    count, bounds = static_shape(rhs)[0], _bounds(group_sizes)
    if lhs.value.dtype.is_float:
        return _preferred(emit(ops.ragged_matmul, lhs, rhs, bounds), preferred_element_type)
    rows = rnp.arange(static_shape(lhs)[0])
    group = rnp.searchsorted(bounds[1:], rows, side="right")
    total = rnp.zeros((static_shape(lhs)[0], static_shape(rhs)[2]), lhs.dtype)
    for place in range(count):
        mine = shaping.expand_dims(elementwise.equal(group, place), -1)
        total = total + rnp.matmul(elementwise.where(mine, lhs, 0), rhs[place])
    return _preferred(total, preferred_element_type)


def _bounds(sizes: Any) -> Any:
    """Return where each group starts, and where the last stops; a negative size is refused."""
    sizes = rnp.asarray(sizes)
    with sizes.value.graph.scope("ragged_dot, group_sizes"):
        sizes = sizes + emit(ops.gather, rnp.zeros(1, sizes.dtype), rnp.minimum(sizes, 0), axis=0)
    return rnp.concatenate([rnp.zeros(1, "int64"), rnp.cumsum(sizes, dtype="int64")])


@dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """Which axes `ragged_dot_general` pairs, divides into groups, and finds the groups along."""

    dot_dimension_numbers: Any
    """`((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`."""
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


@function
def ragged_dot_general(
    lhs: Any, rhs: Any, group_sizes: Any,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers, precision: Any = None,
    preferred_element_type: Any = None, group_offset: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Sum products over paired axes, apart for groups of positions along the ragged axis of `lhs`.

    A group of a free axis has its part of `rhs` along the group axis; one of a contracted axis
    has a sum of its own, in front of the result. Sizes are `[g]`, or have the axes in front that
    are batched, and then those of the ragged axis's kind that come before it.

    Products of float matrices without batch axes are computed group by group. Others are products
    with a mask of the groups: as many times the work as there are groups.
    """
    if group_offset is not None:
        raise UnsupportedError("there is no group_offset", remedy="pass the groups' part")
    numbers = ragged_dot_dimension_numbers
    (left, right), (left_batch, right_batch) = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    paired = ((left, right), (left_batch, right_batch))
    if ragged in left_batch:
        return dot_general(lhs, rhs, paired, precision, preferred_element_type)
    lhs, rhs = promoted(summed_in(preferred_element_type, lhs, rhs))
    ranks = (lhs.ndim, rhs.ndim)
    if ranks == (2, 2 + (ragged not in left)) and not left_batch and lhs.value.dtype.is_float:
        found = _of_matrices(lhs, rhs, _bounds(group_sizes), numbers)
        return _preferred(found, preferred_element_type)
    if ragged in left:
        before = [*left_batch, *left[: left.index(ragged)]]
        lhs = _by_groups(lhs, group_sizes, before, ragged)
        rhs = shaping.broadcast_to(rhs, (static_shape(lhs)[0], *static_shape(rhs)))
        batches = [0, *_shifted_axes(left_batch)], [0, *_shifted_axes(right_batch)]
        paired = (_shifted_axes(left), _shifted_axes(right)), batches
    else:
        free = [a for a in range(lhs.ndim) if a not in left and a not in left_batch]
        before = [*left_batch, *free[: free.index(ragged)]]
        lhs = _by_groups(lhs, group_sizes, before, ragged)
        (groups,) = numbers.rhs_group_dimensions
        paired = (
            ([*_shifted_axes(left), 0], [*right, groups]),
            (_shifted_axes(left_batch), right_batch),
        )
    return dot_general(lhs, rhs, paired, precision, preferred_element_type)


def _of_matrices(lhs: Any, rhs: Any, bounds: Any, numbers: RaggedDotDimensionNumbers) -> Any:
    """Return the product of matrices: rows of groups by their matrices, or sums over groups."""
    ((left,), (right,)), _ = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    rows = lhs if ragged == 0 else shaping.transpose(lhs)
    if ragged == left:
        columns = rhs if right == 0 else shaping.transpose(rhs)
        return emit(ops.ragged_outer, rows, columns, bounds)
    (group,) = numbers.rhs_group_dimensions
    order = (group, right, 3 - group - right)
    return emit(ops.ragged_matmul, rows, shaping.transpose(rhs, order), bounds)


def _shifted_axes(axes: Sequence[int]) -> list[int]:
    """Return `axes` once an axis has come in front."""
    return [axis + 1 for axis in axes]


def _by_groups(x: Any, sizes: Any, before: Sequence[int], ragged: int) -> Any:
    """Return a copy of `x` for each group, in front, that is zero outside of the group.

    The axes of the sizes but the last are the axes `before` of `x`.
    """
    extents = static_shape(x)
    sizes = shaping.broadcast_to(sizes, (*(extents[a] for a in before), rnp.shape(sizes)[-1]))
    order = [len(before), *np.argsort(before).tolist()]
    shape = (sizes.shape[-1], *(e if a in before else 1 for a, e in enumerate(extents)))
    ends, counts = (
        shaping.reshape(shaping.transpose(each, order), shape)
        for each in (cumulative.cumsum(sizes, -1), sizes)
    )
    along = [-1 if a == ragged else 1 for a in range(len(extents))]
    positions = np.arange(extents[ragged]).reshape(along)
    inside = elementwise.logical_and(
        elementwise.less_equal(ends - counts, positions), elementwise.less(positions, ends)
    )
    return elementwise.where(inside, x, 0)
