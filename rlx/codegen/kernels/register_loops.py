"""Loops whose bodies are in registers: scans, one or many side by side, and conditional loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rlx.codegen.kernels.nest_elements import Array, Scalars
from rlx.codegen.kernels.nest_registers import RegisterNest
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.codegen.loops.scalar import truth
from rlx.ir.graph import Graph, Value
from rlx.passes.loops.batch_axis import Lanes
from rlx.passes.loops.tables import Tables


@dataclass(slots=True)
class RegisterScan:
    """A scan in registers under construction."""

    k: KernelBuilder
    body: Graph
    given: Sequence[Buffer]
    results: Sequence[Buffer]
    length: int
    num_carries: int
    num_consts: int
    reverse: bool

    def build(self, lanes: Lanes, tables: Tables) -> None:
        nest = RegisterNest(self.k, self.body, lanes, tables)
        with nest.blocks(self.length):
            firsts = [nest.argument(*pair) for pair in self._inputs(0, self.num_carries)]
            carries = nest.enter(firsts, self.results)
            first_row = self.num_carries + self.num_consts
            for value, buffer in self._inputs(self.num_carries, first_row):
                nest.read(nest.argument(value, buffer))
            with self.k.loop("step", self.length) as step:
                row = self.k.let("row", self.length - 1 - step) if self.reverse else step
                for value, buffer in self._inputs(first_row, len(self.given)):
                    nest.read(nest.argument(value, buffer, row * _size(value)))
                self._step(nest, carries, row)
            nest.finish(firsts, carries, self.results)

    def _inputs(self, start: int, stop: int) -> list[tuple[Value, Buffer]]:
        return list(zip(self.body.inputs, self.given, strict=True))[start:stop]

    def _step(self, nest: RegisterNest, carries: Sequence[Array | Scalars], row: E) -> None:
        nest.emit(self.body.nodes)
        outputs = list(self.body.outputs)
        rows = [
            (value, nest.argument(value, buffer, row * _size(value)))
            for value, buffer in zip(outputs, self.results, strict=True)
        ][self.num_carries :]
        pairs = list(zip(carries, outputs, strict=False))
        apart = nest.lanes.is_apart
        if nest.lanes.axes:
            with nest.over_lanes():
                nest.emit_lanes()
                for value, target in rows:
                    if apart(value):
                        nest.store(value, target)
                nest.replace([(carry, output) for carry, output in pairs if apart(carry.value)])
        shared = [(value, target) for value, target in rows if not apart(value)]
        if shared:
            with nest.first_block_only():
                for value, target in shared:
                    nest.store(value, target)
        nest.replace([(carry, output) for carry, output in pairs if not apart(carry.value)])


@dataclass(slots=True)
class RegisterWhile:
    """A conditional loop in registers; the last result is the number of trips."""

    k: KernelBuilder
    condition: Graph
    body: Graph
    given: Sequence[Buffer]
    results: Sequence[Buffer]
    num_carries: int
    max_trips: int | None

    def build(self, condition_tables: Tables, tables: Tables) -> None:
        k, nest = self.k, RegisterNest(self.k, self.body, tables=tables)
        sources = [nest.argument(v, b) for v, b in zip(self.body.inputs, self.given, strict=True)]
        firsts, consts = sources[: self.num_carries], sources[self.num_carries :]
        carries = nest.enter(firsts, self.results)
        for const_ in consts:
            nest.read(const_)
        asked = _Condition(k, self.condition, condition_tables, nest)
        trips = k.mutable("trips", const(0, Prim.I64))
        short = asked.in_one_expression()
        running = k.mutable("running", asked.truth()) if short is None else None
        going = short if running is None else running
        assert going is not None, "one of the two forms of the condition"
        limit = self.max_trips
        with k.while_(going if limit is None else (trips < limit) & going):
            nest.emit(self.body.nodes)
            nest.replace(list(zip(carries, self.body.outputs, strict=False)))
            trips.set(trips + 1)
            if running is not None:
                running.set(asked.truth())
        nest.finish(firsts, carries, self.results)
        k.store(self.results[-1], 0, trips)


@dataclass(slots=True)
class _Condition:
    """The condition of a loop, over the present values of its body's inputs."""

    k: KernelBuilder
    graph: Graph
    tables: Tables
    around: RegisterNest

    def in_one_expression(self) -> E | None:
        """Return the condition, if it is short enough to stand in `while`."""
        nest = self._nest()
        (output,) = self.graph.outputs
        statements = nest.kept or any(map(self.tables.holds, nest.elements.arrays))
        if statements or _size(output) != 1:
            return None
        nest.elements.namer = None
        return truth(nest.elements.at(output, (0,) * output.rank))

    def truth(self) -> E:
        """Compute the condition: true if every element is."""
        nest = self._nest()
        nest.emit(self.graph.nodes)
        (output,) = self.graph.outputs
        total = const(True, Prim.BOOL)
        for number, index in enumerate(nest.indices(output)):
            flag = truth(nest.elements.at(output, index))
            total = total & flag if number else flag
        return total

    def _nest(self) -> RegisterNest:
        nest = RegisterNest(self.k, self.graph, tables=self.tables, names_outputs=False)
        pairs = zip(self.graph.inputs, self.around.body.inputs, strict=True)
        found = self.around.elements.arrays
        nest.elements.arrays.update((own, found[value]) for own, value in pairs)
        return nest


def _size(value: Value) -> int:
    return math.prod(value.type.static_shape)
