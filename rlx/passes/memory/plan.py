"""The memory plan: where every value lives in the one arena."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlx.ir.graph import Graph, Node, Value


@dataclass(frozen=True, slots=True)
class Slot:
    """The bytes of one value. A view's slot lies inside its root's.

    `birth` and `death` are the first and last node index (inclusive) at which the bytes must
    hold this value; a view extends its root's range. `resident` values (params, constants,
    setup results) live from `setup` on, across runs.
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
    """Byte offsets into the arena for every value, and scratch for the nodes that want it.

    Layout: [0, header_bytes) status record; then residents (params, constants, setup results)
    up to `resident_bytes`; then inputs, outputs and temporaries up to `arena_bytes`.
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
