"""Leaves: values that come from outside (`input`, `param`) or are embedded (`constant`).

`Graph.input`, `Graph.param` and `Graph.constant` build them; they have no operands.
"""

from __future__ import annotations

from rlx.errors import GraphError, ShapeError
from rlx.ir.declaration import op
from rlx.ir.literal import Literal
from rlx.ir.op import Trait
from rlx.ir.shape import Dim
from rlx.ir.types import TensorType


@op("shape", Trait.LEAF, Trait.NAMED)
def input(*, name: str, type: TensorType) -> TensorType:
    """An array given at every call."""
    return _declared(name, type)


@op("shape", Trait.LEAF, Trait.NAMED, Trait.RESIDENT)
def param(*, name: str, type: TensorType) -> TensorType:
    """An array set once and kept between calls: a weight."""
    return _declared(name, type)


@op("shape", Trait.LEAF, Trait.RESIDENT)
def constant(*, value: Literal, structural: bool = False) -> TensorType:
    """An array embedded in the graph.

    Zeros of a `structural` one are absent entries, as those of a unit vector that a derivative is
    taken along: a product with one is zero, also where the other factor is NaN or infinite.
    Kernels may leave such products out.
    """
    del structural
    return value.type


def _declared(name: str, type: TensorType) -> TensorType:
    if not name:
        raise GraphError("the name is empty", remedy="name every input and param")
    for axis, extent in enumerate(type.shape):
        if isinstance(extent, Dim):
            continue
        if isinstance(extent, bool) or not isinstance(extent, int) or extent < 0:
            raise ShapeError(
                f"{name!r} has extent {extent!r} on axis {axis}; "
                "extents are nonnegative integers or Dims",
                remedy="give numbers of 0 or more, or rlx.Dim for a size known at the call",
            )
    return type
