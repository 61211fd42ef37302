"""Products over named axes, and of groups of rows, with JAX's arguments."""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx.errors import UnsupportedError
from rlx.ir import ops
from rlx.numpy import cumulative, elementwise, shaping
from rlx.numpy.axes import static_shape
from rlx.tracing.apply import emit, function, promoted


@function
def dot(lhs: Any, rhs: Any, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The product of vectors and matrices."""
    del precision
    return _preferred(rnp.dot(lhs, rhs), preferred_element_type)


@function
def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Any:
    """The products of matrices."""
    del precision
    return rnp.matmul(lhs, rhs)


@function
def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Sum products over paired axes, apart for paired batch axes."""
    del precision
    (left, right), (left_batch, right_batch) = dimension_numbers
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
) -> Any:  # fmt: skip
    """`lhs[i] @ rhs[group of row i]`: (m, k) by (g, k, n); rows behind all groups are zeros.

    The first `group_sizes[0]` rows are of group 0, and so on.
    """
    del precision
    if group_offset is not None:
        raise UnsupportedError("ragged_dot has no group_offset", remedy="pass the groups' part")
    lhs, rhs = promoted([lhs, rhs])
    count = static_shape(rhs)[0]
    ends = cumulative.cumsum(group_sizes)
    rows = rnp.arange(static_shape(lhs)[0])
    group = rnp.searchsorted(ends, rows, side="right")
    inside = shaping.expand_dims(elementwise.less(group, count), -1)
    if lhs.value.dtype.is_float:
        group = rnp.astype(elementwise.minimum(group, count - 1), "int64")
        found = emit(ops.grouped_matmul, lhs, rhs, group)
        return _preferred(elementwise.where(inside, found, 0), preferred_element_type)
    total = rnp.zeros((static_shape(lhs)[0], static_shape(rhs)[2]), lhs.dtype)
    for place in range(count):
        mine = shaping.expand_dims(elementwise.equal(group, place), -1)
        total = total + rnp.matmul(elementwise.where(mine, lhs, 0), rhs[place])
    return _preferred(total, preferred_element_type)
