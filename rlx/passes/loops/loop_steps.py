"""`LoopStep`: the body of a new scan, built together with the operands that its inputs bind to.

    step = LoopStep("sum")
    total, x = step.carry(zero), step.row(xs)
    (last,), () = step.scan([total + x], [], length=10)

Carries are declared before consts, and consts before rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlx.errors import InternalError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.types import TensorType
from rlx.passes.loops.rebuild_body import free_name


class LoopStep:
    """A scan under construction."""

    def __init__(self, name: str) -> None:
        self.graph = Graph(name)
        self._carries: list[Value] = []
        self._consts: list[Value] = []
        self._rows: list[Value] = []
        self._names: set[str] = set()

    def carry(self, first: Value, name: str = "c") -> Value:
        """Declare a carry that starts as `first`."""
        if self._consts or self._rows:
            raise InternalError("carries are declared before consts and rows")
        self._carries.append(first)
        return self.graph.input(self._free(name), first.shape, first.dtype)

    def const(self, value: Value, name: str = "k") -> Value:
        """Declare an outer value that is the same at every step."""
        if self._rows:
            raise InternalError("consts are declared before rows")
        self._consts.append(value)
        return self.graph.input(self._free(name), value.shape, value.dtype)

    def row(self, whole: Value, name: str = "x") -> Value:
        """Declare the row of `whole` that belongs to the step."""
        self._rows.append(whole)
        return self.graph.input(self._free(name), whole.shape[1:], whole.dtype)

    def scan(
        self, carries: Sequence[Value], rows: Sequence[Value], **attributes: Any
    ) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """Append the scan to the operands' graph; return last carries and stacked rows."""
        self.graph.set_outputs([*carries, *rows])
        operands = (*self._carries, *self._consts, *self._rows)
        results = ops.scan(
            *operands,
            body=self.graph,
            num_carries=len(self._carries),
            num_consts=len(self._consts),
            **attributes,
        )
        return results[: len(carries)], results[len(carries) :]

    def _free(self, wanted: str) -> str:
        name = free_name(wanted, self._names)
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
    return graph.input(free_name(name, taken), type.shape, type.dtype)
