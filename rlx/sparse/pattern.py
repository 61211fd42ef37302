"""Sparsity patterns: one ascending set of columns per row, in compressed sparse rows.

    indptr   [0, 2, 2, 3]      row 0 has columns 1 and 4, row 1 none, row 2 column 0
    indices  [1, 4, 0]

All operations are whole-array NumPy: entries are sorted as integers, `row * columns + column`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import UnsupportedError

Integers = NDArray[np.int64]

LARGEST_PATTERN = 1 << 28
"""Entries: above this, the pattern of a value is refused rather than allocated."""


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Which elements of a matrix may be nonzero. Equal patterns have equal hashes."""

    shape: tuple[int, int]
    indptr: Integers
    """For each row, where its columns start in `indices`; then the number of entries."""
    indices: Integers
    """Columns, ascending within a row."""

    @property
    def nnz(self) -> int:
        """The number of entries."""
        return len(self.indices)

    @property
    def rows(self) -> Integers:
        """The row of each entry."""
        return np.repeat(np.arange(self.shape[0]), self.row_sizes)

    @property
    def row_sizes(self) -> Integers:
        """The number of entries of each row."""
        return np.diff(self.indptr)

    @property
    def T(self) -> Pattern:  # noqa: N802  NumPy's name
        """The pattern of the transposed matrix."""
        return from_entries(self.indices, self.rows, (self.shape[1], self.shape[0]))

    def todense(self) -> NDArray[np.bool_]:
        """Return a boolean matrix."""
        dense = np.zeros(self.shape, np.bool_)
        dense[self.rows, self.indices] = True
        return dense

    def to_scipy(self) -> Any:
        """Return a `scipy.sparse.csr_array` of ones."""
        from scipy.sparse import csr_array

        return csr_array((np.ones(self.nnz), self.indices, self.indptr), shape=self.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pattern) or self.shape != other.shape:
            return False
        same = np.array_equal(self.indptr, other.indptr)
        return same and np.array_equal(self.indices, other.indices)

    def __hash__(self) -> int:
        return hash((self.shape, self.indptr.tobytes(), self.indices.tobytes()))

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"Pattern({rows} x {columns}, {self.nnz} nonzeros)"

    def take(self, rows: Integers) -> Pattern:
        """Return the given rows, in that order; row -1 is empty."""
        sizes = np.append(self.row_sizes, 0)[rows]
        indptr = _starts(sizes)
        require_small(int(indptr[-1]))
        starts = np.append(self.indptr[:-1], 0)[rows]
        places = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], sizes)
        return Pattern((len(rows), self.shape[1]), indptr, self.indices[places])

    def fold(self, groups: Integers, count: int) -> Pattern:
        """Return `count` rows: row `g` is the union of the rows `r` with `groups[r] == g`."""
        return from_entries(np.repeat(groups, self.row_sizes), self.indices, (count, self.shape[1]))

    def after(self, inner: Pattern) -> Pattern:
        """Return the boolean matrix product `self @ inner`."""
        return inner.take(self.indices).fold(self.rows, self.shape[0])


def require_small(entries: int) -> None:
    """Raise UnsupportedError for a pattern of more than `LARGEST_PATTERN` entries."""
    if entries > LARGEST_PATTERN:
        raise UnsupportedError(
            f"its sparsity pattern has {entries} entries; a pattern has at most {LARGEST_PATTERN}",
            remedy="use rlx.jvp or rlx.vjp where every result depends on every argument",
        )


def empty(rows: int, columns: int) -> Pattern:
    """Return a pattern without entries."""
    return Pattern((rows, columns), np.zeros(rows + 1, np.int64), np.zeros(0, np.int64))


def from_entries(rows: Any, columns: Any, shape: tuple[int, int]) -> Pattern:
    """Return the pattern of the entries at `(rows, columns)`, which may repeat."""
    width = max(shape[1], 1)
    keys = np.asarray(rows, np.int64) * width + np.asarray(columns, np.int64)
    if not (keys[1:] > keys[:-1]).all():
        keys = np.sort(keys)  # np.unique hashes, which takes ten times as long
        keys = keys[np.append(True, keys[1:] != keys[:-1])]
    found, columns = np.divmod(keys, width)
    return Pattern(shape, _starts(np.bincount(found, minlength=shape[0])), columns)


def stack(parts: Sequence[Pattern]) -> Pattern:
    """Return the rows of all parts, one part after the other."""
    starts = np.cumsum([0, *(part.nnz for part in parts)])
    indptr = [part.indptr[:-1] + start for part, start in zip(parts, starts, strict=False)]
    shape = sum(part.shape[0] for part in parts), parts[0].shape[1]
    indices = np.concatenate([part.indices for part in parts])
    return Pattern(shape, np.concatenate([*indptr, starts[-1:]]), indices)


def union(parts: Sequence[Pattern]) -> Pattern:
    """Return the entries of all parts, which have one shape."""
    return functools.reduce(_union, parts)


def _union(a: Pattern, b: Pattern) -> Pattern:
    if b.nnz == 0 or a == b:
        return a
    if a.nnz == 0:
        return b
    rows, columns = np.append(a.rows, b.rows), np.append(a.indices, b.indices)
    return from_entries(rows, columns, a.shape)


def _starts(sizes: Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
