"""The body of a loop as a nest of loops: carries in local arrays, rows in place."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import field, replace

from rlx.codegen.kernels.nests.elements import Array, name_of
from rlx.codegen.kernels.nests.loop_body import Place
from rlx.codegen.kernels.nests.nest import Nest
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.scalar import truth
from rlx.dataclass import dataclass
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait


@dataclass(slots=True)
class ArrayBody:
    """A body whose values are local arrays, computed by loops of their own."""

    nest: Nest
    carries: list[Array] = field(default_factory=list)

    def blocks(self, steps: int) -> AbstractContextManager[None]:  # noqa: ARG002  (fixed sizes)
        return self.nest.blocks()

    def enter(self, firsts: Sequence[Place], lasts: Sequence[Place]) -> None:  # noqa: ARG002
        nest = self.nest
        self.carries = [nest.local(first.value, name_of(first.value)) for first in firsts]
        for carry, first in zip(self.carries, firsts, strict=True):
            nest.copy(nest.argument(*first), carry)
            nest.elements.arrays[first.value] = carry

    def read(self, place: Place) -> None:
        """Take a const or row in place, or copied to where vectors can read it."""
        array = self.nest.argument(*place)
        if not self.nest.suits_vectors(array):
            source, array = array, self.nest.local(place.value, name_of(place.value))
            self.nest.copy(source, array)
        self.nest.elements.arrays[place.value] = array

    def emit_constants(self) -> None:
        self.nest.emit([node for node in self.nest.body.nodes if not node.operands])

    def step(self, outputs: Sequence[Place]) -> None:
        self.nest.emit([node for node in self.nest.body.nodes if node.operands])
        for output in outputs:
            self.nest.compute(output.value, self.nest.argument(*output))
        replace_carries(self.nest, self.carries, self.nest.body.outputs)

    def finish(self, lasts: Sequence[Place]) -> None:
        for carry, last in zip(self.carries, lasts, strict=True):
            self.nest.copy(carry, self.nest.argument(*last))

    def condition(self, graph: Graph) -> ArrayCondition:
        return ArrayCondition(graph, self.nest)


@dataclass(frozen=True, slots=True)
class ArrayCondition:
    """A condition of one element, computed by statements."""

    graph: Graph
    around: Nest

    def in_one_expression(self) -> None:
        """Nothing: its values may take loops."""

    def truth(self) -> E:
        around = self.around
        nest = Nest(around.k, self.graph, around.has_vectors)
        for own, value in zip(self.graph.inputs, around.body.inputs, strict=True):
            nest.elements.arrays[own] = replace(around.elements.arrays[value], value=own)
        nest.emit(self.graph.nodes)
        (output,) = self.graph.outputs
        return truth(nest.elements.at(output, (0,) * output.rank))


def replace_carries(nest: Nest, carries: Sequence[Array], outputs: Sequence[Value]) -> None:
    """Assign the next carries, in place where nothing else reads the previous ones."""
    pending = [(c, o) for c, o in zip(carries, outputs, strict=False) if o is not c.value]
    copies = []
    for number, (carry, output) in enumerate(pending):
        others = [other for n, (_, other) in enumerate(pending) if n != number]
        read_elsewhere = any(carry.value in _sources(nest, other) for other in others)
        following = carry
        if read_elsewhere or not _is_read_in_place(nest, carry.value, output):
            following = nest.local(carry.value, f"next_{carry.buffer.name}")
            copies.append((following, carry))
        nest.compute(output, following)
    for following, carry in copies:
        nest.copy(following, carry)


def _sources(nest: Nest, value: Value) -> set[Value]:
    """Return the values with arrays that computing `value` reads."""
    if value in nest.elements.arrays:
        return {value}
    return {source for operand in value.node.operands for source in _sources(nest, operand)}


def _is_read_in_place(nest: Nest, carry: Value, value: Value) -> bool:
    """True if each element of `value` reads the carry at its own place, if at all."""
    if value is carry or carry not in _sources(nest, value):
        return True
    node: Node = value.node
    if value in nest.elements.arrays or not node.op.has(Trait.ELEMENTWISE):
        return False
    alike = all(o.shape == value.shape or carry not in _sources(nest, o) for o in node.operands)
    return alike and all(_is_read_in_place(nest, carry, operand) for operand in node.operands)
