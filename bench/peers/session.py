"""What a peer makes of a workload: something to call, and what it cost to make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np

from bench.routine import FrontEnd, Routine
from bench.workload import Array, Workload
from rlx.ir.graph import Graph, Node, Value

Table: TypeAlias = Mapping[str, Callable[..., Any]]
"""Op name -> a function of a node's operands and attributes, in a library's terms."""


@dataclass(frozen=True, slots=True)
class Session:
    """A workload, ready to run. `call` returns when the result is there."""

    call: Callable[[], Any]
    to_arrays: Callable[[Any], list[Array]]
    cold_seconds: float | None = None
    """From graph to first result, nothing cached; None where that means little."""
    warm_seconds: float | None = None
    """The same with what an earlier process left in its cache."""
    temporary_bytes: int | None = None
    details: dict[str, str] = field(default_factory=dict)


class Prepare(Protocol):
    def __call__(self, workload: Workload, threads: int) -> Session: ...


class PrepareProgram(Protocol):
    def __call__(self, program: Routine, threads: int) -> Session: ...


def compile_a_loop(library: FrontEnd, jit: Callable[..., Any]) -> None:
    """Compile a loop and its derivative: the imports and first uses that this takes are not
    what compiling a program costs."""

    def loss(x: Any) -> Any:
        return library.control.scan(lambda c, _: (c * c, None), x, None, length=3)[0]

    jit(library.transform.grad(loss))(np.array(0.5))


def translate(graph: Graph, table: Table, leaves: Mapping[str, Any]) -> list[Any]:
    """Evaluate `graph` with a library's functions."""
    values: dict[Value, Any] = {}
    for node in graph.nodes:
        found = _apply(node, table, values, leaves)
        results = found if len(node.results) > 1 else (found,)
        values |= zip(node.results, results, strict=True)
    return [values[output] for output in graph.outputs]


def _apply(node: Node, table: Table, values: Mapping[Value, Any], leaves: Mapping[str, Any]) -> Any:
    attributes = node.attrs.as_dict()
    if node.op.name in ("input", "param"):
        return leaves[attributes["name"]]
    if node.op.name == "constant":
        return table["constant"](attributes["value"].array)
    operands: Sequence[Any] = [values[operand] for operand in node.operands]
    return table[node.op.name](*operands, **attributes)
