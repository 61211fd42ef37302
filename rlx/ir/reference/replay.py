"""Repeated interpretation of a graph of static types: what can be looked up once is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.reference.registry import Array, apply_op, reference, viewed


@dataclass(frozen=True, slots=True)
class NodeCall:
    """One node: what computes it, and the places of its operands and first result."""

    compute: Callable[..., Any]
    operands: tuple[int, ...]
    result: int
    count: int


class Replay:
    """Evaluates `graph` on arrays of the types of its inputs, which are not checked.

    The types of results follow from those of operands, so that the checks of one evaluation
    (`evaluate`) hold for all that come after.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        places: dict[Value, int] = {}
        self.values: list[Any] = []
        self.steps: list[NodeCall] = []
        for value in graph.inputs:
            self._place(value, None, places)
        for node in graph.nodes:
            if node.op.name == "constant":
                self._place(node.result, node.attribute("value").array, places)
            elif not node.op.has(Trait.LEAF):
                operands = tuple(places[operand] for operand in node.operands)
                first, count = len(self.values), len(node.results)
                self.steps.append(NodeCall(_computation(node), operands, first, count))
                for result in node.results:
                    self._place(result, None, places)
        self.outputs = [places[output] for output in graph.outputs]
        constants = {places[n.result] for n in graph.nodes if n.op.name == "constant"}
        self.shared = constants.intersection(self.outputs)
        self.constant_bytes = sum(self.values[place].nbytes for place in constants)

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the outputs for inputs in declaration order."""
        values = self.values.copy()
        values[: len(arrays)] = arrays
        with np.errstate(all="ignore"):
            for step in self.steps:
                made = step.compute(*[values[place] for place in step.operands])
                if step.count == 1:
                    made = made[0] if made.__class__ is tuple else made
                    values[step.result] = np.asarray(made)
                else:
                    values[step.result : step.result + step.count] = map(np.asarray, made)
        for place in self.shared:  # what is kept for the next time must not change
            values[place] = values[place].copy()
            values[place].setflags(write=False)
        return [values[place] for place in self.outputs]

    def _place(self, value: Value, array: Array | None, places: dict[Value, int]) -> None:
        places[value] = len(self.values)
        self.values.append(array)


def _computation(node: Node) -> Callable[..., Any]:
    """Return what computes `node`: its rule alone, where nothing is rounded or decomposed."""
    if node.op.has(Trait.VIEW):
        return lambda array, *_: viewed(array, node.result.type)
    rule = reference.get(node.op)
    rounded = any(v.dtype.is_low_precision for v in (*node.operands, *node.results))
    if rule is None or (rounded and not reference.is_exact(node.op)):
        return lambda *arrays: apply_op(node.op, arrays, node.attrs)
    attributes = node.attrs.as_dict()
    return partial(rule, **attributes) if attributes else rule
