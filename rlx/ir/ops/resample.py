"""Weighted sums of elements at given positions along one axis: what resizing is made of."""

from __future__ import annotations

import functools
import operator

from rlx.errors import ShapeError
from rlx.ir.composite import composite
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.elementwise import mul
from rlx.ir.ops.indexing import gather
from rlx.ir.ops.precision import in_single_precision
from rlx.ir.ops.requirements import require_dtype, require_rank, require_same_dtype
from rlx.ir.ops.shape import narrow, reshape
from rlx.ir.shape import normalize_axis


@composite("resize", Trait.INDEXED_READ, Trait.MAY_FAULT, Trait.EPILOGUE)
@in_single_precision
def resample(x: Value, indices: Value, weights: Value, *, axis: int) -> Value:
    """Make element `j` along `axis` the sum of `x` at `indices[t, j]` times `weights[t, j]`.

    Terms are added in ascending order of `t`. An index outside of the axis is an error.
    """
    require_dtype(x.type, "float", "x")
    require_same_dtype(x.type, weights.type)
    require_dtype(indices.type, "index", "indices")
    require_rank(x.type, 1, "x")
    own = normalize_axis(axis, x.rank)
    taps = indices.shape[0] if indices.rank == 2 else 0
    if not isinstance(taps, int) or taps < 1 or indices.shape != weights.shape:
        raise ShapeError(
            f"indices has shape {indices.type.describe_shape()} and weights "
            f"{weights.type.describe_shape()}; both must be [taps, size] with 1 tap or more",
            remedy="give one row of positions and one of weights per term",
        )
    size = indices.shape[1]
    column = (size, *(1,) * (x.rank - 1 - own))

    def row(table: Value, tap: int) -> Value:
        return narrow(table, axis=0, start=tap, length=1)

    return functools.reduce(
        operator.add,
        (
            mul(
                gather(x, reshape(row(indices, tap), shape=(size,)), axis=own),
                reshape(row(weights, tap), shape=column),
            )
            for tap in range(taps)
        ),
    )
