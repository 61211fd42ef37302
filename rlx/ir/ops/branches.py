"""`cond`: a branch between two programs by one bool, or a choice by element for several."""

from __future__ import annotations

from rlx.errors import GraphError, ShapeError
from rlx.ir.captures import Captures
from rlx.ir.declaration import op
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.op import Trait
from rlx.ir.ops.elementwise import ne, where
from rlx.ir.ops.loops import require_branch, require_inputs, switch
from rlx.ir.shape import broadcast_shapes
from rlx.ir.types import TensorType

_FAMILY = "control"


def _picked(predicate: Value, *operands: Value, then: Graph, orelse: Graph) -> tuple[Value, ...]:
    """A `switch` on one element; both branches and a `where` on several."""
    holds = predicate if predicate.dtype is DType.BOOL else ne(predicate, 0)
    if predicate.type.elements == 1:
        return switch(holds, *operands, branches=(orelse, then))
    graph = predicate.graph
    pairs = zip(graph.inline(then, operands), graph.inline(orelse, operands), strict=True)
    return tuple(where(holds, taken, other) for taken, other in pairs)


@op(
    _FAMILY,
    Trait.ALL_ELEMENTS,
    decompose=_picked,
    captures=Captures(("then", "orelse"), leading=1),
)
def cond(
    predicate: TensorType, *operands: TensorType, then: Graph, orelse: Graph
) -> tuple[TensorType, ...]:
    """Return `then(operands)` where the predicate holds, else `orelse(operands)`.

    An element holds if it is not equal to 0: NaN does, -0.0 does not. With one element only the
    branch taken is computed; several pick element by element, broadcast to each result, and both
    branches are computed.
    """
    require_inputs(then, operands)
    require_inputs(orelse, operands)
    results = tuple(output.type for output in then.outputs)
    if not results:
        raise GraphError("the branches return nothing", remedy="return a value from both")
    require_branch(orelse, then, results)
    for position, type in enumerate(results):
        if predicate.elements != 1:
            _require_spread(predicate, type, position)
    return results


def _require_spread(predicate: TensorType, result: TensorType, position: int) -> None:
    try:
        fits = broadcast_shapes(predicate.shape, result.shape) == result.shape
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(
            f"the predicate has shape {predicate.describe_shape()}, which does not broadcast to "
            f"result {position}, of shape {result.describe_shape()}",
            remedy="give a predicate of one element, or of the shape of the results",
        )


__all__ = ["cond"]
