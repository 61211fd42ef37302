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


def with_sets(nodes: Nodes, weights: Array, order: list[int]) -> tuple[Nodes, Array, Windows]:
    """Return nodes whose comparisons with values test windows; their window, -1 for none.

    The thresholds of such nodes are masks. Nodes after those given are further windows of sets.
    `order` has children before parents.
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
    sets = {node: set(nodes.members.get(node, [nodes.threshold[node]])) for node in tested}
    _fold_chains(nodes, sets, weights, order)
    return _in_windows(nodes, sets)


def _fold_chains(nodes: Nodes, sets: dict[int, set[Any]], weights: Array, order: list[int]) -> None:
    """Unite sets of one feature that are tested after each other for equal subtrees."""
    feature, true, false, missing = nodes.feature, nodes.true, nodes.false, nodes.missing
    if not any(false[node] in sets and feature[false[node]] == feature[node] for node in sets):
        return
    numbers: dict[Any, int] = {}
    same = np.zeros(feature.size, np.int64)  # a number for each kind of subtree
    for node in order:
        other = int(false[node])
        key: tuple[Any, Any] = weights[node].tobytes(), None
        if node in sets:
            follows = other in sets and feature[other] == feature[node]
            if follows and same[true[other]] == same[true[node]]:
                sets[node] |= sets[other]
                missing[node] |= missing[other]
                false[node] = false[other]
        if true[node] != node:
            limit = frozenset(sets[node]) if node in sets else float(nodes.threshold[node])
            kind = int(feature[node]), int(nodes.mode[node]), bool(missing[node]), limit
            key = kind, (int(same[true[node]]), int(same[false[node]]))
        same[node] = numbers.setdefault(key, len(numbers))


def _in_windows(nodes: Nodes, sets: dict[int, set[Any]]) -> tuple[Nodes, Array, Windows]:
    """Return the nodes with sets of windows: more nodes for sets of several."""
    features, values = [], []
    for feature in sorted({int(nodes.feature[node]) for node in sets}):
        own = [sets[node] for node in sets if nodes.feature[node] == feature]
        known = np.array(sorted(set().union(*own)) or [np.nan])
        for first in range(0, known.size, WINDOW):
            part = known[first : first + WINDOW]
            features.append(feature)
            values.append(np.append(part, np.full(WINDOW - part.size, np.nan)))
    windows = Windows(np.array(features), np.array(values))
    window = np.full(nodes.mode.size, -1).tolist()
    columns = [
        each.tolist()
        for each in (nodes.feature, nodes.threshold, nodes.mode, nodes.true, nodes.false)
    ]
    feature_of, limit, _, _, false = columns
    for node, members in sets.items():
        found = _masks(windows, feature_of[node], members)
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


def _masks(windows: Windows, feature: int, members: set[Any]) -> list[tuple[int, int]]:
    """Return the windows of a set and their masks; a window at least."""
    bits = 1 << np.arange(WINDOW)
    own = np.flatnonzero(windows.feature == feature)
    wanted = np.array(list(members))
    masks = [int(bits[np.isin(windows.values[number], wanted)].sum()) for number in own]
    pairs = list(zip(own.tolist(), masks, strict=True))
    return [pair for pair in pairs if pair[1]] or pairs[:1]
