"""Colourings are valid for random patterns, and need no more colours than they must."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.sparse import Pattern
from rlx.sparse.coloring import (
    _by_least_key,
    _greedy,
    _star,
    color_columns,
    color_hessian,
    color_jacobian,
    readable,
)
from rlx.sparse.pattern import from_entries

Bools = NDArray[np.bool_]


def pattern_of(dense: Any) -> Pattern:
    rows, columns = np.nonzero(dense)
    return from_entries(rows, columns, np.shape(dense))


def drawn(seed: int, *, symmetric: bool = False) -> Bools:
    """Return a random pattern, often with full rows and columns."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(1, 25, 2)
    dense = rng.random((rows, columns)) < rng.random() * 0.4
    dense[rng.random(rows) < 0.1] = True
    dense[:, rng.random(columns) < 0.1] = True
    if symmetric:
        dense = dense[: min(dense.shape), : min(dense.shape)]
        dense = dense | dense.T | (np.eye(len(dense)) > rng.integers(2))
    return np.asarray(dense, np.bool_)


def read(pattern: Pattern, colors: Any) -> Bools:
    """Return the matrix of entries that can be read from sums of columns of one colour."""
    found = np.zeros(pattern.shape, np.bool_)
    found[pattern.rows, pattern.indices] = readable(pattern, colors)
    return found


@pytest.mark.parametrize("seed", range(80))
def test_columns_of_one_colour_share_no_row(seed: int) -> None:
    dense = drawn(seed)
    colors = color_columns(pattern_of(dense))
    for color in range(colors.max() + 1):
        assert dense[:, colors == color].sum(1).max(initial=0) <= 1
    assert colors.max() + 1 >= dense.sum(1).max(initial=0)


@pytest.mark.parametrize("seed", range(80))
def test_every_entry_is_read_from_a_column_or_from_a_row(seed: int) -> None:
    dense = drawn(seed)
    pattern = pattern_of(dense)
    coloring = color_jacobian(pattern)
    assert (read(pattern, coloring.columns) | read(pattern.T, coloring.rows).T)[dense].all()
    assert coloring.cost <= color_columns(pattern).max() + 1


@pytest.mark.parametrize("seed", range(80))
def test_every_entry_of_a_symmetric_matrix_is_read_at_one_of_its_places(seed: int) -> None:
    dense = drawn(seed, symmetric=True)
    pattern = pattern_of(dense)
    orders = [range(len(dense)), np.random.default_rng(seed).permutation(len(dense))]
    for colors in [*(_star(pattern, list(map(int, o))) for o in orders), color_hessian(pattern)]:
        found = read(pattern, colors)
        assert (found | found.T)[dense].all()


ARROW = np.eye(30, dtype=bool)
ARROW[0] = ARROW[:, 0] = True
BAND = np.tril(np.triu(np.ones((30, 30), bool), -1), 1)


@pytest.mark.parametrize(
    ("dense", "forward", "reverse"),
    [
        (BAND, 3, 0),
        (ARROW, 2, 1),
        (ARROW[:1], 0, 1),
        (ARROW[:, :1], 1, 0),
        (np.concatenate([np.eye(30, dtype=bool), ARROW[:2]]), 2, 1),
        (np.zeros((3, 3), bool), 1, 0),
    ],
    ids=["band", "arrow", "row", "column", "dense_row", "zeros"],
)
def test_jacobians_take_few_passes(dense: Bools, forward: int, reverse: int) -> None:
    coloring = color_jacobian(pattern_of(dense))
    assert (coloring.forward, coloring.reverse) == (forward, reverse)


@pytest.mark.parametrize(("dense", "count"), [(BAND, 3), (ARROW, 2)], ids=["band", "arrow"])
def test_hessians_take_few_passes(dense: Bools, count: int) -> None:
    assert color_hessian(pattern_of(dense)).max() + 1 == count


def test_orders_by_degree_need_fewer_colours_than_the_natural_one() -> None:
    """A crown: the natural order colours its pairs one by one, the smallest-last order by two."""
    n = 8
    crown = np.ones((n, n), bool) & ~np.eye(n, dtype=bool)
    left, right = np.nonzero(crown)
    edges = np.arange(len(left))
    ends = np.stack([2 * left, 2 * right + 1])
    pattern = from_entries(np.tile(edges, 2), ends.ravel(), (len(edges), 2 * n))
    graph = pattern.T.after(pattern)
    last = _by_least_key(graph, graph.row_sizes.tolist())[::-1]
    degree = _by_least_key(graph, [0] * 2 * n)
    counts = [_greedy(pattern.T, order).max() + 1 for order in (list(range(2 * n)), last, degree)]
    assert counts[0] == n
    assert counts[2] == 2
    assert color_columns(pattern).max() + 1 == 2


@pytest.mark.slow
def test_a_grid_of_1e5_unknowns_is_coloured() -> None:
    n = 316
    grid = np.arange(n * n).reshape(n, n)
    pairs = [(grid, grid), (grid[1:], grid[:-1]), (grid[:, 1:], grid[:, :-1])]
    left, right = (np.concatenate([pair[at].ravel() for pair in pairs]) for at in (0, 1))
    ends = np.append(left, right), np.append(right, left)
    pattern = from_entries(*ends, (n * n, n * n))
    assert color_jacobian(pattern).cost <= 8
    assert color_hessian(pattern).max() + 1 <= 6
