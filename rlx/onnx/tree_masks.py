"""Ensembles of decision trees by masks of leaves: all tests of a tree, and no walk.

The leaves of a tree have a bit each, those for tests that hold before those for tests that fail. A
test that fails clears the bits of the leaves for which it had to hold; the lowest bit that is left
is the leaf that a row reaches (Lucchese et al., QuickScorer, 2015). A tree of more leaves than bits
is divided into parts, each a subtree below the tests that lead to it: a row that another part
decides finds the weight 0. Vectors of rows share each test, without gathers: trees of a few dozen
leaves take a tenth of the time of a walk to their depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.onnx.tree_tables import GT, GTE, LEQ, LT, NEQ, Trees
from rlx.tracing.apply import emit
from rlx.transforms.control import fori_loop, scan

Array = np.ndarray[Any, Any]

_BITS = 31
"""Leaves of a part: the bits of an i32 but the sign."""
_LANES = 8
"""Rows, added ones too, that a vector has at least."""
_ORDERED_ROWS = 32
"""Rows from which on trees are added in the order of the model."""
_MANY_ROWS = 128
"""Rows from which on a column is read in place: for fewer, those of a part are copied together."""
_BLOCK = 512
"""Rows whose features stay in the cache, at least."""
_GROUPS = 4
"""Groups of parts of similar size, where sizes differ."""


@dataclass(frozen=True, slots=True)
class Test:
    """A node of a part, and the bits that stay where its test holds and where it fails."""

    node: int
    where_true: int
    where_false: int


@dataclass(frozen=True, slots=True)
class Part:
    """A subtree of at most 31 leaves: its tests, and its leaves by bit; -1 for a weight of 0."""

    tests: tuple[Test, ...]
    leaves: tuple[int, ...]


def votes(trees: Trees, x: Any, weights: Array, aggregate: str) -> Any:
    """Return sums (or means, minima, maxima) over trees of the weights of the leaves reached."""
    trees.require_features(x.shape[1])
    return total(trees, x, weights[trees.order], aggregate)


def total(trees: Trees, x: Any, own: Array, aggregate: str) -> Any:
    """Return what `votes` does, of weights in the order of the tables."""
    parts = _parts(trees, _worth(x.shape[0])) if aggregate in ("SUM", "AVERAGE") else None
    if parts is None:
        return trees.total(x, own, aggregate)
    sums = _sums(trees, parts, x, own)
    return sums / trees.roots.size if aggregate == "AVERAGE" else sums


def _worth(rows: Any) -> int:
    """Return how many tests by masks take the time of one step of a walk, measured."""
    if not isinstance(rows, int):
        return 24
    return 7 if rows == 1 else min(24, 3 * rows)


def _parts(trees: Trees, worth: int) -> list[Part] | None:
    """Return the parts of all trees, in order; None where walks take less time.

    A step of a walk takes the time of `worth` tests.
    """
    budget = worth * int(trees.depths.sum())
    inner = np.flatnonzero(trees.child != np.arange(trees.child.size))
    if trees.members is not None or not budget or inner.size > budget:
        return None
    cut = _cuts(trees, inner)
    parent = np.full(trees.child.size, -1)
    parent[trees.child[inner]] = parent[trees.child[inner] + 1] = inner
    parts, tests = [], 0
    for top in np.flatnonzero(cut).tolist():
        parts.append(_part(trees.child, parent, cut, top))
        tests += len(parts[-1].tests)
        if tests > budget:
            return None
    return parts


def _cuts(trees: Trees, inner: Array) -> Array:
    """Return which nodes are the tops of parts: roots, and the larger children of full parts."""
    child, cut = trees.child.tolist(), np.zeros(trees.child.size, bool)
    cut[trees.roots] = True
    leaves = [1] * len(child)
    for node in reversed(inner.tolist()):  # children have larger numbers than parents
        pair = [child[node], child[node] + 1]
        most = _BITS if cut[node] else _BITS - 1  # the last bit is for rows of other parts
        while leaves[pair[0]] + leaves[pair[1]] > most:
            larger = max(pair, key=lambda each: leaves[each])
            cut[larger], leaves[larger] = True, 1
        leaves[node] = leaves[pair[0]] + leaves[pair[1]]
    return cut


def _part(child: Array, parent: Array, cut: Array, top: int) -> Part:
    """Return the part below a node, down to leaves and to the tops of other parts."""
    tests: list[Test] = []
    leaves: list[int] = []

    def add(node: int) -> None:
        below = int(child[node])
        if below == node or (cut[node] and node != top):
            leaves.append(node if below == node else -1)
            return
        first = len(leaves)
        add(below + 1)
        tests.append(Test(node, -1, ~_span(first, len(leaves))))
        add(below)

    add(top)
    node, own = top, ~_span(0, len(leaves))
    while parent[node] >= 0:
        above = int(parent[node])
        holds = node == child[above] + 1
        tests.append(Test(above, -1 if holds else own, own if holds else -1))
        node = above
    return Part(tuple(tests) or (Test(top, -1, -1),), tuple(leaves))


def _span(first: int, end: int) -> int:
    return (1 << end) - (1 << first)


class _Tests:
    """The tests of some parts in tables, those of a part after each other.

    A test holds where its feature is from `low` to `high`, whatever its comparison is.
    """

    def __init__(self, trees: Trees, parts: Sequence[Part], own: Array, dtype: Any) -> None:
        self.counts = np.array([len(part.tests) for part in parts], np.int32)
        self.weights = np.zeros((len(parts), _BITS + 1, own.shape[1]), own.dtype)
        for number, part in enumerate(parts):
            for bit, leaf in enumerate(part.leaves):
                if leaf >= 0:
                    self.weights[number, bit] = own[leaf]
        tests = [test for part in parts for test in part.tests]
        node = np.array([test.node for test in tests])
        true, false = (
            np.array([getattr(test, name) for test in tests], np.int32)
            for name in ("where_true", "where_false")
        )
        mode, limit = trees.mode[node], trees.threshold[node].astype(dtype)
        lowest, highest = np.array([-np.inf, np.inf], dtype)
        below = np.where(limit == lowest, np.nan, np.nextafter(limit, lowest))
        above = np.where(limit == highest, np.nan, np.nextafter(limit, highest))
        high = np.where(mode == LT, below, np.where((mode == GT) | (mode == GTE), highest, limit))
        low = np.where(mode == GT, above, np.where((mode == LEQ) | (mode == LT), lowest, limit))
        unequal = mode == NEQ
        missing = np.where(trees.missing[node] | unequal, true, false)
        true, false = np.where(unequal, false, true), np.where(unequal, true, false)
        self.has_low = not np.all(low == lowest)
        self.has_missing = bool(np.any(missing != false))
        self.tables = [trees.feature[node], high.astype(dtype), true, false]
        self.tables += [low.astype(dtype)] * self.has_low + [missing] * self.has_missing

    def rows(self) -> list[Array]:
        """Return the tables with a row for each part, filled up by tests that clear nothing."""
        place = np.arange(self.counts.max())
        ends = np.cumsum(self.counts)[:, None]
        at = np.minimum(ends - self.counts[:, None] + place, ends - 1)
        return [table[at] for table in self.tables]  # the last one again

    def bits(self, value: Any, tables: Sequence[Any]) -> Any:
        """Return the bits that tests of values leave, by their rows of the tables."""
        high, true, false, *rest = tables
        holds = rnp.less_equal(value, high)
        if self.has_low:
            holds = rnp.logical_and(holds, rnp.greater_equal(value, rest[0]))
        found = rnp.where(holds, true, false)
        return rnp.where(rnp.isnan(value), rest[-1], found) if self.has_missing else found


def _sums(trees: Trees, parts: list[Part], x: Any, own: Array) -> Any:
    """Return the sum over all trees of the weights of the leaves that rows reach."""
    rows = x.shape[0]
    if not isinstance(rows, int) or rows >= _ORDERED_ROWS:
        return _sums_in_blocks(_Tests(trees, parts, own, x.dtype), x)
    sums: Any = None
    add = _sum_of_one_row if rows == 1 else _sums_part_by_part
    padded = rnp.pad(x, ((0, max(0, _LANES - rows)), (0, 0))) if rows > 1 else x
    for some in _of_similar_size(parts):
        found = add(_Tests(trees, some, own, x.dtype), padded)
        sums = found if sums is None else sums + found
    return sums[:rows]


def _of_similar_size(parts: list[Part]) -> list[list[Part]]:
    """Return parts in groups by the number of their tests, to which tables are filled up."""
    ordered = sorted(parts, key=lambda part: len(part.tests))
    size = -(-len(ordered) // _GROUPS)
    groups = [ordered[first : first + size] for first in range(0, len(ordered), size)]
    fills = sum(len(group) * len(group[-1].tests) for group in groups)
    is_even = 4 * len(ordered) * len(ordered[-1].tests) < 5 * fills
    return [parts] if is_even else groups


def _sum_of_one_row(tests: _Tests, x: Any) -> Any:
    """Vectors hold the parts: the tests of all are made at once."""
    feature, *tables = (table.T for table in tests.rows())
    value = rnp.reshape(rnp.take(x, feature.ravel(), axis=1, mode="clip"), feature.shape)
    found = tests.bits(value, tables)
    left = found[0]
    for number in range(1, len(feature)):
        left = rnp.bitwise_and(left, found[number])
    return rnp.sum(_weights_of(tests, left, _first_places(tests)), 0, keepdims=True)


def _sums_in_blocks(tests: _Tests, x: Any) -> Any:
    """Blocks of rows whose features stay in the cache."""
    rows = x.shape[0]
    if not isinstance(rows, int) or rows < 2 * _BLOCK:
        return _sums_part_by_part(tests, x)
    count = rows // _BLOCK
    size = 16 * -(-rows // (16 * count))
    padded = rnp.pad(x, ((0, count * size - rows), (0, 0)))
    blocks = rnp.reshape(padded, (count, size, x.shape[1]))
    _, sums = scan(lambda _, block: ((), _sums_part_by_part(tests, block)), (), blocks)
    return rnp.reshape(sums, (count * size, sums.shape[2]))[:rows]


def _sums_part_by_part(tests: _Tests, x: Any) -> Any:
    """Vectors hold rows, of which all share each test."""
    columns, rows = rnp.transpose(x), x.shape[0]
    at_once = isinstance(rows, int) and rows < _MANY_ROWS
    full = rnp.broadcast_to(np.int32((1 << _BITS) - 1), (rows,))

    def column(feature: Any) -> Any:
        return rnp.take(columns, feature, axis=0, mode="clip")

    def clear(left: Any, given: tuple[Any, ...]) -> tuple[Any, None]:
        value, *tables = given
        return rnp.bitwise_and(left, tests.bits(value, tables)), None

    def clear_at(place: Any, left: Any) -> Any:
        feature, *tables = (rnp.getitem(rnp.asarray(table), place) for table in tests.tables)
        return clear(left, (column(feature), *tables))[0]

    def step(sums: Any, part: tuple[Any, ...]) -> tuple[Any, None]:
        number, *given = part
        if at_once:
            left = scan(clear, full, (column(given[0]), *given[1:]))[0]
        else:
            first, end = given
            left = fori_loop(first, end, clear_at, full)
        return sums + _weights_of(tests, left, number), None

    ends = np.cumsum(tests.counts, dtype=np.int32)
    given = tests.rows() if at_once else (ends - tests.counts, ends)
    shape = rows, tests.weights.shape[2]
    zeros = rnp.broadcast_to(np.zeros((), tests.weights.dtype), shape)
    return scan(step, zeros, (_first_places(tests), *given))[0]


def _first_places(tests: _Tests) -> Array:
    """Return where the leaves of each part begin in the table of weights."""
    return np.arange(tests.counts.size, dtype=np.int32) * (_BITS + 1)


def _weights_of(tests: _Tests, bits: Any, first: Any) -> Any:
    """Return the weights of the leaf that is the lowest bit: the exponent of its float."""
    table = tests.weights.reshape(-1, tests.weights.shape[2])
    alone = rnp.astype(rnp.bitwise_and(bits, rnp.negative(bits)), "f32")
    number = rnp.right_shift(emit(ops.bitcast, alone, to=DType.I32), 23) - 127
    return rnp.take(table, rnp.add(number, first), axis=0, mode="clip")
