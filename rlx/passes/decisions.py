"""Optimization remarks: what passes decided and why, recorded for reports only."""

from __future__ import annotations

from dataclasses import field

from rlx.dataclass import dataclass
from rlx.ir.graph import Node
from rlx.passes.fusion.reasons import MissedFusion
from rlx.passes.layout.choices import Choice


@dataclass(slots=True)
class Decisions:
    """The decisions of one run of the passes, each in the order of its graph."""

    lowered: list[Node] = field(default_factory=list)
    """What a precision policy computes in 16 bits."""
    chosen: list[tuple[Node, Choice]] = field(default_factory=list)
    """Tiles, layouts and libraries."""
    missed: list[MissedFusion] = field(default_factory=list)
    """Values that are stored between two kernels."""

    def choose(self, node: Node, choice: Choice) -> None:
        """Enter a choice."""
        self.chosen.append((node, choice))
