"""Fill-reducing orders of symmetric patterns, and the structure of the factors that they give.

Minimum degree on the quotient graph, with the approximate degrees, element absorption and mass
elimination of Amestoy, Davis and Duff, "An approximate minimum degree ordering algorithm" (1996).
"""

from __future__ import annotations

import functools
import heapq

import numpy as np

from rlx.dataclass import dataclass
from rlx.errors import UnsupportedError
from rlx.ir.source_lines import calling_source
from rlx.sparse.pattern import Integers, Pattern, from_entries, union

LARGEST_FACTOR = 1 << 24
"""Entries of a factor: above this, a factorization is refused rather than planned."""


@dataclass(frozen=True, slots=True)
class Structure:
    """The structure of the factors of a square pattern, rows and columns permuted alike.

    `lower` is strictly triangular with ones on its diagonal, and has the entries of the
    transposed `upper`. Both have the values of one array, in the order of `upper`.
    """

    order: Integers
    """The row and column of the matrix that each of the permuted one is, `[n]`."""
    upper: Pattern
    """Entries above the diagonal."""
    places: Integers
    """The place in `upper` of each entry of its transpose, row by row."""
    entries: Pattern
    """The permuted matrix."""
    sources: Integers
    """The place of each of its entries in the values of the matrix."""


@functools.lru_cache(maxsize=32)
def structure_of(pattern: Pattern) -> Structure:
    """Return the structure of the factors of a square pattern in its order of minimum degree.

    Raises:
        UnsupportedError: a factor has more than 2**24 entries.
    """
    n = pattern.shape[0]
    order, columns = minimum_degree(union([pattern, pattern.T]))
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    sizes = [len(each) for each in columns]
    flat = np.fromiter((c for each in columns for c in each), np.int64, sum(sizes))
    upper = from_entries(np.repeat(np.arange(n), sizes), place[flat], (n, n))
    places = np.argsort(upper.indices, kind="stable")
    rows, columns_of = place[pattern.rows], place[pattern.indices]
    entries = from_entries(rows, columns_of, (n, n))
    return Structure(order, upper, places, entries, np.lexsort((columns_of, rows)))


def minimum_degree(pattern: Pattern) -> tuple[Integers, list[list[int]]]:
    """Return an order of the vertices of a symmetric pattern, and what each is joined to.

    The neighbours of a vertex when it is eliminated are those of its row of the factor.

    Raises:
        UnsupportedError: there are more than 2**24 of them.
    """
    graph = _QuotientGraph(pattern)
    pending = [(degree, v) for v, degree in enumerate(graph.degrees)]
    heapq.heapify(pending)
    while pending:
        degree, v = heapq.heappop(pending)
        if degree == graph.degrees[v]:  # others are outdated
            for other in graph.eliminate(v):
                heapq.heappush(pending, (graph.degrees[other], other))
    return np.array(graph.order, np.int64), graph.columns


class _QuotientGraph:
    """A graph in which an eliminated vertex is an element: a clique of its neighbours."""

    def __init__(self, pattern: Pattern) -> None:
        starts, neighbours = pattern.indptr.tolist(), pattern.indices.tolist()
        n = pattern.shape[0]
        self._adjacent = [set(neighbours[starts[v] : starts[v + 1]]) - {v} for v in range(n)]
        self._elements: list[set[int]] = [set() for _ in range(n)]
        """The elements that contain each vertex."""
        self._members: dict[int, set[int]] = {}
        self.degrees = [len(each) for each in self._adjacent]
        """Bounds of the number of neighbours; -1 for eliminated vertices."""
        self.order: list[int] = []
        self.columns: list[list[int]] = []
        """The neighbours of each eliminated vertex, in order."""
        self._entries = 0

    def eliminate(self, v: int) -> set[int]:
        """Eliminate a vertex, and those that become equal to it; return the changed ones."""
        absorbed = self._elements[v]
        element = self._adjacent[v].union(*(self._members.pop(e) for e in absorbed))
        element.discard(v)
        self._append(v, element)
        equal = []
        for u in element:
            adjacent, elements = self._adjacent[u], self._elements[u]
            adjacent -= element
            adjacent.discard(v)
            elements -= absorbed
            if adjacent or elements:
                elements.add(v)
            else:
                equal.append(u)
        for u in equal:
            element.remove(u)
            self._append(u, element)
        self._members[v] = element
        self._update_degrees(v, element)
        return element

    def _append(self, v: int, neighbours: set[int]) -> None:
        self.order.append(v)
        self.columns.append(list(neighbours))
        self.degrees[v] = -1
        self._entries += len(neighbours)
        if self._entries > LARGEST_FACTOR:
            raise UnsupportedError(
                f"a factor of {len(self.degrees)} unknowns has more than {LARGEST_FACTOR} entries",
                source=calling_source(),
                remedy="solve by an iterative method with products A @ x",
            )

    def _update_degrees(self, v: int, element: set[int]) -> None:
        """Bound the neighbours of the vertices of an element: those outside of it, and it."""
        outside: dict[int, int] = {v: 0}
        for u in element:
            for e in self._elements[u]:
                if e != v:
                    outside[e] = outside.get(e, len(self._members[e])) - 1
        size, left = len(element) - 1, len(self.degrees) - len(self.order) - 1
        for u in element:
            others = sum(outside[e] for e in self._elements[u])
            self.degrees[u] = min(left, size + len(self._adjacent[u]) + others)
