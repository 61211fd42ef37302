"""Ensembles of decision trees: a walk is gathers from tables of nodes, without branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import FormatError
from rlx.onnx.operators.scores import Labels, transformed, two_classes
from rlx.onnx.registry import operator
from rlx.tracing.loops import scan_rows
from rlx.transforms.control import fori_loop, scan

_DOMAIN = "ai.onnx.ml"
_MANY_ROWS = 32
"""Rows from which on the trees are walked one by one."""
Array = np.ndarray[Any, Any]

_LEQ, _LT, _GTE, _GT, _EQ, _NEQ, _MEMBER = range(7)
_MODES = {
    "BRANCH_LEQ": _LEQ, "BRANCH_LT": _LT, "BRANCH_GTE": _GTE, "BRANCH_GT": _GT,
    "BRANCH_EQ": _EQ, "BRANCH_NEQ": _NEQ, "BRANCH_MEMBER": _MEMBER,
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
        ordered = [each for each in np.unique(inner) if each not in (_NEQ, _MEMBER)]
        self.mode = np.where(is_leaf, ordered[0] if ordered else _LEQ, mode[self.order])
        self.missing = ~is_leaf & missing[self.order]
        self.members = None if members is None else members[self.order]
        """The values of sets `[nodes, most]`, with NaN for those that are none; or None."""

    def votes(self, x: Any, weights: Array, aggregate: str) -> Any:
        """Return sums (or means, minima, maxima) over trees of the weights of the leaves reached.

        Many rows walk one tree after the other, so that its nodes stay in the cache; few rows walk
        all trees at once.
        """
        width, own = x.shape[1], weights[self.order]
        read = self.feature.min(initial=0) or self.feature.max(initial=0)
        if read < 0 or (isinstance(width, int) and read >= width):
            raise FormatError(
                f"a tree reads feature {read} of rows of {width}",
                remedy="give rows of as many features as the model was trained on",
            )
        if not self.roots.size:
            raise _malformed("an ensemble has no trees")
        if isinstance(x.shape[0], int) and x.shape[0] < _MANY_ROWS:
            return _AGGREGATES[aggregate](rnp.take(own, self._leaves(x), axis=0, mode="clip"), 1)
        join = _JOINS[aggregate]

        def walk(root: Any, depth: Any) -> Any:
            start = rnp.broadcast_to(root, (x.shape[0],))
            leaves = fori_loop(0, depth, lambda _, places: self._step(x, places), start)
            return rnp.take(own, leaves, axis=0, mode="clip")

        def step(total: Any, tree: tuple[Any, Any]) -> tuple[Any, None]:
            return join(total, walk(*tree)), None

        first = walk(self.roots[0], self.depths[0])
        total = scan(step, first, (self.roots[1:], self.depths[1:]))[0]
        return total / self.roots.size if aggregate == "AVERAGE" else total

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
                self._is_member(value, places) if mode == _MEMBER else compare[mode](value, limit)
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


_AGGREGATES: dict[str, Any] = {"SUM": rnp.sum, "AVERAGE": rnp.mean, "MIN": rnp.min, "MAX": rnp.max}
_JOINS: dict[str, Any] = {
    "SUM": rnp.add, "AVERAGE": rnp.add, "MIN": rnp.minimum, "MAX": rnp.maximum,
}  # fmt: skip
_BY_NUMBER = ("AVERAGE", "SUM", "MIN", "MAX")


@operator("TreeEnsemble", domain=_DOMAIN, since=5)
def tree_ensemble(
    x: Any,
    *,
    n_targets: int = 1,
    nodes_featureids: Sequence[int],
    nodes_splits: Array,
    nodes_modes: Array,
    nodes_truenodeids: Sequence[int],
    nodes_trueleafs: Sequence[int],
    nodes_falsenodeids: Sequence[int],
    nodes_falseleafs: Sequence[int],
    tree_roots: Sequence[int],
    leaf_targetids: Sequence[int],
    leaf_weights: Array,
    aggregate_function: int = 1,
    post_transform: int = 0,
    nodes_hitrates: Any = None,
    nodes_missing_value_tracks_true: Any = None,
    membership_values: Any = None,
) -> Any:
    del nodes_hitrates
    inner, leaves = len(nodes_featureids), len(leaf_targetids)
    own = np.arange(inner, inner + leaves)

    def children(ids: Sequence[int], are_leaves: Sequence[int]) -> Array:
        _require_indices("children", ids, np.where(are_leaves, leaves, inner))
        below = np.where(are_leaves, np.asarray(ids) + inner, np.asarray(ids))
        if np.any(below == np.arange(inner)):
            raise _malformed("a node of a tree is its own child")
        return np.concatenate([below, own]).astype(np.int64)

    _require_indices("nodes_modes", nodes_modes, len(_MODES))
    _require_indices("tree_roots", tree_roots, inner)
    _require_indices("leaf_targetids", leaf_targetids, n_targets)

    missing = nodes_missing_value_tracks_true or (0,) * inner
    pad = np.zeros(leaves)
    trees = Trees(
        np.concatenate([nodes_featureids, pad]).astype(np.int64),
        np.concatenate([np.asarray(nodes_splits), pad]),
        np.concatenate([np.asarray(nodes_modes), pad]).astype(np.int64),
        children(nodes_truenodeids, nodes_trueleafs),
        children(nodes_falsenodeids, nodes_falseleafs),
        np.asarray(tree_roots, np.int64),
        np.concatenate([missing, pad]).astype(bool),
        _sets(np.asarray(nodes_modes), membership_values, inner + leaves),
    )
    weights = np.zeros((inner + leaves, n_targets), x.dtype)
    weights[own, np.asarray(leaf_targetids)] = leaf_weights
    total = trees.votes(x, weights, _BY_NUMBER[aggregate_function])
    return transformed(total, post_transform)


def _require_indices(name: str, found: Any, count: Any) -> None:
    """Raise a FormatError unless all elements are at least 0 and less than `count`."""
    indices = np.asarray(found)
    outside = (indices < 0) | (indices >= count)
    if outside.any():
        raise _malformed(f"{name} has {indices[outside][0]}, which is no index of the model's")


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
                raise _malformed("the nodes of a tree form a cycle")
        depths.append(depth)
    first, starts, steps = (np.asarray(each, np.int32) for each in (child, places, depths))
    return np.asarray(order, np.int64), first, starts, steps


def _sets(modes: Array, values: Any, nodes: int) -> Array | None:
    """Return the sets of the nodes that ask for membership; a NaN ends each in the list."""
    owners = np.flatnonzero(modes == _MEMBER)
    if values is None and owners.size:
        raise _malformed("nodes ask for membership, and there are no membership_values")
    if values is None:
        return None
    ends = np.flatnonzero(np.isnan(values))
    parts = np.split(np.asarray(values), ends + 1)
    if len(parts) - 1 != owners.size:
        raise _malformed(
            f"{len(parts) - 1} sets of members for {owners.size} nodes that ask for one"
        )
    sets = np.full((nodes, max(map(len, parts))), np.nan)
    for owner, part in zip(owners, parts, strict=False):
        sets[owner, : part.size] = part
    return sets


def _classic(
    *,
    nodes_treeids: Any = (),
    nodes_nodeids: Any = (),
    nodes_featureids: Any = (),
    nodes_values: Any = (),
    nodes_values_as_tensor: Any = None,
    nodes_modes: Any = (),
    nodes_truenodeids: Any = (),
    nodes_falsenodeids: Any = (),
    nodes_missing_value_tracks_true: Any = None,
    nodes_hitrates: Any = None,
    nodes_hitrates_as_tensor: Any = None,
) -> tuple[Trees, dict[tuple[int, int], int]]:
    """Return trees that are numbered per tree, and the place of each (tree, node)."""
    del nodes_hitrates, nodes_hitrates_as_tensor
    keys = list(zip(nodes_treeids, nodes_nodeids, strict=True))
    place = {key: number for number, key in enumerate(keys)}
    modes = [_mode_of(mode) for mode in nodes_modes]
    true, false = np.arange(len(keys)), np.arange(len(keys))
    for number, key in enumerate(keys):
        if nodes_modes[number] != "LEAF":
            true[number] = _place_of_child(place, key, nodes_truenodeids[number])
            false[number] = _place_of_child(place, key, nodes_falsenodeids[number])
    roots = _roots(keys, true, false)
    trees = Trees(
        np.asarray(nodes_featureids, np.int64),
        np.asarray(_or_tensor(nodes_values, nodes_values_as_tensor)),
        np.asarray(modes, np.int64), true, false, roots,
        np.asarray(nodes_missing_value_tracks_true or (0,) * len(keys), bool),
    )  # fmt: skip
    return trees, place


def _mode_of(name: str) -> int:
    """Return the number of a mode; any for leaves, which compare nothing."""
    known = ("LEAF", *(mode for mode, number in _MODES.items() if number != _MEMBER))
    if name not in known:
        raise _malformed(f"a node has mode {name}; modes are {', '.join(known)}")
    return _MODES.get(name, _LEQ)


def _place_of_child(place: dict[tuple[int, int], int], parent: tuple[int, int], child: int) -> int:
    """Return the place of a child of another node of the same tree."""
    key = parent[0], child
    if key == parent or key not in place:
        raise _malformed(f"node {parent[1]} of tree {parent[0]} has child {child}, which is none")
    return place[key]


def _roots(keys: Sequence[tuple[int, int]], true: Array, false: Array) -> Array:
    """Return the first node of each tree, its root; nodes that it does not reach are unused."""
    own = np.arange(len(keys))
    children = {*true[true != own].tolist(), *false[false != own].tolist()}
    first: dict[int, int] = {}
    for number, (tree, _) in enumerate(keys):
        first.setdefault(tree, number)
    for tree, number in first.items():
        if number in children:
            raise _malformed(f"the first node of tree {tree}, its root, is a child of another one")
    return np.asarray(list(first.values()), np.int64)


def _malformed(message: str) -> FormatError:
    return FormatError(message, remedy="the model is malformed: export it again")


def _weights(
    place: dict[tuple[int, int], int], count: int, treeids: Any, nodeids: Any, ids: Any, given: Any
) -> Array:
    """Return what each node adds to each target or class."""
    weights = np.zeros((len(place), count), np.float32)
    for tree, node, target, weight in zip(treeids, nodeids, ids, given, strict=True):
        weights[place[tree, node], target] += weight
    return weights


def _or_tensor(listed: Any, tensor: Any) -> Any:
    return listed if tensor is None else tensor


@operator("TreeEnsembleRegressor", domain=_DOMAIN, rest=_classic)
def tree_ensemble_regressor(
    x: Any,
    *,
    n_targets: int = 1,
    aggregate_function: str = "SUM",
    post_transform: str = "NONE",
    base_values: Any = None,
    base_values_as_tensor: Any = None,
    target_ids: Any = (),
    target_nodeids: Any = (),
    target_treeids: Any = (),
    target_weights: Any = (),
    target_weights_as_tensor: Any = None,
    **nodes: Any,
) -> Any:
    trees, place = _classic(**nodes)
    given = _or_tensor(target_weights, target_weights_as_tensor)
    weights = _weights(place, n_targets, target_treeids, target_nodeids, target_ids, given)
    total = trees.votes(rnp.astype(x, "f32"), weights, aggregate_function)
    base = _or_tensor(base_values, base_values_as_tensor)
    if base is not None and len(base):
        total = total + np.asarray(base, np.float32)
    return transformed(total, post_transform)


@operator("TreeEnsembleClassifier", domain=_DOMAIN, rest=_classic)
def tree_ensemble_classifier(
    x: Any,
    *,
    post_transform: str = "NONE",
    base_values: Any = None,
    base_values_as_tensor: Any = None,
    class_ids: Any = (),
    class_nodeids: Any = (),
    class_treeids: Any = (),
    class_weights: Any = (),
    class_weights_as_tensor: Any = None,
    classlabels_int64s: Any = None,
    classlabels_strings: Any = None,
    **nodes: Any,
) -> Any:
    """The class with the largest sum; trees that vote for one of two classes only decide by it."""
    trees, place = _classic(**nodes)
    count = len(classlabels_int64s or classlabels_strings or ())
    labels = Labels.of(classlabels_int64s, classlabels_strings, count)
    given = _or_tensor(class_weights, class_weights_as_tensor)
    is_binary = count == 2 and len(set(class_ids)) == 1
    ids = [0] * len(class_ids) if is_binary else class_ids
    weights = _weights(place, 1 if is_binary else count, class_treeids, class_nodeids, ids, given)
    scores = trees.votes(rnp.astype(x, "f32"), weights, "SUM")
    base = _or_tensor(base_values, base_values_as_tensor)
    if base is not None and len(base):
        scores = scores + np.asarray(base, np.float32)[-scores.shape[-1] :]
    if not is_binary:
        return labels.at(rnp.argmax(scores, -1)), transformed(scores, post_transform)
    is_share = bool(np.min(given) >= 0)
    above = rnp.greater(scores[:, 0], 0.5 if is_share else 0.0)
    chosen = labels.at(rnp.astype(above, "i64"))
    return chosen, two_classes(scores, post_transform, is_share=is_share)
