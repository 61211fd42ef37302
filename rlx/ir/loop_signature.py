"""Loop signatures: roles of the operands and results of a `scan` or `while_loop`.

    scan         operands  first carries, consts, rows          results  last carries, stacked rows
    while_loop   operands  first carries, consts                results  last carries, trips

The inputs of a body are the operands, by position. The last stacked rows may be residuals, which
exist for a backward sweep alone. Passes ask for the parts by name, and change a loop with
`rebuild_loop`, which counts them again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Generic, TypeVar

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parts(Generic[T]):
    """Values per operand of a loop, or input of its body, by role: carries, consts, rows."""

    carries: tuple[T, ...]
    consts: tuple[T, ...] = ()
    rows: tuple[T, ...] = ()

    @classmethod
    def of(cls, given: Sequence[T], num_carries: int, num_consts: int) -> Parts[T]:
        """Split what is given in the order of operands."""
        first = num_carries + num_consts
        return cls(
            tuple(given[:num_carries]), tuple(given[num_carries:first]), tuple(given[first:])
        )

    @property
    def all(self) -> tuple[T, ...]:
        """Everything, in the order of operands."""
        return (*self.carries, *self.consts, *self.rows)


@dataclass(frozen=True, slots=True)
class LoopSignature:
    """The numbers of carries, consts and rows, and of residuals among the stacked results."""

    num_carries: int
    num_consts: int
    num_rows: int = 0
    num_residuals: int = 0

    @property
    def first_row(self) -> int:
        """The position of the first row among operands: after carries and consts."""
        return self.num_carries + self.num_consts

    @property
    def positions(self) -> Parts[int]:
        """The positions of all operands, by part."""
        return self.split(range(self.first_row + self.num_rows))

    def split(self, given: Sequence[T]) -> Parts[T]:
        """Split operands of the loop, inputs of its body, or what belongs to them."""
        return Parts.of(given, self.num_carries, self.num_consts)


def is_loop(node: Node) -> bool:
    """True for a `scan` and a `while_loop`."""
    return node.op is ops.scan or node.op is ops.while_loop


def loop_signature(node: Node) -> LoopSignature:
    """Return the signature of a `scan` or `while_loop`."""
    count, consts = len(node.operands), int(node.attribute("num_consts"))
    if node.op is ops.while_loop:
        return LoopSignature(count - consts, consts)
    carries, residuals = int(node.attribute("num_carries")), int(node.attribute("residuals"))
    return LoopSignature(carries, consts, count - carries - consts, residuals)


def stacked(node: Node, given: Sequence[T]) -> tuple[T, ...]:
    """Return what belongs to the stacked rows, of results of a loop or outputs of its body."""
    return tuple(given[node.attribute("num_carries") :]) if node.op is ops.scan else ()


def rebuild_loop(
    target: Graph,
    node: Node,
    operands: Parts[Value],
    body: Graph,
    *,
    condition: Graph | None = None,
    num_residuals: int | None = None,
    like: Node | None = None,
) -> tuple[Value, ...]:
    """Append `node` to `target` with other operands and bodies; return its results.

    `condition` is for a `while_loop`. `num_residuals`, of a `scan`, stays what it was by default.
    `like` lends its name, source line and scope.
    """
    changed: dict[str, object] = {"body": body, "num_consts": len(operands.consts)}
    if node.op is ops.while_loop:
        changed["condition"] = node.attribute("condition") if condition is None else condition
    else:
        changed["num_carries"] = len(operands.carries)
        if num_residuals is not None:
            changed["residuals"] = num_residuals
    named = node if like is None else like
    return target.append(
        node.op,
        operands.all,
        dataclasses.replace(node.attrs, **changed),
        name=named.name or node.name,
        source=named.source or node.source,
        scope=named.scope or node.scope,
    )
