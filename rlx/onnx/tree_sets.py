"""Comparisons with single values in decision trees, as tests of membership in sets.

Converters write a split by categories as a chain of comparisons, each with a copy of the subtree of
rows that are equal. Such a chain is one test: the row has a bit for each value that a set of the
ensemble has, in windows of 30 values of a feature, and the test has a mask of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.limits import current_budget

Array = np.ndarray[Any, Any]

WINDOW = 30
"""Values of a window: the bits of an i32 but the sign, and one for a missing value."""
MISSING_BIT = 1 << WINDOW

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)


@dataclass(slots=True)
class Nodes:
    """Nodes as a file has them: a leaf is its own child on both sides."""

    feature: Array
    threshold: Array
    mode: Array
    true: Array
    false: Array
    missing: Array
    """True where a missing value counts as a test that holds."""
    members: Mapping[int, Any]
    """The values of the sets of nodes that test membership."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Values of features: a key has a bit for each, `[windows]` and `[windows, 30]`."""

    feature: Array
    values: Array


def with_sets(
    nodes: Nodes, weights: Array, order: list[int], roots: Array
) -> tuple[Nodes, Array, Windows]:
    """Return nodes whose comparisons with values test windows; their window, -1 for none.

    The thresholds of such nodes are masks. Nodes after those given are further windows of sets.
    `order` has the nodes that roots reach, children before parents.
    """
    tested = [node for node in order if nodes.mode[node] >= EQ and nodes.true[node] != node]
    if not tested:
        none = Windows(np.zeros(0, np.int64), np.zeros((0, WINDOW)))
        return nodes, np.full(nodes.mode.size, -1), none
    is_unequal = nodes.mode == NEQ  # equal, with the sides exchanged; NaN is on the right one
    true, false = nodes.true, nodes.false
    nodes = Nodes(
        nodes.feature, nodes.threshold, np.where(nodes.mode >= EQ, MEMBER, nodes.mode),
        np.where(is_unequal, false, true), np.where(is_unequal, true, false),
        nodes.missing & ~is_unequal, nodes.members,
    )  # fmt: skip
    sets = {node: _members(nodes, node) for node in tested}
    if any(_are_alike(nodes, sets, node, int(nodes.false[node])) for node in tested):
        _fold_chains(nodes, sets, weights, order, roots)
        reached = _reached(nodes, order, roots)
        sets = {node: members for node, members in sets.items() if node in reached}
    return _in_windows(nodes, sets)


def _members(nodes: Nodes, node: int) -> set[float]:
    """Return the values that a node tests for, without NaN, which equals none."""
    given = nodes.members.get(node, nodes.threshold[node : node + 1])
    return {value for value in given.tolist() if value == value}


def _are_alike(nodes: Nodes, sets: dict[int, set[float]], node: int, other: int) -> bool:
    """Return if both nodes are tests of membership of the same feature."""
    return node in sets and other in sets and bool(nodes.feature[node] == nodes.feature[other])


class _Kinds:
    """A number for each kind of subtree, made when it is asked for after those of its children."""

    def __init__(self, nodes: Nodes, sets: dict[int, set[float]], weights: Array) -> None:
        self._given = nodes, sets, weights
        self._numbers: dict[Any, int] = {}
        self._known: dict[int, int] = {}

    def of(self, node: int) -> int:
        """Return the number of the subtree below a node, which must not change after this."""
        if node not in self._known:
            self._known[node] = self._numbers.setdefault(self._key(node), len(self._numbers))
        return self._known[node]

    def _key(self, node: int) -> Any:
        nodes, sets, weights = self._given
        true, false = int(nodes.true[node]), int(nodes.false[node])
        if true == node:
            return weights[node].tobytes()
        limit = frozenset(sets[node]) if node in sets else float(nodes.threshold[node])
        kind = int(nodes.feature[node]), int(nodes.mode[node]), bool(nodes.missing[node]), limit
        return kind, self.of(true), self.of(false)


def _fold_chains(
    nodes: Nodes, sets: dict[int, set[float]], weights: Array, order: list[int], roots: Array
) -> None:
    """Unite sets of one feature that are tested after each other for equal subtrees.

    A set moves up its chain, and each node adds its own members. A node that others lead to, too,
    keeps its set: there would be a copy for each of them.
    """
    budget, kinds = current_budget(), _Kinds(nodes, sets, weights)
    uses = _uses(nodes, order, roots)
    for node in order:
        budget.check_time()
        true, other = int(nodes.true[node]), int(nodes.false[node])
        if true == node:
            continue
        is_alike = uses[other] == 1 and _are_alike(nodes, sets, node, other)
        if is_alike and kinds.of(true) == kinds.of(int(nodes.true[other])):
            sets[other] |= sets[node]
            sets[node] = sets.pop(other)
            nodes.missing[node] |= nodes.missing[other]
            nodes.false[node] = nodes.false[other]
        else:
            kinds.of(true)
            kinds.of(other)


def _uses(nodes: Nodes, order: list[int], roots: Array) -> Array:
    """Return how many nodes and roots lead to each node."""
    reached = np.array(order)
    inner = reached[nodes.true[reached] != reached]
    below = np.concatenate([nodes.true[inner], nodes.false[inner], roots])
    return np.bincount(below, minlength=nodes.mode.size)


def _reached(nodes: Nodes, order: list[int], roots: Array) -> set[int]:
    """Return the nodes that roots reach, of those in `order`."""
    true, false = nodes.true.tolist(), nodes.false.tolist()
    reached = set(roots.tolist())
    for node in reversed(order):
        if node in reached:
            reached |= {true[node], false[node]}
    return reached


def _in_windows(nodes: Nodes, sets: dict[int, set[float]]) -> tuple[Nodes, Array, Windows]:
    """Return the nodes with sets of windows: more nodes for sets of several."""
    windows, bits = _windows(nodes, sets)
    budget = current_budget()
    window = np.full(nodes.mode.size, -1).tolist()
    columns = [
        each.tolist()
        for each in (nodes.feature, nodes.threshold, nodes.mode, nodes.true, nodes.false)
    ]
    feature_of, limit, _, _, false = columns
    for node, members in sets.items():
        budget.check_time()
        found = _masks(bits[feature_of[node]], members)
        if nodes.missing[node]:
            found[0] = found[0][0], found[0][1] | MISSING_BIT
        places = [node, *range(len(window), len(window) + len(found) - 1)]
        for column in columns:
            column += [column[node]] * (len(found) - 1)
        window += [-1] * (len(found) - 1)
        for place, following, (number, mask) in zip(
            places, [*places[1:], false[node]], found, strict=True
        ):
            window[place], limit[place], false[place] = number, mask, following
    missing = np.append(nodes.missing, np.zeros(len(window) - nodes.missing.size, bool))
    features_of, limits, modes, true, others = map(np.array, columns)
    made = Nodes(features_of, limits, modes, true, others, missing, nodes.members)
    return made, np.array(window), windows


_Bits = dict[float, tuple[int, int]]
"""The window of each value of a feature, and its bit there."""


def _windows(nodes: Nodes, sets: dict[int, set[float]]) -> tuple[Windows, dict[int, _Bits]]:
    """Return the windows of the values of all sets, and where those of each feature are."""
    known: dict[int, set[float]] = {}
    for node, members in sets.items():
        known.setdefault(int(nodes.feature[node]), set()).update(members)
    features: list[int] = []
    values: list[list[float]] = []
    bits: dict[int, _Bits] = {}
    for feature in sorted(known):
        ordered, bits[feature] = sorted(known[feature]) or [np.nan], {}
        for first in range(0, len(ordered), WINDOW):
            part = ordered[first : first + WINDOW]
            bits[feature].update({value: (len(values), 1 << k) for k, value in enumerate(part)})
            features.append(feature)
            values.append(part + [np.nan] * (WINDOW - len(part)))
    return Windows(np.array(features), np.array(values)), bits


def _masks(bits: _Bits, members: set[float]) -> list[tuple[int, int]]:
    """Return the windows of a set and their masks; a window at least."""
    masks: dict[int, int] = {}
    for value in members:
        number, bit = bits[value]
        masks[number] = masks.get(number, 0) | bit
    return sorted(masks.items()) or [(next(iter(bits.values()))[0], 0)]
