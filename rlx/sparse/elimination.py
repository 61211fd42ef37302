"""Solutions of sparse systems by block elimination, in an order of small bandwidth.

Rows and columns are taken in the natural order or by breadth-first levels (reverse Cuthill-McKee),
whichever gives the smaller bandwidth `s`. In blocks of `s` the matrix is block-tridiagonal:

    S[k] = D[k] - L[k] W[k - 1]      W[k] = S[k] \\ U[k]      y[k] = S[k] \\ (b[k] - L[k] y[k - 1])
    x[k] = y[k] - W[k] x[k + 1]

Two scans over the blocks, of which each is made of its entries when its turn comes: the work is
that of `n / s` dense systems of `s` unknowns, the memory `n * s` numbers.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.dataclass import dataclass
from rlx.errors import UnsupportedError
from rlx.ir.source_lines import calling_source
from rlx.sparse.constant_indices import taken
from rlx.sparse.pattern import Integers, Pattern, union
from rlx.transforms.control import scan

_LARGEST = 1 << 29
"""Numbers that an elimination keeps at most, `n * s`."""


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of the k-th block of one block diagonal, padded to equally many for all k."""

    sources: Integers
    """The place of each in the values, `[blocks, most]`; padding is the place after the last."""
    rows: Integers
    columns: Integers


@dataclass(frozen=True, slots=True)
class Blocks:
    """A square pattern as a block-tridiagonal matrix, permuted and padded to whole blocks."""

    size: int
    count: int
    order: Integers
    """The row and column of the matrix that each of the permuted one is."""
    lower: Entries
    diagonal: Entries
    upper: Entries


@functools.lru_cache(maxsize=32)
def needs_factors(pattern: Pattern) -> bool:
    """True if elimination in blocks would keep too many numbers, and that by entries may do.

    The latter exchanges no rows: it is inexact, or ends, where a pivot is small. A diagonal with
    absent entries has such pivots.
    """
    n = pattern.shape[0]
    size = _narrowest(union([pattern, pattern.T]))[1]
    return n * size > _LARGEST and (pattern.rows == pattern.indices).sum() == n


def solve(pattern: Pattern, data: Any, b: Any) -> Any:
    """Return x with `a @ x = b` for a vector `[n]` or a matrix `[n, k]`, by elimination."""
    blocks = block_tridiagonal(pattern)
    rows, size = pattern.shape[0], blocks.size
    width = 1 if b.ndim == 1 else b.shape[1]
    dtype = rnp.result_type(data, b)
    ends = rnp.asarray(np.array([0, 1], dtype.name))
    values = rnp.concatenate([rnp.astype(data, dtype), ends])  # none, and the padded diagonal's
    padded = np.append(blocks.order, np.full(blocks.count * size - rows, rows))
    given = rnp.concatenate([rnp.reshape(b, (rows, width)), rnp.zeros((1, width), dtype)])
    right = rnp.reshape(taken(given, padded), (blocks.count, size, width))

    def block(entries: Any) -> Any:
        found, at, columns = entries
        dense = rnp.zeros(size * size, dtype).at[at * size + columns].add(found)
        return rnp.reshape(dense, (size, size))

    def eliminated(before: Any, given: Any) -> Any:
        lower, diagonal, upper, b = given
        coupled = _times(lower, before, block)
        sides = rnp.concatenate([block(upper), b], 1) - coupled.at[:, :size].set(0)
        found = rnp.linalg.solve(block(diagonal) - coupled[:, :size], sides)
        return found, found

    def substituted(after: Any, found: Any) -> Any:
        x = found[:, size:] - found[:, :size] @ after
        return x, x

    parts = [
        (rnp.reshape(taken(values, e.sources.ravel()), e.sources.shape),
         e.rows, e.columns)
        for e in (blocks.lower, blocks.diagonal, blocks.upper)
    ]  # fmt: skip
    first = rnp.zeros((size, size + width), dtype)
    found = scan(eliminated, first, (*parts, right))[1]
    x = scan(substituted, rnp.zeros((size, width), dtype), found, reverse=True)[1]
    back = np.empty(rows, np.int64)
    back[blocks.order] = np.arange(rows)
    return rnp.reshape(taken(rnp.reshape(x, (blocks.count * size, width)), back), b.shape)


def _times(entries: Any, x: Any, block: Any) -> Any:
    """Return the product of a block with a matrix: by entries, where the block has few."""
    values, rows, columns = entries
    if 8 * values.shape[0] > x.shape[0] ** 2:
        return block(entries) @ x
    terms = values[:, None] * rnp.take(x, columns, axis=0)
    return rnp.zeros(x.shape, x.dtype).at[rows].add(terms)


def block_tridiagonal(pattern: Pattern) -> Blocks:
    """Return the blocks of a square pattern in the better of two orders.

    Raises:
        UnsupportedError: the elimination would keep more than 2**29 numbers.
    """
    n = pattern.shape[0]
    order, size = _narrowest(union([pattern, pattern.T]))
    if n * size > _LARGEST:
        raise UnsupportedError(
            f"the elimination of {n} unknowns of bandwidth {size} keeps {n * size} numbers; it "
            f"keeps at most {_LARGEST}",
            source=calling_source(),
            remedy="solve by an iterative method with products A @ x",
        )
    count = max(-(-n // size), 1)
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    rows, columns = place[pattern.rows], place[pattern.indices]
    ends = np.arange(n, count * size)
    rows, columns = np.append(rows, ends), np.append(columns, ends)
    sources = np.append(np.arange(pattern.nnz), np.full(len(ends), pattern.nnz + 1))
    shape = size, count, pattern.nnz
    parts = [_entries(rows, columns, sources, shape, side) for side in (-1, 0, 1)]
    return Blocks(size, count, order, *parts)


def _narrowest(joined: Pattern) -> tuple[Integers, int]:
    """Return the order of a symmetric pattern that has the smaller bandwidth, and that, 1 at least.

    The natural one, or by levels.
    """
    order = np.arange(joined.shape[0])
    size = max(_bandwidth(joined, order), 1)
    if size > joined.row_sizes.max(initial=0):  # half of a row's entries is the least there is
        by_levels = _by_levels(joined)
        narrower = max(_bandwidth(joined, by_levels), 1)
        order, size = min((order, size), (by_levels, narrower), key=lambda found: found[1])
    return order, size


def _entries(
    rows: Integers, columns: Integers, sources: Integers, shape: tuple[int, int, int], side: int
) -> Entries:
    """Return the entries of the blocks that are `side` to the right of the diagonal.

    `shape` is the size of a block, their number, and the place of no value.
    """
    size, count, none = shape
    block = rows // size
    own = np.flatnonzero(columns // size - block == side)
    own = own[np.argsort(block[own], kind="stable")]
    sizes = np.bincount(block[own], minlength=count)
    within = np.arange(len(own)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    most = max(int(sizes.max(initial=0)), 1)
    tables = []
    for values, padding in ((sources, none), (rows % size, 0), (columns % size, 0)):
        table = np.full((count, most), padding)
        table[block[own], within] = values[own]
        tables.append(table)
    return Entries(*tables)


def _bandwidth(pattern: Pattern, order: Integers) -> int:
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    distances = np.abs(place[pattern.rows] - place[pattern.indices])
    return int(distances.max(initial=0))


def _by_levels(pattern: Pattern) -> Integers:
    """Return the vertices of a symmetric pattern by breadth-first levels, component by component.

    A component starts at a vertex of the last level of a search, which is far from others.
    """
    search, order = _Search(pattern), list[int]()
    sizes = pattern.row_sizes.tolist()
    for vertex in np.argsort(pattern.row_sizes, kind="stable").tolist():
        if not search.found[vertex]:
            last = search.levels(vertex, 1)[-1]
            for level in search.levels(min(last, key=sizes.__getitem__), 2):
                order += level
    return np.array(order, np.int64)


class _Search:
    """Breadth-first searches in a graph."""

    def __init__(self, pattern: Pattern) -> None:
        self._starts, self._neighbours = pattern.indptr.tolist(), pattern.indices.tolist()
        self.found = [0] * pattern.shape[0]
        """The number of the search that found each vertex last; 0 for none."""

    def levels(self, start: int, number: int) -> list[list[int]]:
        """Return the levels of search `number`; it goes where no search of its number was."""
        found, starts, neighbours = self.found, self._starts, self._neighbours
        found[start] = number
        levels = [[start]]
        while levels[-1]:
            following: list[int] = []
            for vertex in levels[-1]:
                for other in neighbours[starts[vertex] : starts[vertex + 1]]:
                    if found[other] < number:
                        found[other] = number
                        following.append(other)
            levels.append(following)
        return levels[:-1]
