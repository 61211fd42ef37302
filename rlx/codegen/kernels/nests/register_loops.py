"""The body of a loop in registers: of one loop, or of many side by side in lanes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import field

from rlx.codegen.kernels.nests.elements import Array, Scalars
from rlx.codegen.kernels.nests.loop_body import Place
from rlx.codegen.kernels.nests.registers import RegisterNest
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.nodes import Prim
from rlx.codegen.loops.scalar import truth
from rlx.dataclass import dataclass
from rlx.ir.graph import Graph
from rlx.passes.loops.tables import NO_TABLES, Tables


@dataclass(slots=True)
class RegisterBody:
    """A body whose values are scalars; tables and the lanes of carries stay in memory."""

    nest: RegisterNest
    condition_tables: Tables = NO_TABLES
    firsts: list[Array] = field(default_factory=list)
    carries: list[Array | Scalars] = field(default_factory=list)

    def blocks(self, steps: int) -> AbstractContextManager[None]:
        return self.nest.blocks(steps)

    def enter(self, firsts: Sequence[Place], lasts: Sequence[Place]) -> None:
        self.firsts = [self.nest.argument(*first) for first in firsts]
        self.carries = self.nest.enter(self.firsts, [last.buffer for last in lasts])

    def read(self, place: Place) -> None:
        self.nest.read(self.nest.argument(*place))

    def emit_constants(self) -> None:
        """Nothing: they are literals."""

    def step(self, outputs: Sequence[Place]) -> None:
        nest, apart = self.nest, self.nest.lanes.is_apart
        nest.emit(nest.body.nodes)
        rows = [(output.value, nest.argument(*output)) for output in outputs]
        pairs = list(zip(self.carries, nest.body.outputs, strict=False))
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

    def finish(self, lasts: Sequence[Place]) -> None:
        self.nest.finish(self.firsts, self.carries, [last.buffer for last in lasts])

    def condition(self, graph: Graph) -> RegisterCondition:
        return RegisterCondition(self.nest.k, graph, self.condition_tables, self.nest)


@dataclass(slots=True)
class RegisterCondition:
    """A condition in registers."""

    k: KernelBuilder
    graph: Graph
    tables: Tables
    around: RegisterNest

    def in_one_expression(self) -> E | None:
        nest = self._nest()
        (output,) = self.graph.outputs
        statements = nest.kept or any(map(self.tables.holds, nest.elements.arrays))
        if statements or math.prod(output.type.static_shape) != 1:
            return None
        nest.elements.namer = None
        return truth(nest.elements.at(output, (0,) * output.rank))

    def truth(self) -> E:
        nest = self._nest()
        nest.emit(self.graph.nodes)
        (output,) = self.graph.outputs
        total = const(True, Prim.BOOL)
        for number, index in enumerate(nest.indices(output)):
            flag = truth(nest.elements.at(output, index))
            total = total & flag if number else flag
        return total

    def _nest(self) -> RegisterNest:
        pairs = self.around.pairs_sines
        nest = RegisterNest(
            self.k, self.graph, tables=self.tables, names_outputs=False, pairs_sines=pairs
        )
        inputs = zip(self.graph.inputs, self.around.body.inputs, strict=True)
        found = self.around.elements.arrays
        nest.elements.arrays.update((own, found[value]) for own, value in inputs)
        return nest
