"""Integer range analysis: lower and upper bounds of expressions."""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from rlx.codegen.loops.nodes import Binary, BinaryOp, Const, Expr, Var
from rlx.dataclass import dataclass

Range: TypeAlias = tuple[int, int]
ANY: Range = (-(2**63), 2**63 - 1)


@dataclass(slots=True)
class Ranges:
    """The ranges of variables; without an entry, any value is possible."""

    _known: dict[str, Range] = field(default_factory=dict)

    def note(self, var: Var, range: Range) -> None:
        self._known[var.name] = range

    def of(self, expr: Expr) -> Range:
        """Return the range of an i64 scalar."""
        match expr:
            case Const(value, _):
                return (int(value), int(value))
            case Var(name, _):
                return self._known.get(name, ANY)
            case Binary(op, a, b):
                return _safe(_combined(op, self.of(a), self.of(b)))
            case _:
                return ANY


def _combined(op: BinaryOp, a: Range, b: Range) -> Range:
    match op:
        case BinaryOp.ADD:
            return (a[0] + b[0], a[1] + b[1])
        case BinaryOp.SUB:
            return (a[0] - b[1], a[1] - b[0])
        case BinaryOp.MUL if a[0] >= 0 and b[0] >= 0:
            return (a[0] * b[0], a[1] * b[1])
        case BinaryOp.DIV if a[0] >= 0 and b[0] > 0:
            return (0, a[1] // b[0])
        case BinaryOp.MOD if a[0] >= 0 and b[0] > 0:
            return (0, min(a[1], b[1] - 1))
        case BinaryOp.MIN:
            return (min(a[0], b[0]), min(a[1], b[1]))
        case BinaryOp.MAX:
            return (max(a[0], b[0]), max(a[1], b[1]))
        case _:
            return ANY


def _safe(range: Range) -> Range:
    """Return a range, or every value where arithmetic in 64 bits might wrap."""
    return range if ANY[0] <= range[0] <= range[1] <= ANY[1] else ANY
