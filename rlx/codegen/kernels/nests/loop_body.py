"""Loops as one kernel each: the parts that do not depend on the storage of the body's values.

A scan and a conditional loop are built once. Where carries, consts and rows are while the
loop runs is up to a `LoopBody`: in registers (`RegisterNest`) or local arrays (`ArrayBody`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.dataclass import dataclass
from rlx.ir.graph import Graph, Value
from rlx.ir.loop_signature import Parts


class Place(NamedTuple):
    """A value of a body, and its offset in an argument of the kernel."""

    value: Value
    buffer: Buffer
    start: E | int = 0


@dataclass(frozen=True, slots=True)
class LoopArguments:
    """The arguments of a loop's kernel by role: carries, consts, rows."""

    body: Graph
    given: Parts[Buffer]
    results: Sequence[Buffer]

    @property
    def inputs(self) -> Parts[Value]:
        """The inputs of the body."""
        return Parts.of(self.body.inputs, len(self.given.carries), len(self.given.consts))

    def firsts(self) -> list[Place]:
        """Return the carries as they are given."""
        return _places(self.inputs.carries, self.given.carries)

    def lasts(self) -> list[Place]:
        """Return the results that hold the final carries."""
        return _places(self.inputs.carries, self.results)

    def consts(self) -> list[Place]:
        return _places(self.inputs.consts, self.given.consts)

    def rows(self, row: E) -> list[Place]:
        """Return the inputs that are a row of an operand."""
        return _at_row(_places(self.inputs.rows, self.given.rows), row)

    def stacked(self, row: E) -> list[Place]:
        """Return the outputs that become a row of a result."""
        return _at_row(_places(self.body.outputs, self.results)[len(self.given.carries) :], row)


def _places(values: Sequence[Value], buffers: Sequence[Buffer]) -> list[Place]:
    return [Place(*pair) for pair in zip(values, buffers, strict=False)]


def _at_row(places: Sequence[Place], row: E) -> list[Place]:
    return [
        place._replace(start=row * math.prod(place.value.type.static_shape)) for place in places
    ]


class LoopCondition(Protocol):
    """The condition of a loop, on the present values of its body's inputs."""

    def in_one_expression(self) -> E | None:
        """Return the condition, if it is short enough for `while`."""

    def truth(self) -> E:
        """Compute the condition: true if every element is."""


class LoopBody(Protocol):
    """The body of a loop under construction, and the storage of its values."""

    def blocks(self, steps: int) -> AbstractContextManager[None]:
        """Open the loop around this one, over blocks of lanes, if there is one."""

    def enter(self, firsts: Sequence[Place], lasts: Sequence[Place]) -> None:
        """Copy the initial carries to the storage of the loop."""

    def read(self, place: Place) -> None:
        """Load a const or a row."""

    def emit_constants(self) -> None:
        """Compute values that depend on no input before the loop, if they need memory."""

    def step(self, outputs: Sequence[Place]) -> None:
        """Emit one execution of the body: store `outputs`, and assign the next carries."""

    def finish(self, lasts: Sequence[Place]) -> None:
        """Store the carries."""

    def condition(self, graph: Graph) -> LoopCondition: ...


def build_scan(
    k: KernelBuilder, body: LoopBody, arguments: LoopArguments, length: int, *, reverse: bool
) -> None:
    """Build the loop of a scan: from row to row, or from the last to the first."""
    with body.blocks(length):
        body.enter(arguments.firsts(), arguments.lasts())
        for const_ in arguments.consts():
            body.read(const_)
        body.emit_constants()
        with k.loop("step", length) as step:
            row = k.let("row", length - 1 - step) if reverse else step
            for place in arguments.rows(row):
                body.read(place)
            body.step(arguments.stacked(row))
        body.finish(arguments.lasts())


def build_while(
    k: KernelBuilder,
    body: LoopBody,
    arguments: LoopArguments,
    condition: Graph,
    max_trips: int | None,
) -> None:
    """Build a conditional loop; the last result is the number of trips."""
    body.enter(arguments.firsts(), arguments.lasts())
    for const_ in arguments.consts():
        body.read(const_)
    body.emit_constants()
    asked = body.condition(condition)
    trips = k.mutable("trips", const(0, Prim.I64))
    short = asked.in_one_expression()
    running = k.mutable("running", asked.truth()) if short is None else None
    going = short if running is None else running
    assert going is not None, "one of the two forms of the condition"
    with k.while_(going if max_trips is None else (trips < max_trips) & going):
        body.step([])
        trips.set(trips + 1)
        if running is not None:
            running.set(asked.truth())
    body.finish(arguments.lasts())
    k.store(arguments.results[-1], 0, trips)
