"""Tables of the nodes of decision trees, and walks over them: gathers without branches."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import FormatError
from rlx.tracing.loops import scan_rows
from rlx.transforms.control import fori_loop, scan

Array = np.ndarray[Any, Any]

_MANY_ROWS = 32
"""Rows from which on the trees are walked one by one."""

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)
MODES = {
    "BRANCH_LEQ": LEQ, "BRANCH_LT": LT, "BRANCH_GTE": GTE, "BRANCH_GT": GT,
    "BRANCH_EQ": EQ, "BRANCH_NEQ": NEQ, "BRANCH_MEMBER": MEMBER,
}  # fmt: skip


class Trees:
    """Nodes of all trees in tables, those of a tree level by level.

    The children of a node are next to each other, the one for comparisons that fail first. A leaf
    is its own first child, and its threshold is NaN, with which every comparison fails.
    """

    def __init__(
        self, feature: Any, threshold: Any, mode: Any, true: Any, false: Any, roots: Any,
        missing: Any, members: Any = None,
    ) -> None:  # fmt: skip
        self.order, self.child, self.roots, self.depths = _by_levels(true, false, roots)
        """The places of nodes as given, first children, roots, and the steps of each tree."""
        is_leaf = true[self.order] == self.order
        inner = mode[self.order[~is_leaf]]
        self.feature = np.where(is_leaf, 0, feature[self.order]).astype(np.int32)
        self.threshold = np.where(is_leaf, np.nan, threshold[self.order])
        ordered = [each for each in np.unique(inner) if each not in (NEQ, MEMBER)]
        self.mode = np.where(is_leaf, ordered[0] if ordered else LEQ, mode[self.order])
        self.missing = ~is_leaf & missing[self.order]
        self.members = None if members is None else members[self.order]
        """The values of sets `[nodes, most]`, with NaN for those that are none; or None."""

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

    def total(self, x: Any, own: Array, aggregate: str) -> Any:
        """Return sums (or means, minima, maxima) over trees of the weights of the leaves reached.

        The weights are in the order of the tables. Many rows walk one tree after the other, so that
        its nodes stay in the cache; few rows walk all trees at once.
        """
        if _are_few(x):
            return _AGGREGATES[aggregate](rnp.take(own, self._leaves(x), axis=0, mode="clip"), 1)
        join = _JOINS[aggregate]

        def walk(root: Any, depth: Any) -> Any:
            return rnp.take(own, self._walk(x, root, depth), axis=0, mode="clip")

        def step(total: Any, tree: tuple[Any, Any]) -> tuple[Any, None]:
            return join(total, walk(*tree)), None

        first = walk(self.roots[0], self.depths[0])
        total = scan(step, first, (self.roots[1:], self.depths[1:]))[0]
        return total / self.roots.size if aggregate == "AVERAGE" else total

    def reached(self, x: Any) -> Any:
        """Return the place of the leaf that every row reaches in the only tree, `[rows]`."""
        if _are_few(x):
            return self._leaves(x)[:, 0]
        return self._walk(x, self.roots[0], self.depths[0])

    def reading(self, columns: Array) -> Trees:
        """Return the trees over rows of which they read `columns` only."""
        found = copy(self)
        found.feature = columns[self.feature].astype(np.int32)
        return found

    @classmethod
    def joined(cls, parts: Sequence[Trees]) -> Trees:
        """Return one ensemble of the trees of ensembles without sets of members, in order."""
        found = copy(parts[0])
        starts = np.cumsum([0, *(part.child.size for part in parts[:-1])]).astype(np.int32)
        for name in ("order", "feature", "threshold", "mode", "missing", "depths"):
            setattr(found, name, np.concatenate([getattr(part, name) for part in parts]))
        for name in ("child", "roots"):
            moved = [getattr(p, name) + start for p, start in zip(parts, starts, strict=True)]
            setattr(found, name, np.concatenate(moved))
        return found

    def _walk(self, x: Any, root: Any, depth: Any) -> Any:
        """Return the leaf that every row reaches in the tree at `root`, `[rows]`."""
        start = rnp.broadcast_to(root, (x.shape[0],))
        return fori_loop(0, depth, lambda _, places: self._step(x, places), start)

    def _leaves(self, x: Any) -> Any:
        """Return the leaf that every row reaches in every tree, `[rows, trees]`."""
        start = rnp.broadcast_to(self.roots, (x.shape[0], self.roots.size))
        steps = np.arange(max(self.depths.max(initial=0), 1))
        return scan_rows(lambda places, _: (self._step(x, places), None), start, steps)[0]

    def _step(self, x: Any, places: Any) -> Any:
        """Return the children to which rows go on from `places`, `[rows]` or `[rows, trees]`."""
        rows, width = rnp.arange(x.shape[0], dtype="int64"), x.shape[1]
        start = rnp.multiply(rows, width)
        at = rnp.expand_dims(start, 1) if places.ndim == 2 else start
        value = rnp.take(rnp.ravel(x), rnp.add(at, self._of(self.feature, places)), mode="clip")
        limit = self._of(self.threshold.astype(x.dtype), places)
        holds = self._holds(value, limit, places)
        return rnp.add(self._of(self.child, places), rnp.astype(holds, "int32"))

    def _of(self, table: Array, places: Any) -> Any:
        return rnp.take(table, places, axis=0, mode="clip")

    def _holds(self, value: Any, limit: Any, places: Any) -> Any:
        compare = [rnp.less_equal, rnp.less, rnp.greater_equal, rnp.greater, rnp.equal,
                   rnp.not_equal]  # fmt: skip
        holds: Any = None
        for mode in np.unique(self.mode):
            found = (
                self._is_member(value, places) if mode == MEMBER else compare[mode](value, limit)
            )
            chosen = rnp.equal(self._of(self.mode, places), mode)
            holds = found if holds is None else rnp.where(chosen, found, holds)
        if np.any(self.missing):
            holds = rnp.logical_or(
                holds, rnp.logical_and(rnp.isnan(value), self._of(self.missing, places))
            )
        return holds

    def _is_member(self, value: Any, places: Any) -> Any:
        sets = self._of(np.asarray(self.members, value.dtype), places)
        return rnp.any(rnp.equal(rnp.expand_dims(value, -1), sets), -1)


def _are_few(x: Any) -> bool:
    """True if rows walk all trees at once."""
    return isinstance(x.shape[0], int) and x.shape[0] < _MANY_ROWS


_AGGREGATES: dict[str, Any] = {"SUM": rnp.sum, "AVERAGE": rnp.mean, "MIN": rnp.min, "MAX": rnp.max}
_JOINS: dict[str, Any] = {
    "SUM": rnp.add, "AVERAGE": rnp.add, "MIN": rnp.minimum, "MAX": rnp.maximum,
}  # fmt: skip


def _by_levels(true: Array, false: Array, roots: Array) -> tuple[Array, Array, Array, Array]:
    """Return the order of nodes, their first children, the roots and the depth of each tree."""
    order: list[Any] = []
    child: list[Any] = []
    places, depths = [], []
    for root in roots:
        start = len(order)
        places.append(start)
        level, depth = [int(root)], 0
        order += level
        while level:
            following: list[int] = []
            for node in level:
                is_leaf = true[node] == node
                child.append(len(child) if is_leaf else len(order))
                if not is_leaf:
                    both = [int(false[node]), int(true[node])]
                    following += both
                    order += both
            depth += bool(following)
            level = following
            if len(order) - start > 2 * true.size + 1:
                raise malformed("the nodes of a tree form a cycle")
        depths.append(depth)
    first, starts, steps = (np.asarray(each, np.int32) for each in (child, places, depths))
    return np.asarray(order, np.int64), first, starts, steps


def malformed(message: str) -> FormatError:
    return FormatError(message, remedy="the model is malformed: export it again")
