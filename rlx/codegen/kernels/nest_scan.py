"""A scan as a loop nest: carries in local buffers, rows read and written where they lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from rlx.codegen.kernels.nest import Nest
from rlx.codegen.kernels.nest_elements import Array, name_of
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import Buffer
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait


@dataclass(slots=True)
class ScanNest:
    """A scan's loop under construction: its body over the buffers of its operands and results."""

    k: KernelBuilder
    body: Graph
    given: Sequence[Buffer]
    results: Sequence[Buffer]
    length: int
    num_carries: int
    num_consts: int
    reverse: bool
    has_vectors: bool
    nest: Nest = field(init=False)

    def __post_init__(self) -> None:
        self.nest = Nest(self.k, self.body, self.has_vectors)

    def build(self) -> None:
        inputs, nest = self.body.inputs, self.nest
        first_row = self.num_carries + self.num_consts
        carries = [nest.local(value, name_of(value)) for value in inputs[: self.num_carries]]
        for carry, buffer in zip(carries, self.given, strict=False):
            nest.copy(nest.argument(carry.value, buffer), carry)
            nest.elements.arrays[carry.value] = carry
        for position in range(self.num_carries, first_row):
            self._read(inputs[position], self.given[position], 0)
        constants = [node for node in self.body.nodes if not node.operands]
        nest.emit(constants)
        with self.k.loop("step", self.length) as step:
            row = self.k.let("row", self.length - 1 - step) if self.reverse else step
            for position in range(first_row, len(inputs)):
                self._read(inputs[position], self.given[position], row)
            nest.emit([node for node in self.body.nodes if node.operands])
            self._rows(row)
            replace_carries(nest, carries, self.body.outputs)
        for carry, buffer in zip(carries, self.results, strict=False):
            nest.copy(carry, nest.argument(carry.value, buffer))

    def _read(self, value: Value, buffer: Buffer, row: E | int) -> None:
        """Take a const or row as it lies, or copied to where vectors can read it."""
        start = row * math.prod(value.type.static_shape)
        array = self.nest.argument(value, buffer, start)
        if not self.nest.suits_vectors(array):
            source, array = array, self.nest.local(value, name_of(value))
            self.nest.copy(source, array)
        self.nest.elements.arrays[value] = array

    def _rows(self, row: E | int) -> None:
        pairs = list(zip(self.body.outputs, self.results, strict=True))
        for value, buffer in pairs[self.num_carries :]:
            start = row * math.prod(value.type.static_shape)
            self.nest.compute(value, self.nest.argument(value, buffer, start))


def replace_carries(nest: Nest, carries: Sequence[Array], outputs: Sequence[Value]) -> None:
    """Give all carries their next values: in place where nothing else reads the last ones."""
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
