"""Offset assignment: buffers of known live ranges in one arena (two-dimensional packing).

Optimal packing is NP-hard; these greedy orders come within a few percent of the maximal live
set on neural networks, and the best of them is kept. All of it is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass

_Indices: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Buffer:
    """`size` bytes wanted from step `birth` to step `death`, both inclusive."""

    size: int
    birth: int
    death: int


@dataclass(frozen=True, slots=True)
class Placement:
    """An offset for each buffer, and the end of the highest one."""

    offsets: tuple[int, ...]
    total: int


def align_up(size: int, alignment: int) -> int:
    """Return the smallest multiple of `alignment` that is not below `size`."""
    return -(-size // alignment) * alignment


def maximal_live(buffers: Sequence[Buffer]) -> int:
    """Return the largest sum of sizes wanted at one step: no placement needs less."""
    change: dict[int, int] = {}
    for buffer in buffers:
        change[buffer.birth] = change.get(buffer.birth, 0) + buffer.size
        change[buffer.death + 1] = change.get(buffer.death + 1, 0) - buffer.size
    live = most = 0
    for step in sorted(change):
        live += change[step]
        most = max(most, live)
    return most


def place(buffers: Sequence[Buffer], alignment: int) -> Placement:
    """Return offsets, multiples of `alignment`, at which no two live buffers overlap."""
    rounded = [Buffer(align_up(b.size, alignment), b.birth, b.death) for b in buffers]
    bound = maximal_live(rounded)
    best: Placement | None = None
    for key in _ORDERS:
        order = sorted(range(len(rounded)), key=lambda index: (key(rounded[index]), index))
        for choose in (_lowest_gap, _tightest_gap):
            found = _place_in_order(rounded, order, choose)
            if best is None or found.total < best.total:
                best = found
            if best.total == bound:
                return best
    return best or Placement((), 0)


_Key: TypeAlias = Callable[[Buffer], tuple[int, ...]]
_ORDERS: tuple[_Key, ...] = (
    lambda b: (-b.size, b.birth),
    lambda b: (b.birth - b.death, -b.size),
    lambda b: (-b.size * (b.death - b.birth + 1), b.birth),
    lambda b: (b.birth, -b.size),
)

_Choice: TypeAlias = Callable[[_Indices, _Indices, int], int]


def _place_in_order(buffers: Sequence[Buffer], order: Sequence[int], choose: _Choice) -> Placement:
    births = np.array([buffers[index].birth for index in order], np.int64)
    deaths = np.array([buffers[index].death for index in order], np.int64)
    sizes = np.array([buffers[index].size for index in order], np.int64)
    offsets = np.zeros(len(order), np.int64)
    for i in range(len(order)):
        overlaps = (births[:i] <= deaths[i]) & (deaths[:i] >= births[i]) & (sizes[:i] > 0)
        starts = offsets[:i][overlaps]
        by_start = np.argsort(starts, kind="stable")
        ends = (starts + sizes[:i][overlaps])[by_start]
        offsets[i] = choose(starts[by_start], ends, int(sizes[i]))
    by_index = np.zeros(len(order), np.int64)
    by_index[np.array(order, np.int64)] = offsets
    total = int((offsets + sizes).max(initial=0))
    return Placement(tuple(int(offset) for offset in by_index), total)


def _gaps(starts: _Indices, ends: _Indices) -> tuple[_Indices, _Indices]:
    """Return where the free gaps below and between buffers begin, and their lengths."""
    begins = np.concatenate(([0], np.maximum.accumulate(ends))).astype(np.int64)
    return begins, np.append(starts, np.iinfo(np.int64).max) - begins


def _lowest_gap(starts: _Indices, ends: _Indices, size: int) -> int:
    begins, lengths = _gaps(starts, ends)
    return int(begins[np.argmax(lengths >= size)])


def _tightest_gap(starts: _Indices, ends: _Indices, size: int) -> int:
    begins, lengths = _gaps(starts, ends)
    fitting = np.flatnonzero(lengths >= size)
    return int(begins[fitting[np.argmin(lengths[fitting])]])
