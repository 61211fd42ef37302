"""Colours of columns and rows: which of them one derivative pass computes together.

A pass forward in the sum of some columns' unit vectors gives the sum of those columns. Columns of
one colour share no row, so that every entry can be read from such a sum:

    [a . .]          columns 0 and 2 have one colour, column 1 another:
    [b c .]     ->   [a .]
    [. d e]          [b c]
                     [e d]

A pass in reverse gives sums of rows. What is coloured is the graph whose edges join columns that
share a row (distance-2 colouring, Gebremedhin, Manne and Pothen, "What Color Is Your Jacobian?",
2005); sets of colours are the bits of one integer, so that each order of the columns takes time
proportional to the entries.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.sparse.pattern import Integers, Pattern

REVERSE = 2
"""Passes forward that take as long as one in reverse."""

_LARGEST_GRAPH = 1 << 19
"""Pairs of columns that share a row, above which the orders that need them are not tried."""

Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Coloring:
    """Colours of columns, which passes forward compute, and of rows, for passes in reverse.

    Colour -1 is computed by no pass of that direction.
    """

    columns: Integers
    rows: Integers

    @property
    def forward(self) -> int:
        """The number of passes forward."""
        return _count(self.columns)

    @property
    def reverse(self) -> int:
        """The number of passes in reverse."""
        return _count(self.rows)

    @property
    def cost(self) -> int:
        """What all passes cost, in passes forward."""
        return self.forward + REVERSE * self.reverse

    @property
    def swapped(self) -> Coloring:
        """The colouring of the transposed matrix."""
        return Coloring(self.rows, self.columns)


def _count(colors: Integers) -> int:
    return int(colors.max(initial=-1)) + 1


def color_jacobian(pattern: Pattern) -> Coloring:
    """Return the cheapest of some colourings: of columns, of rows, or of some of both."""
    flipped = pattern.T
    columns = Coloring(color_columns(pattern), _none(flipped))
    columns = _with_dense_rows(pattern, columns, (1, REVERSE))
    if REVERSE * int(flipped.row_sizes.max(initial=0)) >= columns.cost:
        return columns
    rows = Coloring(color_columns(flipped), _none(pattern))
    rows = _with_dense_rows(flipped, rows, (REVERSE, 1)).swapped
    return min(columns, rows, key=lambda coloring: coloring.cost)


def _none(pattern: Pattern) -> Integers:
    """Return no colour for each column."""
    return np.full(pattern.shape[1], -1)


def _with_dense_rows(pattern: Pattern, best: Coloring, prices: tuple[int, int]) -> Coloring:
    """Return a colouring of columns, but with the fullest rows computed by rows if that is less.

    `prices` are those of a colour of columns and of one of rows. No row needs fewer colours than
    it has entries: numbers of rows, which are powers of two, are tried as long as the others are
    half as full as there are colours.
    """
    sizes = pattern.row_sizes
    fullest = np.argsort(-sizes, kind="stable")

    def cost(coloring: Coloring) -> int:
        return prices[0] * coloring.forward + prices[1] * coloring.reverse

    dense = 1
    while dense < min(len(fullest), best.forward):
        if 2 * sizes[fullest[dense]] <= best.forward:
            chosen = np.isin(np.arange(len(sizes)), fullest[:dense])
            columns = color_columns(_only(pattern, ~chosen))
            rows = np.where(chosen, color_columns(_only(pattern, chosen).T), -1)
            best = min(best, Coloring(columns, rows), key=cost)
        dense *= 2
    return best


def _only(pattern: Pattern, rows: Mask) -> Pattern:
    """Return the pattern without the entries of other rows."""
    return pattern.take(np.where(rows, np.arange(len(rows)), -1))


def color_columns(pattern: Pattern) -> Integers:
    """Return a colour for each column; columns that share a row differ.

    The fewest colours of several orders: natural, largest first, smallest last and incidence
    degree, the last two for graphs of moderate size only. No order is tried after one that needs
    no more colours than the fullest row has entries, which is the least that any can have.
    """
    flipped = pattern.T
    least = int(pattern.row_sizes.max(initial=0))
    best: Integers | None = None
    for order in _orders(pattern):
        colors = _greedy(flipped, order)
        if best is None or colors.max(initial=0) < best.max(initial=0):
            best = colors
        if _count(best) <= least:
            break
    assert best is not None
    return best


def _orders(pattern: Pattern) -> Iterator[list[int]]:
    columns = pattern.shape[1]
    yield list(range(columns))
    sizes = pattern.row_sizes
    shared = np.bincount(pattern.indices, np.repeat(sizes - 1, sizes), columns)
    yield np.argsort(-shared, kind="stable").tolist()
    if (sizes * sizes).sum() <= _LARGEST_GRAPH:
        graph = pattern.T.after(pattern)
        degrees = graph.row_sizes
        yield _by_least_key(graph, degrees.tolist())[::-1]
        yield _by_least_key(graph, [0] * columns)


def _by_least_key(graph: Pattern, keys: list[int]) -> list[int]:
    """Take vertices of the least key; each lowers those of its neighbours by 1.

    With degrees as keys this is the smallest-last order, reversed; with zeros it is the one by
    incidence degree: the vertex of most neighbours taken is next.
    """
    starts, neighbours = graph.indptr.tolist(), graph.indices.tolist()
    heap = [(key, vertex) for vertex, key in enumerate(keys)]
    heapq.heapify(heap)
    order: list[int] = []
    taken = [False] * len(keys)
    while heap:
        key, vertex = heapq.heappop(heap)
        if taken[vertex] or key != keys[vertex]:
            continue
        taken[vertex] = True
        order.append(vertex)
        for other in neighbours[starts[vertex] : starts[vertex + 1]]:
            if not taken[other]:
                keys[other] -= 1
                heapq.heappush(heap, (keys[other], other))
    return order


def _greedy(flipped: Pattern, order: list[int]) -> Integers:
    """Give each column, of which `flipped` lists the rows, the first colour free in its rows."""
    starts, rows = flipped.indptr.tolist(), flipped.indices.tolist()
    used = [0] * flipped.shape[1]
    colors = np.zeros(len(order), np.int64)
    for column in order:
        here = rows[starts[column] : starts[column + 1]]
        taken = 0
        for row in here:
            taken |= used[row]
        color = ~taken & (taken + 1)
        for row in here:
            used[row] |= color
        colors[column] = color.bit_length() - 1
    return colors


def color_hessian(pattern: Pattern) -> Integers:
    """Return a colour for each column of a symmetric matrix, of which half the entries suffice.

    A star colouring: neighbours differ, and of every two neighbours one is the only neighbour of
    its colour that the other has. The fewest colours of the natural order, largest first, and of
    distance-2 colourings, which are star colourings, too.
    """
    natural = list(range(pattern.shape[0]))
    largest_first = np.argsort(-pattern.row_sizes, kind="stable").tolist()
    found = [_star(pattern, natural), _star(pattern, largest_first), color_columns(pattern)]
    return min(found, key=_count)


def _star(pattern: Pattern, order: list[int]) -> Integers:
    """Colour vertices greedily; each step looks at the neighbours of one vertex.

    For a vertex `w`, `once[w]` and `often[w]` are the colours that one and several of its
    neighbours have, `owner[w]` says which neighbour is the one. An edge whose end `w` has a colour
    that its other end sees often is read at `w`, where the other end's colour must stay unique:
    such colours are in `fixed[w]`.
    """
    count = len(order)
    starts, indices = pattern.indptr.tolist(), pattern.indices.tolist()
    colors = [0] * count  # as bits; 0 has no colour yet
    once, often, fixed = [0] * count, [0] * count, [0] * count
    owner: list[dict[int, int]] = [{} for _ in range(count)]
    for v in order:
        neighbours = [w for w in indices[starts[v] : starts[v + 1]] if w != v]
        taken = 0
        for w in neighbours:
            taken |= colors[w] | fixed[w]
            if colors[w] & often[v]:
                taken |= once[w] | often[w]
        color = colors[v] = ~taken & (taken + 1)
        for w in neighbours:
            if colors[w] & often[v]:
                fixed[w] |= color
            if color & often[w]:
                fixed[v] |= colors[w]
            elif color & once[w]:
                once[w] ^= color
                often[w] |= color
                fixed[v] |= colors[w]
                fixed[owner[w][color]] |= colors[w]
            else:
                once[w] |= color
                owner[w][color] = v
    return np.array([color.bit_length() - 1 for color in colors], np.int64)


def readable(pattern: Pattern, colors: Integers) -> Mask:
    """Return which entries are the only one of their row and of their column's colour."""
    count = _count(colors)
    own = colors[pattern.indices]
    keys = np.where(own < 0, 0, pattern.rows * count + own)
    alone: Mask = np.bincount(keys[own >= 0], minlength=1)[keys] == 1
    return alone & (own >= 0)
