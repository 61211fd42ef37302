"""Division of the steps of a scan into segments at its checkpoints, and scans over segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rlx.dataclass import dataclass
from rlx.errors import GraphError, ShapeError
from rlx.ir.graph import Graph, Value
from rlx.ir.ops.indexing import dynamic_slice, gather
from rlx.ir.ops.loops import scan
from rlx.ir.ops.shape import concat, reshape
from rlx.ir.types import TensorType


def checkpoint_steps(length: int, count: int) -> list[int]:
    """Return the steps after which a trajectory of `count` rows holds the carry; 0 means all."""
    rows = count or length
    return [-(-(row + 1) * length // rows) - 1 for row in range(rows)]


@dataclass(frozen=True, slots=True)
class Segments:
    """The steps of a scan, cut after its checkpoints: each has `short` steps or one more."""

    length: int
    count: int
    short: int

    @classmethod
    def of(cls, length: int, num_checkpoints: int) -> Segments:
        if not 0 <= num_checkpoints <= length:
            raise GraphError(
                f"num_checkpoints is {num_checkpoints}; it must be in 0..{length}, the length",
                remedy="give a number in that range",
            )
        count = num_checkpoints or length
        return cls(length, count, length // count if count else 0)

    @property
    def are_steps(self) -> bool:
        return self.count == self.length

    @property
    def are_equal(self) -> bool:
        return self.count * self.short == self.length

    @property
    def starts(self) -> list[int]:
        return [0, *(step + 1 for step in checkpoint_steps(self.length, self.count)[:-1])]

    @property
    def lengths(self) -> list[int]:
        stops = [*self.starts[1:], self.length]
        return [stop - start for start, stop in zip(self.starts, stops, strict=True)]

    def places(self, graph: Graph) -> tuple[Value, Value]:
        """Return for every segment its first step, and whether it is one of the longer ones."""
        longer = [steps > self.short for steps in self.lengths]
        return (
            graph.constant(np.asarray(self.starts, np.int64)),
            graph.constant(np.asarray(longer, np.bool_)),
        )

    def scanned(self, xs: Sequence[Value]) -> tuple[Value, ...]:
        """Return what a scan over equal segments scans: the rows of each together, a view."""
        shape = (self.count, self.short)
        return tuple(reshape(x, shape=(*shape, *x.shape[1:])) for x in xs if self.are_equal)

    def shared(self, xs: Sequence[Value]) -> tuple[Value, ...]:
        """Return what a scan over unequal segments shares: all rows, of which each takes some."""
        return () if self.are_equal else tuple(xs)

    def rows(self, x: Value, start: Value) -> Value:
        """Return the rows of the first `short` steps of the segment at `start`.

        `x` is what a segment is given of one that is scanned or shared.
        """
        return x if self.are_equal else block(x, start, self.short)

    def last_row(self, x: Value, start: Value) -> Value:
        """Return the row of the step that only longer segments have."""
        return reshape(block(x, start + self.short, 1), shape=x.shape[1:])

    def joined(self, firsts: Value, lasts: Value) -> Value:
        """Return rows by step, from those of the first steps of segments and of the last ones."""
        row = lasts.shape[1:]
        flat = reshape(firsts, shape=(self.count * self.short, *row))
        if self.are_equal:
            return flat
        order: list[int] = []
        for segment, steps in enumerate(self.lengths):
            order += range(segment * self.short, (segment + 1) * self.short)
            order += [self.count * self.short + segment] * (steps - self.short)
        places = flat.graph.constant(np.asarray(order, np.int64))
        return gather(concat(flat, lasts, axis=0), places, axis=0)


def run_steps(
    step: Callable[[Value, Sequence[Value]], tuple[Value, ...]],
    init: Value,
    rows: Sequence[Value],
    consts: Sequence[Value],
    length: int,
    *,
    reverse: bool = False,
) -> tuple[Value, ...]:
    """Scan `step(carry, (*rows, *consts))`, which returns the next carry and rows."""
    body = Graph("step")
    (carry,) = declare(body, [init.type], "c")
    fixed = declare(body, [const.type for const in consts], "k")
    given = declare(body, [x.type.with_shape(x.shape[1:]) for x in rows])
    body.set_outputs(step(carry, (*given, *fixed)))
    return scan(
        init, *consts, *rows, body=body, length=length, num_carries=1, num_consts=len(consts),
        reverse=reverse,
    )  # fmt: skip


def declare(graph: Graph, types: Sequence[TensorType], name: str = "x") -> list[Value]:
    return [graph.input(f"{name}{i}", type.shape, type.dtype) for i, type in enumerate(types)]


def block(x: Value, start: Value, length: int) -> Value:
    """Return `length` rows of `x` from a row that is known at run time."""
    zeros = x.graph.constant(np.zeros(x.rank - 1, np.int64))
    starts = concat(reshape(start, shape=(1,)), zeros, axis=0)
    return dynamic_slice(x, starts, sizes=(length, *x.shape[1:]))


def row_of(x: Value, length: int) -> TensorType:
    if x.rank == 0 or x.shape[0] != length:
        raise ShapeError(
            f"a scanned operand has shape {x.type.describe_shape()}; it must have {length} rows",
            remedy="slice or pad what is scanned to one length",
        )
    return x.type.with_shape(x.shape[1:])
