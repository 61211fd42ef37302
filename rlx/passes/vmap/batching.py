"""Context of batching rules, and their common tensor manipulations.

A batched value carries the batch axis in front: the `x` of one example, `f32[3, 4]`, is
`f32[B, 3, 4]`. A shared value is the same for every example and has no such axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.shape import Extent
from rlx.ir.types import TensorType
from rlx.passes.algebra import expand_to as expand_to
from rlx.passes.algebra import reshape_to as reshape_to


@dataclass(frozen=True, slots=True)
class MaybeBatched:
    """A value of the batched graph; `batched` if it has the batch axis in front."""

    value: Value
    batched: bool


@dataclass(frozen=True, slots=True)
class MappedAxis:
    """The axis that is mapped over: its extent, and what collectives call it."""

    size: Extent
    name: str | None = None
    whole: dict[int, tuple[Graph, Graph]] = field(default_factory=dict, compare=False, repr=False)
    """What became of bodies that are batched whole, by the identity of each.

    Rules of calls hold calls with the same rules; batched one by one, they grow with every level.
    """


@dataclass(frozen=True, slots=True)
class Batching:
    """Context of a batching rule; at least one operand is batched."""

    graph: Graph
    axis: MappedAxis
    batched: tuple[bool, ...]
    """Which operands are."""
    operands: tuple[TensorType, ...]
    """The operands' types in one example."""
    results: tuple[TensorType, ...]
    """The results' types in one example."""

    @property
    def size(self) -> Extent:
        """How many examples there are."""
        return self.axis.size

    @property
    def axis_name(self) -> str | None:
        """What collectives call the mapped axis."""
        return self.axis.name

    @property
    def result(self) -> TensorType:
        """The type of the only result."""
        (result,) = self.results
        return result

    def lift(self, x: Value) -> Value:
        """Repeat a shared value for every example."""
        return expand_to(x, (self.size, *x.shape))

    def lifted(self, operands: Sequence[Value]) -> list[Value]:
        """Return the operands, all batched."""
        return [
            x if batched else self.lift(x)
            for x, batched in zip(operands, self.batched, strict=True)
        ]

    def aligned(self, operands: Sequence[Value], ranks: Sequence[int]) -> list[Value]:
        """Return the operands so that batched ones broadcast as examples of `ranks` would.

        Shared operands stay: broadcasting aligns them from the right.
        """
        return [
            align(x, rank) if batched else x
            for x, rank, batched in zip(operands, ranks, self.batched, strict=True)
        ]


def lifted(x: MaybeBatched, size: Extent) -> MaybeBatched:
    """Return `x` with the batch axis; a shared value is repeated."""
    return (
        x if x.batched else MaybeBatched(expand_to(x.value, (size, *x.value.shape)), batched=True)
    )


def align(x: Value, rank: int) -> Value:
    """Give batched `x` an example of `rank`, with axes of extent 1 after the batch axis."""
    return reshape_to(x, (x.shape[0], *(1,) * (rank + 1 - x.rank), *x.shape[1:]))


def fold(x: Value) -> Value:
    """Merge the batch axis into the example's first axis."""
    return reshape_to(x, (x.shape[0] * x.shape[1], *x.shape[2:]))


def batch_to_front(x: Value, axis: int) -> Value:
    """Move the batch axis from `axis` to the front."""
    if axis == 0:
        return x
    rest = (i for i in range(x.rank) if i != axis)
    return _one(ops.transpose(x, perm=(axis, *rest)))


def batch_to(x: Value, axis: int) -> Value:
    """Move the batch axis from the front to `axis`."""
    if axis == 0:
        return x
    return _one(ops.transpose(x, perm=(*range(1, axis + 1), 0, *range(axis + 1, x.rank))))


def extent_value(graph: Graph, extent: Extent) -> Value | int:
    """Return `extent` as an operand: a symbolic one is a value of the graph."""
    return extent if isinstance(extent, int) else _one(graph.extent(value=extent))


def _one(value: Value) -> Value:
    """Pin the type of an op call, which is `Any`."""
    return value
