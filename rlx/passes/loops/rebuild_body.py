"""`BodyBuilder`: a loop's body with other inputs, made from the one that it replaces."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.types import TensorType
from rlx.passes.rewrite import copy_node


class BodyBuilder:
    """A body under construction: inputs first, kept ones and new ones in any order, then nodes."""

    def __init__(self, body: Graph) -> None:
        self.body = body
        self.graph = Graph(body.name)
        self.value_map: dict[Value, Value] = {}
        self._names = {value.node.name for value in body.inputs}

    def keep(self, inputs: Iterable[Value]) -> None:
        """Take inputs of the body as they are."""
        for value in inputs:
            self.graph.copy_node(value.node, self.value_map)

    def add(self, name: str, type: TensorType) -> Value:
        """Declare a new input, called `name` or, where the body has that name, nearly so."""
        free = free_name(name, self._names)
        self._names.add(free)
        return self.graph.input_of(free, type)

    def copy(self, wanted: Callable[[Node], bool] = lambda _: True) -> None:
        """Copy the nodes that are `wanted` and not yet there, in order."""
        for node in self.body.nodes:
            missing = node.op is not ops.input and not self._has(node)
            if missing and wanted(node):
                copy_node(self.graph, node, self.value_map)

    def _has(self, node: Node) -> bool:
        return bool(node.results) and node.results[0] in self.value_map

    def finished(self, outputs: Sequence[Value] | None = None) -> Graph:
        """Return the new body with these outputs of the old one, all by default."""
        chosen = self.body.outputs if outputs is None else outputs
        self.graph.set_outputs([self.value_map[output] for output in chosen])
        if outputs is None:
            self.graph.take_roles(self.body)
        return self.graph


def restricted(
    body: Graph, inputs: Iterable[int], outputs: Sequence[Value], needed: Container[Value]
) -> Graph:
    """Return `body` with some of its inputs and these outputs, which depend on `needed`."""
    built = BodyBuilder(body)
    built.keep(body.inputs[position] for position in inputs)
    built.copy(lambda node: any(result in needed for result in node.results))
    return built.finished(outputs)


def free_name(wanted: str, taken: Container[str | None]) -> str:
    """Return `wanted`, or `wanted` with the first number that makes a name of its own."""
    name, suffix = wanted, 0
    while name in taken:
        suffix += 1
        name = f"{wanted}_{suffix}"
    return name
