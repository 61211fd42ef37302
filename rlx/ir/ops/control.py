"""Ops of scheduling and control: rematerialization, barriers, checks.

checkpoint   a sub-program whose intermediates are not kept for the backward pass
named        an operand, by a name that a checkpoint policy refers to
barrier      an operand, but not before others are computed
check        nothing, but it ends the run where something does not hold
"""

from __future__ import annotations

from rlx.errors import GraphError
from rlx.ir.composite import composite
from rlx.ir.declaration import op
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.op import Trait
from rlx.ir.ops.requirements import require_dtype, require_shape
from rlx.ir.types import TensorType

_FAMILY = "control"


def _inline(*operands: Value, body: Graph, kept: int = 0) -> tuple[Value, ...]:
    """The nodes of the body, one by one."""
    return operands[0].graph.inline(body, operands)


@op(_FAMILY, Trait.ALL_ELEMENTS, decompose=_inline)
def checkpoint(*operands: TensorType, body: Graph, kept: int = 0) -> tuple[TensorType, ...]:
    """Apply `body`, whose inputs bind to the operands in order; it has no params.

    The reverse-mode derivative runs the body again instead of keeping what it computed, but for
    the last `kept` results, which are values that it keeps.
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


@composite(_FAMILY, Trait.ELEMENTWISE)
def named(x: Value, *, name: str) -> Value:
    """`x` itself; policies of `checkpoint` may ask for `name`."""
    return x


@op(_FAMILY, Trait.VIEW)
def barrier(x: TensorType, *dependencies: TensorType) -> TensorType:
    """`x` itself, available only once `dependencies` are computed.

    What reads it is scheduled after them, and is no common subexpression with what reads `x`.
    """
    return x


@op(_FAMILY, Trait.VIEW)
def refuse_derivative(x: TensorType, *, because: str) -> TensorType:
    """`x` itself; a derivative through it is an error, which says `because`."""
    return x


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.MAY_FAULT, Trait.FOREIGN, Trait.IMPURE, Trait.EFFECT)
def check(failed: TensorType, *values: TensorType, report: int) -> TensorType:
    """End the run where `failed`, one bool, holds, with the error that `ir.reports` keeps.

    The report of that number formats the `values`. The result is 0, a value for what depends on
    the check. `passes.checks` makes it a result of the program instead.
    """
    require_dtype(failed, "bool", "failed")
    require_shape(failed, (), "failed")
    return TensorType(DType.I32, ())
