"""Schedules that are given for contractions, in place of chosen ones: by hand, or measured."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from rlx.errors import GraphError
from rlx.ir.graph import Node, Value
from rlx.ir.lowering import Schedule
from rlx.ir.op import Trait
from rlx.ir.printer import format_attributes
from rlx.ir.schedules import Schedules
from rlx.passes.layout.prepared import is_prepared
from rlx.target import Target


def contraction_name(node: Node) -> str:
    """Return what a schedule is given for: `matmul(f32[8, 32], param f32[32, 48])`."""
    operands = ", ".join(map(_operand, node.operands))
    attributes = format_attributes(node.attrs)
    return f"{node.op.name}({operands})" + (f" {{{attributes}}}" if attributes else "")


def _operand(value: Value) -> str:
    plain = value.type.plain
    return f"param {plain}" if is_prepared(value) else str(plain)


def given_schedule(node: Node, target: Target) -> Schedule | None:
    """Return the schedule that is given for a contraction, by its name or what it computes."""
    if not target.schedules:
        return None
    given = _parsed(target.schedules)
    named = None if node.name is None else given.get(node.name)
    return named or given.get(contraction_name(node))


def require_used(contractions: Iterable[Node], target: Target) -> None:
    """Raise a GraphError for a given schedule that none of the contractions takes."""
    if not target.requires_schedules:
        return
    nodes = [node for node in contractions if node.op.has(Trait.CONTRACTION)]
    names = {node.name for node in nodes} | {contraction_name(node) for node in nodes}
    for name in _parsed(target.schedules):
        if name not in names:
            known = sorted({contraction_name(node) for node in nodes})
            raise GraphError(
                f"a schedule is given for {name!r}, which the program does not compute",
                remedy=f"its contractions are: {'; '.join(known) or 'none'}",
            )


@functools.lru_cache(maxsize=16)
def _parsed(text: str) -> Schedules:
    return Schedules.parse(text)
