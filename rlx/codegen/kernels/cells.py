"""Cells: the single elements that a written-out body computes, and their order.

A body in registers is a graph of scalars. Cells collect it first, so that only what is needed
is computed, once and as far out as it can be, and what is read once is written where it is read.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rlx.codegen.kernels.scalars import uses_once
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import Const, Var


class Level(enum.IntEnum):
    """How often a cell is computed."""

    ONCE = 0
    """Before the loop."""
    STEP = 1
    """At every step."""
    LANE = 2
    """At every step, in every lane."""


LONGEST = 12
"""Operations in one expression; longer ones get a name in between."""


@dataclass(slots=True, eq=False)
class Cell:
    """One element: how it is computed from others, and its expression once it is."""

    name: str
    compute: Callable[..., E]
    operands: tuple[Cell, ...] = ()
    level: Level = Level.ONCE
    uses: int = 0
    length: int = 1
    expression: E | None = None
    needed: bool = False
    takes_statements: bool = False
    """It is computed by more than an expression, where it stands."""
    below: int | None = None
    """It is an index in `[0, below)`, as was checked."""
    is_padding: bool = False
    """A zero that stands where a smaller array has no element."""


class Cells:
    """All cells of one kernel, in the order of their computation."""

    def __init__(self, k: KernelBuilder) -> None:
        self.k = k
        self._all: list[Cell] = []
        self.effects: list[Cell] = []
        """Cells that store; they are needed whatever reads them."""
        self.checked: dict[tuple[Cell, int], Cell] = {}
        """Indices that were compared with an extent."""

    def known(self, expression: E, level: Level) -> Cell:
        """Return a cell for what is in a variable, or is a literal."""
        return Cell("", lambda: expression, level=level, expression=expression)

    def loaded(self, name: str, load: Callable[[], E], level: Level) -> Cell:
        """Return a cell that is read from memory when it is first needed."""
        cell = Cell(name, load, level=level)
        self._all.append(cell)
        return cell

    def computed(self, name: str, compute: Callable[..., E], operands: Sequence[Cell]) -> Cell:
        level = max((operand.level for operand in operands), default=Level.ONCE)
        cell = Cell(name, compute, tuple(operands), level)
        self._all.append(cell)
        return cell

    def stated(self, name: str, compute: Callable[..., E], operands: Sequence[Cell]) -> Cell:
        """Return a cell that takes statements, which stand among others of the step in order."""
        cell = self.computed(name, compute, operands)
        cell.level = max(cell.level, Level.STEP)
        cell.takes_statements = True
        return cell

    def mostly(
        self, name: str, common: Callable[[E], E], rare: Callable[[E], tuple[E, E]], operand: Cell
    ) -> Cell:
        """Return a cell for `common(x)`, or the value of `rare` where its condition holds."""

        def compute(x: E) -> E:
            known = x if isinstance(x.node, (Var, Const)) else self.k.let("x", x)
            value = self.k.mutable(name, common(known))
            condition, other = rare(known)
            with self.k.if_(condition):
                value.set(other)
            return value

        cell = self.computed(name, compute, [operand])
        cell.takes_statements = True
        return cell

    def need(self, roots: Iterable[Cell]) -> None:
        """Mark what `roots` depend on, and count how often each cell is read."""
        waiting = [*roots, *self.effects]
        for root in waiting:
            root.uses += 2  # a root is stored or assigned by name
        while waiting:
            cell = waiting.pop()
            if not cell.needed:
                cell.needed = True
                for operand in cell.operands:
                    operand.uses += 1
                    waiting.append(operand)

    def emit(self, level: Level) -> None:
        """Compute the needed cells of one level; call it inside the loops of that level."""
        readers = self._outer_reads(level)
        for cell in self._all:
            if cell.needed and cell.level is level:
                self._emit(cell, named=cell.uses > 1 or cell in readers)

    def is_short(self, root: Cell) -> bool:
        """True if `root` can be one expression of what is known already."""
        waiting, count = [root], 0
        while waiting and count <= LONGEST:
            cell = waiting.pop()
            count += cell.expression is None
            waiting.extend(cell.operands)
            if cell.expression is None and (not cell.operands or cell.takes_statements):
                return False
        return count <= LONGEST

    def inlined(self, root: Cell) -> E:
        """Return `root` as one expression, its parts repeated where they are read."""
        if root.expression is not None:
            return root.expression
        return root.compute(*(self.inlined(operand) for operand in root.operands))

    def _outer_reads(self, level: Level) -> set[Cell]:
        """Return the cells of `level` that cells of inner loops read: they need names."""
        inner = (cell for cell in self._all if cell.needed and cell.level > level)
        return {operand for cell in inner for operand in cell.operands if operand.level is level}

    def _emit(self, cell: Cell, *, named: bool) -> None:
        expressions = [value_of(operand) for operand in cell.operands]
        result = cell.compute(*expressions)
        repeats = [
            o for o, e in zip(cell.operands, expressions, strict=True) if not uses_once(result, e)
        ]
        if repeats:
            for operand in repeats:
                self._name(operand)
            result = cell.compute(*(value_of(operand) for operand in cell.operands))
        cell.expression = result
        cell.length = 1 + sum(_visible_length(operand) for operand in cell.operands)
        if named or not cell.operands or cell.length > LONGEST:
            self._name(cell)

    def _name(self, cell: Cell) -> None:
        expression = value_of(cell)
        if not isinstance(expression.node, (Var, Const)):
            cell.expression = self.k.let(cell.name, expression)
        cell.length = 0


def value_of(cell: Cell) -> E:
    assert cell.expression is not None, "cells are computed in order"
    return cell.expression


def _visible_length(cell: Cell) -> int:
    return 0 if isinstance(value_of(cell).node, (Var, Const)) else cell.length
