"""`Step`: the body of a new scan, built together with the operands that its inputs bind to.

    step = Step("sum")
    total, x = step.carry(zero), step.row(xs)
    (last,), () = step.scan([total + x], [], length=10)

Carries are declared before consts, and consts before rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlx.errors import InternalError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class Parts:
    """Operands of a scan, or inputs of its body, by their part."""

    carries: tuple[Value, ...]
    consts: tuple[Value, ...]
    xs: tuple[Value, ...]

    @classmethod
    def of(cls, values: Sequence[Value], num_carries: int, num_consts: int) -> Parts:
        first = num_carries + num_consts
        return cls(
            tuple(values[:num_carries]), tuple(values[num_carries:first]), tuple(values[first:])
        )

    @property
    def all(self) -> tuple[Value, ...]:
        return (*self.carries, *self.consts, *self.xs)


class Step:
    """A scan under construction."""

    def __init__(self, name: str) -> None:
        self.graph = Graph(name)
        self._carries: list[Value] = []
        self._consts: list[Value] = []
        self._xs: list[Value] = []
        self._names: set[str] = set()

    def carry(self, first: Value, name: str = "c") -> Value:
        """Declare a carry that starts as `first`."""
        if self._consts or self._xs:
            raise InternalError("carries are declared before consts and rows")
        self._carries.append(first)
        return self.graph.input(self._free(name), first.shape, first.dtype)

    def const(self, value: Value, name: str = "k") -> Value:
        """Declare an outer value that is the same at every step."""
        if self._xs:
            raise InternalError("consts are declared before rows")
        self._consts.append(value)
        return self.graph.input(self._free(name), value.shape, value.dtype)

    def row(self, whole: Value, name: str = "x") -> Value:
        """Declare the row of `whole` that belongs to the step."""
        self._xs.append(whole)
        return self.graph.input(self._free(name), whole.shape[1:], whole.dtype)

    def scan(
        self, carries: Sequence[Value], rows: Sequence[Value], **attributes: Any
    ) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """Append the scan to the operands' graph; return last carries and stacked rows."""
        self.graph.set_outputs([*carries, *rows])
        operands = (*self._carries, *self._consts, *self._xs)
        results = ops.scan(
            *operands,
            body=self.graph,
            num_carries=len(self._carries),
            num_consts=len(self._consts),
            **attributes,
        )
        return results[: len(carries)], results[len(carries) :]

    def _free(self, wanted: str) -> str:
        name, suffix = wanted, 0
        while name in self._names:
            suffix += 1
            name = f"{wanted}_{suffix}"
        self._names.add(name)
        return name


def name_of(value: Value) -> str:
    """Return the name of a body's input."""
    return str(value.node.name)


def mirror(graph: Graph, body: Graph) -> list[Value]:
    """Declare the inputs of `body` in `graph`."""
    return [graph.input(name_of(v), v.shape, v.dtype) for v in body.inputs]


def fresh_input(graph: Graph, name: str, type: TensorType) -> Value:
    """Declare an input called `name` or, where an input has that name, nearly so."""
    taken = {value.node.name for value in (*graph.inputs, *graph.params)}
    free, suffix = name, 0
    while free in taken:
        suffix += 1
        free = f"{name}_{suffix}"
    return graph.input(free, type.shape, type.dtype)
