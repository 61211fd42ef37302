"""Ops that say when something is computed, not what: rematerialization.

checkpoint   a sub-program whose intermediates are not kept for the backward pass
barrier      an operand, but not before others are computed
"""

from __future__ import annotations

from rlx.errors import GraphError
from rlx.ir.graph import Graph, Value
from rlx.ir.op import Trait, op
from rlx.ir.types import TensorType

_FAMILY = "control"


def _inline(*operands: Value, body: Graph) -> tuple[Value, ...]:
    """The nodes of the body, one by one."""
    return operands[0].graph.inline(body, operands)


@op(_FAMILY, Trait.WHOLE, decompose=_inline)
def checkpoint(*operands: TensorType, body: Graph) -> tuple[TensorType, ...]:
    """Apply `body`, whose inputs bind to the operands in order; it has no params.

    The reverse-mode derivative runs the body again instead of keeping what it computed.
    """
    expected = tuple(value.type for value in body.inputs)
    if operands != expected:
        given, takes = (", ".join(map(str, types)) for types in (operands, expected))
        raise GraphError(
            f"operands of types {given} do not fit body {body.name!r}: it takes {takes}",
            remedy="cast or reshape the operands, or build the body for their types",
        )
    if body.params:
        raise GraphError(
            f"body {body.name!r} has params",
            remedy="pass them into the body as operands",
        )
    return tuple(output.type for output in body.outputs)


@op(_FAMILY, Trait.VIEW)
def barrier(x: TensorType, *dependencies: TensorType) -> TensorType:
    """`x` itself, available only once `dependencies` are computed.

    What reads it is scheduled after them, and is no common subexpression with what reads `x`.
    """
    return x
