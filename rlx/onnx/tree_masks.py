"""Sums over ensembles of decision trees: by masks of leaves for many rows, by walks for few.

The leaves of a tree have a bit each, those for keys that exceed the limit of a node before those
for keys that do not. A test clears the bits of the leaves that it rules out; the lowest bit that is
left is the leaf that a row reaches (Lucchese et al., QuickScorer, 2015). A tree of more leaves than
bits is divided into parts, each a subtree below the tests that lead to it: a row that another part
decides finds the weight 0. Vectors of rows share each test, without gathers: many rows of trees of
a few dozen leaves take less time than by walks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.onnx.tree_tables import Trees
from rlx.tracing.apply import emit
from rlx.transforms.control import fori_loop, scan

Array = np.ndarray[Any, Any]

_BITS = 31
"""Leaves of a part: the bits of an i32 but the sign."""
_LANES = 16
"""Rows, added ones too, that vectors have."""
_ORDERED_ROWS = 32
"""Rows from which on trees are added in the order of the model."""
_IN_PLACE = 128
"""Rows from which on a column is read in place: for fewer, those of a part are copied together."""
_BLOCK = 512
"""Rows whose features stay in the cache, at least."""
_WORTH = {True: 12, False: 6}
"""Tests of vectors by masks that take the time of one step of walks, for many rows or few."""


@dataclass(frozen=True, slots=True)
class Test:
    """A node of a part, and the bits that stay where a key exceeds its limit and where not."""

    node: int
    where_more: int
    where_not: int


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
    rows = x.shape[0]
    parts = _parts(trees, rows) if aggregate in ("SUM", "AVERAGE") else None
    if parts is None and isinstance(rows, int) and rows < _ORDERED_ROWS:
        return _AGGREGATES[aggregate](rnp.take(own, trees.reached(x), axis=0, mode="clip"), 1)
    if parts is None:
        found = _in_order(rnp.transpose(trees.reached(x)), own, _JOINS[aggregate])
    else:
        short = _padded(rows) - rows if isinstance(rows, int) and rows < _IN_PLACE else 0
        keys = rnp.pad(trees.keys(x), ((0, short), (0, 0))) if short else trees.keys(x)
        found = _sums_in_blocks(_Tests(trees, parts, own, x.dtype), keys)[:rows]
    return found / trees.roots.size if aggregate == "AVERAGE" else found


_AGGREGATES: dict[str, Any] = {"SUM": rnp.sum, "AVERAGE": rnp.mean, "MIN": rnp.min, "MAX": rnp.max}
_JOINS: dict[str, Any] = {
    "SUM": rnp.add, "AVERAGE": rnp.add, "MIN": rnp.minimum, "MAX": rnp.maximum,
}  # fmt: skip


def _in_order(reached: Any, own: Array, join: Any) -> Any:
    """Join the weights of the leaves `[trees, rows]` that rows reach, tree by tree."""

    def step(found: Any, leaves: Any) -> tuple[Any, None]:
        return join(found, rnp.take(own, leaves, axis=0, mode="clip")), None

    first = rnp.take(own, reached[0], axis=0, mode="clip")
    return scan(step, first, reached[1:])[0]


def _parts(trees: Trees, rows: Any) -> list[Part] | None:
    """Return the parts of all trees, in order; None where walks take less time."""
    are_known = isinstance(rows, int) and rows > 0
    filled = rows / _padded(rows) if are_known else 1.0
    are_many = not are_known or rows >= _IN_PLACE
    budget = _WORTH[are_many] * filled * trees.steps()
    inner = np.flatnonzero(~trees.is_leaf)
    if trees.is_shared or inner.size > budget:
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


def _padded(rows: int) -> int:
    """Return how many rows vectors have that hold `rows`."""
    return -(-rows // _LANES) * _LANES


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
        is_second = node == child[above] + 1
        tests.append(Test(above, -1 if is_second else own, own if is_second else -1))
        node = above
    return Part(tuple(tests) or (Test(top, -1, -1),), tuple(leaves))


def _span(first: int, end: int) -> int:
    return (1 << end) - (1 << first)


class _Tests:
    """The tests of some parts in tables, those of a part after each other."""

    def __init__(self, trees: Trees, parts: list[Part], own: Array, dtype: Any) -> None:
        self.counts = np.array([len(part.tests) for part in parts], np.int32)
        self.weights = np.zeros((len(parts), _BITS + 1, own.shape[1]), own.dtype)
        for number, part in enumerate(parts):
            for bit, leaf in enumerate(part.leaves):
                if leaf >= 0:
                    self.weights[number, bit] = own[leaf]
        tests = [test for part in parts for test in part.tests]
        node = np.array([test.node for test in tests])
        more, rest = (
            np.array([getattr(test, name) for test in tests], np.int32)
            for name in ("where_more", "where_not")
        )
        limit, mask, column = (table[node] for table in trees.limits(dtype))
        self.has_masks = bool(np.any(mask != -1))
        self.tables = [column, limit, more, rest, *([mask] if self.has_masks else [])]

    def rows(self) -> list[Array]:
        """Return the tables with a row for each part, filled up by tests that clear nothing."""
        place = np.arange(self.counts.max())
        ends = np.cumsum(self.counts)[:, None]
        at = np.minimum(ends - self.counts[:, None] + place, ends - 1)
        return [table[at] for table in self.tables]  # the last one again

    def bits(self, key: Any, tables: Sequence[Any]) -> Any:
        """Return the bits that tests of keys leave, by their rows of the tables."""
        limit, more, rest, *mask = tables
        compared = rnp.bitwise_and(key, mask[0]) if self.has_masks else key
        return rnp.where(rnp.greater(compared, limit), more, rest)


def _sums_in_blocks(tests: _Tests, keys: Any) -> Any:
    """Blocks of rows whose features stay in the cache."""
    rows = keys.shape[0]
    if not isinstance(rows, int) or rows < 2 * _BLOCK:
        return _sums_part_by_part(tests, keys)
    count = rows // _BLOCK
    size = 16 * -(-rows // (16 * count))
    padded = rnp.pad(keys, ((0, count * size - rows), (0, 0)))
    blocks = rnp.reshape(padded, (count, size, keys.shape[1]))
    _, sums = scan(lambda _, block: ((), _sums_part_by_part(tests, block)), (), blocks)
    return rnp.reshape(sums, (count * size, sums.shape[2]))[:rows]


def _sums_part_by_part(tests: _Tests, keys: Any) -> Any:
    """Vectors hold rows, of which all share each test."""
    columns, rows = rnp.transpose(keys), keys.shape[0]
    at_once = isinstance(rows, int) and rows < _IN_PLACE
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
