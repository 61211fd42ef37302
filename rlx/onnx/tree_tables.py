"""Tables of the nodes of decision trees, of which each compares an integer with a limit."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import FormatError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.onnx.tree_sets import GTE, LEQ, LT, MISSING_BIT, Nodes, Windows, with_sets
from rlx.tracing.apply import emit

Array = np.ndarray[Any, Any]

_CHAINS = 10
"""Walks side by side: 8 and 16 take up to a fifth longer."""
_MANY_ROWS = 64
"""Rows from which on trees are walked by groups."""
_IN_CACHE = 1 << 14
"""Nodes of a group: a quarter of a megabyte."""


class Trees:
    """Nodes of all trees in tables, those of a tree level by level.

    A row has keys: an integer for each feature, ordered as its values are, and a word for each
    window of values that sets are made of, with the bit of the one that it equals. A row goes on
    to the second child of a node if its key, or the bits of it that a mask keeps, exceed a limit.
    The children of a node are next to each other; a leaf is its own first child.
    """

    def __init__(self, nodes: Nodes, roots: Array, weights: Array) -> None:
        given = _children_first(nodes, roots)
        nodes, window, self.windows = with_sets(nodes, weights, given, roots)
        order, self.child, self.roots, self.level, self.is_shared = _by_levels(nodes, roots)
        self.order = np.where(order < len(weights), order, 0)  # of further windows, any
        """Nodes as given, by place."""
        self.is_leaf = self.child == np.arange(self.child.size)
        self.feature = np.where(self.is_leaf, 0, nodes.feature[order]).astype(np.int64)
        self.threshold = nodes.threshold[order]
        self.mode = nodes.mode[order]
        self.missing = nodes.missing[order]
        self.window = np.where(self.is_leaf, -1, window[order])

    def require_features(self, width: Any) -> None:
        """Raise a FormatError if there are no trees, or they read features of no row."""
        read = self.feature.min(initial=0) or self.feature.max(initial=0)
        if read < 0 or (isinstance(width, int) and read >= width):
            raise FormatError(
                f"a tree reads feature {read} of rows of {width}",
                remedy="give rows of as many features as the model was trained on",
            )
        if not self.roots.size:
            raise malformed("an ensemble has no trees")

    def reading(self, columns: Array) -> Trees:
        """Return the trees over rows of which they read `columns` only."""
        found = copy(self)
        found.feature = columns[self.feature].astype(np.int64)
        found.windows = Windows(columns[self.windows.feature], self.windows.values)
        return found

    @classmethod
    def joined(cls, parts: Sequence[Trees]) -> Trees:
        """Return one ensemble of the trees of ensembles, in order."""
        found = copy(parts[0])
        names = "order", "level", "is_leaf", "feature", "threshold", "mode", "missing"
        for name in names:
            setattr(found, name, np.concatenate([getattr(part, name) for part in parts]))
        starts = np.cumsum([0, *(part.child.size for part in parts)])
        for name in ("child", "roots"):
            moved = [getattr(p, name) + start for p, start in zip(parts, starts, strict=False)]
            setattr(found, name, np.concatenate(moved))
        counts = np.cumsum([0, *(part.windows.feature.size for part in parts)])
        own = [
            np.where(part.window < 0, -1, part.window + count)
            for part, count in zip(parts, counts, strict=False)
        ]
        found.window = np.concatenate(own)
        found.windows = Windows(
            np.concatenate([part.windows.feature for part in parts]),
            np.concatenate([part.windows.values for part in parts]),
        )
        found.is_shared = any(part.is_shared for part in parts)
        return found

    def tree(self) -> Array:
        """Return the number of the tree of each node."""
        found: Array = np.searchsorted(self.roots, np.arange(self.child.size), "right") - 1
        return found

    def steps(self) -> float:
        """Return how many nodes of all trees a row passes, where it reaches any leaf as often."""
        tree, leaves = self.tree(), np.flatnonzero(self.is_leaf)
        passed = np.bincount(tree[leaves], self.level[leaves] + 1)
        return float(np.sum(passed / np.bincount(tree[leaves])))

    def limits(self, dtype: Any) -> tuple[Array, Array, Array]:
        """Return the limit of each node, the mask of bits that it compares, and its key's column.

        Columns are those of `keys`.
        """
        is_set, is_low = self._is_set(), self._is_low()
        dtype = _compared(dtype)
        integer = _integer(dtype)
        most = np.iinfo(integer).max
        limit = np.where(is_set, 0, self.threshold).astype(dtype)
        keys = _ordered(limit) - np.isin(self.mode, (LT, GTE))
        never = np.isin(self.mode, (LEQ, LT))  # exceeded by all but a missing value that holds
        keys = np.where(np.isnan(limit), np.where(never, -most - 1, most - 1), keys)
        mask = np.where(is_set, self.threshold, -1).astype(integer)
        used, has_low = self._used(), bool(is_low.any())
        column = np.searchsorted(used, self.feature) + np.where(is_low, used.size, 0)
        windows = self.window + used.size * (1 + has_low)
        column = np.where(is_set, windows, np.where(self.is_leaf, 0, column))
        limit = np.where(self.is_leaf, most, np.where(is_set, 0, keys))
        return limit.astype(integer), mask, column.astype(integer)

    def keys(self, x: Any) -> Any:
        """Return the keys of rows: of the features that are read, and of windows of values."""
        x = rnp.astype(x, _compared(x.dtype))
        integer, used = _integer(x.dtype), self._used()
        most = np.array(np.iinfo(integer).max, integer)
        features = rnp.take(x, used, axis=1, mode="clip")
        bits = emit(ops.bitcast, features, to=DType.I64 if integer is np.int64 else DType.I32)
        ordered = rnp.where(rnp.less(bits, 0), rnp.bitwise_xor(bits, most), bits)
        ordered = rnp.where(rnp.equal(features, 0), np.zeros((), integer), ordered)
        is_missing = rnp.isnan(features)
        blocks = [rnp.where(is_missing, most, ordered)]
        if self._is_low().any():
            blocks.append(rnp.where(is_missing, -most - 1, ordered))
        if self.windows.feature.size:
            blocks.append(_bits_of_windows(x, self.windows))
        return rnp.concatenate(blocks, 1) if len(blocks) > 1 else blocks[0]

    def reached(self, x: Any) -> Any:
        """Return the place of the leaf that every row reaches in every tree, `[rows, trees]`.

        Many rows walk as many trees as stay in the cache, and then the next ones.
        """
        keys, rows = self.keys(x), x.shape[0]
        ends = np.append(self.roots[1:], self.child.size)
        are_many = not isinstance(rows, int) or rows >= _MANY_ROWS
        part = ends // _IN_CACHE if are_many else np.zeros(ends.size, np.int64)
        groups = np.split(np.arange(ends.size), np.flatnonzero(np.diff(part)) + 1)
        found = [self._walked(keys, group, x.dtype) for group in groups]
        return rnp.concatenate(found, 1) if len(found) > 1 else found[0]

    def _walked(self, keys: Any, group: Array, dtype: Any) -> Any:
        """Return what `reached` does, of consecutive trees."""
        first, trees = self.roots[group[0]], group.size
        nodes = slice(first, self.roots[group[-1] + 1] if group[-1] + 1 < self.roots.size else None)
        limit, mask, column = (table[nodes] for table in self.limits(dtype))
        tree, roots = self.tree()[nodes] - group[0], self.roots[group] - first + 1
        chains = min(_CHAINS, trees)
        following = np.append(roots, np.zeros(chains, np.int64))[tree + chains]
        child = self.child[nodes] - first + 1  # after the record of the end
        child = np.where(self.is_leaf[nodes], following, child)
        fields = [limit, column, child, tree, *([mask] if self.windows.feature.size else [])]
        width = len(fields)
        fields[2] = child * width
        end = np.array([np.iinfo(limit.dtype).max, 0, 0, trees, -1][:width])
        table = np.concatenate([end, np.stack(fields, 1).ravel()]).astype(limit.dtype)
        starts = (roots[:chains] * width).astype(np.int32)
        found = emit(ops.walk_trees, keys, table, starts, trees=trees, width=width)
        places = rnp.floor_divide(found[:, :trees], np.int32(width))
        return rnp.add(places, np.int32(first - 1))

    def _is_set(self) -> Array:
        return self.window >= 0

    def _is_low(self) -> Array:
        """Return which nodes read keys of which a missing value is the least: it exceeds none."""
        stays = np.isin(self.mode, (LEQ, LT)) == self.missing
        found: Array = stays & ~self.is_leaf & ~self._is_set()
        return found

    def _used(self) -> Array:
        """Return the features that are compared with limits; one at least."""
        read = np.unique(self.feature[~self.is_leaf & ~self._is_set()])
        return read if read.size else np.zeros(1, np.int64)


def _bits_of_windows(x: Any, windows: Windows) -> Any:
    """Return a word for each window of values, `[rows, windows]`."""
    integer = _integer(x.dtype)
    value = rnp.expand_dims(rnp.take(x, windows.feature, axis=1, mode="clip"), 2)
    bits = (1 << np.arange(windows.values.shape[1])).astype(integer)
    is_equal = rnp.equal(value, windows.values.astype(x.dtype))
    found = rnp.sum(rnp.where(is_equal, bits, np.zeros((), integer)), 2, dtype=integer)
    return rnp.where(rnp.isnan(value[:, :, 0]), np.array(MISSING_BIT, integer), found)


def _compared(dtype: Any) -> Any:
    """Return the dtype that features are compared in."""
    return np.float64 if np.dtype(dtype) == np.float64 else np.float32


def _integer(dtype: Any) -> Any:
    """Return the integers that keys of features of a dtype are."""
    return np.int64 if np.dtype(dtype) == np.float64 else np.int32


def _ordered(limit: Array) -> Array:
    """Return integers in the order of floats, with one for both zeros; any for NaN."""
    bits = (limit + np.zeros((), limit.dtype)).view(_integer(limit.dtype)).astype(np.int64)
    found: Array = np.where(bits < 0, bits ^ np.iinfo(_integer(limit.dtype)).max, bits)
    return found


def _children_first(nodes: Nodes, roots: Array) -> list[int]:
    """Return the nodes that roots reach, children before parents."""
    true, false = nodes.true.tolist(), nodes.false.tolist()
    order: list[int] = []
    is_open, is_done = bytearray(len(true)), bytearray(len(true))
    stack = roots.tolist()
    while stack:
        node = stack[-1]
        if is_open[node] or is_done[node] or true[node] == node:
            stack.pop()
            if not is_done[node]:
                order.append(node)
                is_done[node] = True
            continue
        is_open[node] = True
        for below in (true[node], false[node]):
            if is_open[below] and not is_done[below]:
                raise malformed("the nodes of a tree form a cycle")
            stack.append(below)
    return order


def _by_levels(nodes: Nodes, roots: Array) -> tuple[Array, Array, Array, Array, bool]:
    """Return the order of nodes, their first children, the roots, the levels, and what is shared.

    A node of several parents has a place below each; its children have one.
    """
    true, false = nodes.true.tolist(), nodes.false.tolist()
    is_below = np.isin(nodes.mode, (LEQ, LT)).tolist()
    order: list[int] = []
    child: list[int] = []
    level: list[int] = []
    places: list[int] = []
    is_shared = False
    for root in roots.tolist():
        places.append(len(order))
        order.append(root)
        level.append(0)
        pairs: dict[int, int] = {}
        while len(child) < len(order):
            at = len(child)
            node = order[at]
            if true[node] == node:
                child.append(at)
                continue
            if node not in pairs:
                pairs[node] = len(order)
                pair = [true[node], false[node]]
                order += pair if is_below[node] else pair[::-1]
                level += [level[at] + 1] * 2
            else:
                is_shared = True
            child.append(pairs[node])
    found = [np.asarray(each, np.int64) for each in (order, child, places, level)]
    return found[0], found[1], found[2], found[3], is_shared


def malformed(message: str) -> FormatError:
    return FormatError(message, remedy="the model is malformed: export it again")
