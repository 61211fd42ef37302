"""A conditional loop as a loop nest: carries in local buffers, the condition asked at each trip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rlx.codegen.kernels.nest import Nest
from rlx.codegen.kernels.nest_elements import Array, name_of
from rlx.codegen.kernels.nest_scan import replace_carries
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.codegen.loops.scalar import truth
from rlx.ir.graph import Graph


@dataclass(slots=True)
class WhileNest:
    """A conditional loop under construction; the last result is the number of trips."""

    k: KernelBuilder
    condition: Graph
    body: Graph
    given: Sequence[Buffer]
    results: Sequence[Buffer]
    num_carries: int
    max_trips: int | None
    has_vectors: bool
    nest: Nest = field(init=False)

    def __post_init__(self) -> None:
        self.nest = Nest(self.k, self.body, self.has_vectors)

    def build(self) -> None:
        nest, k = self.nest, self.k
        carries = self._enter()
        trips = k.mutable("trips", const(0, Prim.I64))
        running = k.mutable("running", self._truth())
        limit = self.max_trips
        with k.while_(running if limit is None else (trips < limit) & running):
            nest.emit(self.body.nodes)
            replace_carries(nest, carries, self.body.outputs)
            trips.set(trips + 1)
            running.set(self._truth())
        for carry, buffer in zip(carries, self.results, strict=False):
            nest.copy(carry, nest.argument(carry.value, buffer))
        k.store(self.results[-1], 0, trips)

    def _enter(self) -> list[Array]:
        """Copy the first carries to buffers, and find the consts where they lie."""
        nest, carries = self.nest, list[Array]()
        for number, (value, buffer) in enumerate(zip(self.body.inputs, self.given, strict=True)):
            array = nest.argument(value, buffer)
            if number < self.num_carries or not nest.suits_vectors(array):
                source, array = array, nest.local(value, name_of(value))
                nest.copy(source, array)
            if number < self.num_carries:
                carries.append(array)
            nest.elements.arrays[value] = array
        return carries

    def _truth(self) -> E:
        """Compute the condition, of one element, on the present carries."""
        asked = Nest(self.k, self.condition, self.has_vectors)
        for own, value in zip(self.condition.inputs, self.body.inputs, strict=True):
            asked.elements.arrays[own] = replace(self.nest.elements.arrays[value], value=own)
        asked.emit(self.condition.nodes)
        (output,) = self.condition.outputs
        return truth(asked.elements.at(output, (0,) * output.rank))
