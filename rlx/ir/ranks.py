"""Coordinates of ranks: the axes of a mesh, by the numbers of the ranks along them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rlx.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RankAxis:
    """One axis of a mesh of ranks. Rank r is member `r // stride % size` of its line."""

    name: str
    size: int
    stride: int
    """From a member of a line to the next one."""


def row_major_axes(extents: Mapping[str, int]) -> tuple[RankAxis, ...]:
    """Return the axes of a mesh whose ranks are numbered row by row, from extents by name.

    >>> row_major_axes({"rows": 2, "columns": 3})
    (RankAxis(name='rows', size=2, stride=3), RankAxis(name='columns', size=3, stride=1))
    """
    sizes = tuple(extents.values())
    return tuple(
        RankAxis(name, size, math.prod(sizes[place + 1 :]))
        for place, (name, size) in enumerate(extents.items())
    )
