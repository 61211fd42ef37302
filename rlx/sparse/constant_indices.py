"""Gathers and sums at indices that are known when the program is traced.

Tables of indices repeat themselves where a problem does: of a thousand equal stages one is stored,
and how much its indices grow from a stage to the next. Generated C is as long for a thousand
stages as for ten.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.dataclass import dataclass
from rlx.sparse.pattern import Integers
from rlx.tracing.trace import current_trace

_LONGEST_PERIOD = 512
_LOOKED_AT = 2048
"""Indices in the middle of a table in which a period is looked for."""
_WORTH = 4
"""A table is computed if it is so many times longer than what is stored of it."""


def taken(x: Any, indices: Integers) -> Any:
    """Return the slices of `x` along axis 0."""
    return rnp.take(x, as_indices(indices), axis=0)


def as_indices(indices: Integers) -> Any:
    """Return a table of indices, computed where it repeats itself; as i32, if they fit."""
    fits = indices.max(initial=0) < np.iinfo(np.int32).max
    table = indices.astype(np.int32) if fits else indices
    found = None if current_trace() is None or table.ndim != 1 else find_repetition(table)
    if found is None:
        return table
    stop = found.start + found.count * found.period
    first = table[found.start : found.start + found.period]
    growth = table[found.start + found.period :][: found.period] - first
    turns = rnp.arange(found.count, dtype=table.dtype)
    repeated = first + rnp.reshape(turns, (-1, 1)) * growth
    return rnp.concatenate([table[: found.start], rnp.ravel(repeated), table[stop:]])


@dataclass(frozen=True, slots=True)
class Repetition:
    """A part of a table: `table[start + k * period + j] = first[j] + k * growth[j]`."""

    start: int
    period: int
    count: int


def find_repetition(table: Any) -> Repetition | None:
    """Return the longest part that repeats itself, with the least period; None if it is short."""
    length = len(table)
    middle = table[length // 4 : min(length // 4 + _LOOKED_AT, 3 * length // 4)]
    for period in range(1, min(_LONGEST_PERIOD, len(middle) // 3) + 1):
        if not _bends(middle, period).any():
            break
    else:
        return None
    bends = np.flatnonzero(_bends(table, period))
    ends = np.concatenate([[-1], bends, [length - 2 * period]])
    gaps = np.diff(ends) - 1
    longest = int(np.argmax(gaps))
    count = int(gaps[longest]) // period + 2
    stored = length - count * period + 2 * period
    if stored * _WORTH > length:
        return None
    return Repetition(int(ends[longest]) + 1, period, count)


def _bends(table: Any, period: int) -> Any:
    """Return where the growth from a period to the next changes."""
    growth = table[period:] - table[:-period]
    return growth[period:] != growth[:-period]
