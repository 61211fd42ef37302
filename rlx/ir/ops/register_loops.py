"""Loops whose bodies are one kernel: carries in registers, or in small arrays beside them.

Made by `passes.scalarize_loops` from loops with small bodies, for code generation.
"""

from __future__ import annotations

from rlx.ir.graph import Graph, Value
from rlx.ir.op import OPS, Trait, op
from rlx.ir.types import TensorType

_FAMILY = "fused"


def _as_scan(
    *operands: Value,
    body: Graph,
    length: int,
    num_carries: int,
    num_consts: int = 0,
    reverse: bool = False,
    residuals: int = 0,
) -> tuple[Value, ...]:
    results: tuple[Value, ...] = OPS["scan"](
        *operands,
        body=body,
        length=length,
        num_carries=num_carries,
        num_consts=num_consts,
        reverse=reverse,
        residuals=residuals,
    )
    return results


def _as_while(
    *operands: Value,
    condition: Graph,
    body: Graph,
    num_consts: int = 0,
    max_trips: int | None = None,
) -> tuple[Value, ...]:
    results: tuple[Value, ...] = OPS["while_loop"](
        *operands, condition=condition, body=body, num_consts=num_consts, max_trips=max_trips
    )
    return results


@op(_FAMILY, Trait.FUSED, decompose=_as_scan)
def scan_in_registers(
    *operands: TensorType,
    body: Graph,
    length: int,
    num_carries: int,
    num_consts: int = 0,
    reverse: bool = False,
    residuals: int = 0,
) -> tuple[TensorType, ...]:
    """`scan`, as one kernel."""
    inferred: tuple[TensorType, ...] = OPS["scan"].infer(
        *operands, body=body, length=length, num_carries=num_carries, num_consts=num_consts
    )
    return inferred


@op(_FAMILY, Trait.FUSED, decompose=_as_while)
def while_in_registers(
    *operands: TensorType,
    condition: Graph,
    body: Graph,
    num_consts: int = 0,
    max_trips: int | None = None,
) -> tuple[TensorType, ...]:
    """`while_loop`, as one kernel."""
    inferred: tuple[TensorType, ...] = OPS["while_loop"].infer(
        *operands, condition=condition, body=body, num_consts=num_consts, max_trips=max_trips
    )
    return inferred


__all__ = ["scan_in_registers", "while_in_registers"]
