"""The memory plan: byte offset and lifetime of every value in one arena."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from rlx.dataclass import dataclass
from rlx.ir.graph import Graph, Node, Value


@dataclass(frozen=True, slots=True)
class Slot:
    """The bytes of one value. A view's slot is inside of its root's.

    `birth` and `death` are the first and last step (inclusive) at which the bytes must hold
    this value or what is made of it: positions in `MemoryPlan.order`. A view extends its
    root's range. `resident` values (params, constants, setup results) live from `setup` on,
    across runs.
    """

    offset: int
    size: int
    birth: int
    death: int
    resident: bool = False
    root: Value | None = None
    """The value whose memory this one is a view of or works in place on; None if it owns it."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Byte offsets into the arena for every value, and scratch for the nodes that need it.

    Layout: [0, header_bytes) status record; then residents (params, constants, setup results)
    up to `resident_bytes`; then inputs, outputs and temporaries up to `arena_bytes`.

    Inputs keep their bytes for the whole run, unless donated: a caller may run again without
    feeding them again. Outputs keep theirs until the next run. A donated output is where
    its leaf does.
    """

    graph: Graph
    slots: Mapping[Value, Slot]
    scratch: Mapping[Node, Slot]
    header_bytes: int
    resident_bytes: int
    arena_bytes: int
    live_bytes: int
    """The maximal live set: the lower bound for `arena_bytes`."""
    in_place: Mapping[Node, tuple[tuple[int, int], ...]]
    """(operand, result) positions that share memory at a node."""
    order: tuple[Node, ...] = ()
    """The nodes as they run: those of `setup`, then those of `run`."""
    bodies: Mapping[Node, tuple[MemoryPlan, ...]] = field(default_factory=dict)
    """For control flow, the plans of its sub-graphs: offsets into the same arena, within the
    node's block. Their `order` counts steps of the body."""
