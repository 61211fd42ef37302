"""Barrier placement: a run on several threads cut where threads must meet, or a fault ends it.

A thunk waits for the others only if it touches what another thread may have touched since they
last met. The bytes touched are kept as a few ranges, so that a run costs time as it is long.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from rlx.codegen.schedule import AnyThunk, BranchThunk, BufferRef, LoopThunk, Thunk
from rlx.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class _Access:
    start: int
    stop: int
    writes: bool
    solo: bool


class _Intervals:
    """A set of byte ranges, kept as the fewest disjoint ones, in order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def add(self, start: int, stop: int) -> None:
        """Add a range, joined with those that it touches."""
        if start >= stop:
            return
        first = bisect_left(self._stops, start)
        last = bisect_right(self._starts, stop)
        if first < last:
            start, stop = min(start, self._starts[first]), max(stop, self._stops[last - 1])
        self._starts[first:last], self._stops[first:last] = [start], [stop]

    def meets(self, start: int, stop: int) -> bool:
        """True if a byte of `start .. stop` is in the set."""
        after = bisect_right(self._stops, start)
        return start < stop and after < len(self._starts) and self._starts[after] < stop


class _SinceBarrier:
    """What the thunks after the last barrier touched, by thread 0 alone or by all."""

    def __init__(self) -> None:
        self._touched = {key: _Intervals() for key in itertools.product((True, False), repeat=2)}

    def add(self, access: _Access) -> None:
        self._touched[access.solo, access.writes].add(access.start, access.stop)

    def conflicts(self, new: _Access) -> bool:
        """True if another thread may have written what `new` reads, or used what it writes."""
        return any(
            ranges.meets(new.start, new.stop)
            for (solo, writes), ranges in self._touched.items()
            if not (solo and new.solo) and (writes or new.writes)
        )


class Barrier:
    """Marks the place of a barrier among thunks."""


BARRIER = Barrier()
Step: TypeAlias = AnyThunk | Barrier


def plan_segments(
    thunks: Sequence[AnyThunk], is_solo: Callable[[AnyThunk], bool], fails: Callable[[Thunk], bool]
) -> list[list[Step]]:
    """Return the run as segments, with barriers before thunks that depend on other threads.

    A segment ends with the first barrier that follows a thunk which can fail: what comes after
    runs only if there was no fault.
    """
    segments: list[list[Step]] = [[]]
    since_barrier = _SinceBarrier()
    failing = False
    for thunk in thunks:
        accesses = _accesses(thunk, solo=is_solo(thunk))
        if any(since_barrier.conflicts(new) for new in accesses):
            segments[-1].append(BARRIER)
            since_barrier = _SinceBarrier()
            if failing:
                segments.append([])
                failing = False
        segments[-1].append(thunk)
        for access in accesses:
            since_barrier.add(access)
        failing = failing or any(fails(inner) for inner in flatten(thunk))
    return segments


def flatten(thunk: AnyThunk) -> Iterator[Thunk]:
    match thunk:
        case Thunk():
            yield thunk
        case LoopThunk(body=body, condition=condition):
            for inner in (*condition, *body):
                yield from flatten(inner)
        case BranchThunk(branches=branches):
            for branch in branches:
                for inner in branch:
                    yield from flatten(inner)


def _accesses(thunk: AnyThunk, *, solo: bool) -> list[_Access]:
    """Return the byte ranges that a thunk reads and writes, at its largest extents."""
    reads: list[BufferRef] = []
    writes: list[BufferRef] = []
    for inner in flatten(thunk):
        reads += inner.operands
        writes += inner.results
        writes += [] if inner.scratch is None else [inner.scratch]
    match thunk:
        case LoopThunk(predicate=predicate, trips=trips):
            reads += [] if predicate is None else [predicate]
            writes += [] if trips is None else [trips]
        case BranchThunk(selector=selector):
            reads.append(selector)
        case Thunk():
            pass
    return [
        _Access(ref.offset, ref.stop, is_write, solo)
        for refs, is_write in ((reads, False), (writes, True))
        for ref in refs
    ]
