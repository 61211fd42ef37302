"""Square transposes in registers: between elements of one slice and lanes of many.

As many vectors as they have lanes change places in log2(lanes) rounds of shuffles: each round
exchanges blocks of half the size, off the diagonal of blocks twice that size.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, shuffle


def turned(k: KernelBuilder, vectors: Sequence[E]) -> list[E]:
    """Return vectors whose lane j of number i was lane i of number j."""
    rows, lanes = list(vectors), len(vectors)
    half = 1
    while half < lanes:
        for i in range(lanes):
            if not i & half:
                upper, lower = rows[i], rows[i + half]
                rows[i] = k.let("part", shuffle(upper, lower, _upper(lanes, half)))
                rows[i + half] = k.let("part", shuffle(upper, lower, _lower(lanes, half)))
        half *= 2
    return rows


def starts(extent: int, lanes: int) -> list[int]:
    """Return where blocks of `lanes` start that cover `extent`; the last two may overlap."""
    whole = list(range(0, extent - lanes + 1, lanes))
    return whole if extent % lanes == 0 else [*whole, extent - lanes]


def _upper(lanes: int, half: int) -> list[int]:
    return [lanes + lane - half if lane & half else lane for lane in range(lanes)]


def _lower(lanes: int, half: int) -> list[int]:
    return [lanes + lane if lane & half else lane + half for lane in range(lanes)]


def every_second(low: E, high: E) -> E:
    """Return elements 0, 2, 4, ... of a stretch: `high` starts where `low` ends, one before."""
    lanes, half = low.type.lanes, low.type.lanes // 2
    return shuffle(low, high, [2 * i if i < half else 2 * i + 1 for i in range(lanes)])
