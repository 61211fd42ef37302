"""Regions of the arena that a caller may place elsewhere: inputs, outputs, donated buffers."""

from __future__ import annotations

from rlx.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Region:
    """The bytes in the plan of an input, an output, or a donated leaf and what replaces it."""

    name: str
    start: int
    stop: int
    leaf: str | None = None
    """The name of the input or param."""
    output: int | None = None
    """The number of the output."""

    @property
    def size(self) -> int:
        return self.stop - self.start

    def holds(self, offset: int) -> bool:
        return self.start <= offset < self.stop
