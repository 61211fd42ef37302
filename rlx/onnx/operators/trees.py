"""Ensembles of decision trees: all trees of all rows walk down one level at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import FormatError
from rlx.onnx.operators.scores import Labels, transformed, two_classes
from rlx.onnx.registry import operator
from rlx.tracing.loops import scan_rows

_DOMAIN = "ai.onnx.ml"
Array = np.ndarray[Any, Any]

_LEQ, _LT, _GTE, _GT, _EQ, _NEQ, _MEMBER = range(7)
_MODES = {
    "BRANCH_LEQ": _LEQ, "BRANCH_LT": _LT, "BRANCH_GTE": _GTE, "BRANCH_GT": _GT,
    "BRANCH_EQ": _EQ, "BRANCH_NEQ": _NEQ, "BRANCH_MEMBER": _MEMBER,
}  # fmt: skip


class Trees:
    """Nodes of all trees in arrays; a leaf is its own child."""

    def __init__(
        self, feature: Any, threshold: Any, mode: Any, true: Any, false: Any, roots: Any,
        missing: Any, members: Any = None,
    ) -> None:  # fmt: skip
        self.feature, self.threshold, self.mode = feature, threshold, mode
        self.true, self.false, self.roots, self.missing = true, false, roots, missing
        self.members = members
        """The values of sets `[nodes, most]`, with NaN for those that are none; or None."""

    @property
    def depth(self) -> int:
        """The steps after which every walk has ended."""
        level, steps = np.unique(self.roots), 0
        while True:
            below = np.unique(np.concatenate([self.true[level], self.false[level]]))
            below = below[(self.true[below] != below) | ~np.isin(below, level)]
            if not below.size or steps > self.feature.size:
                return steps
            level, steps = below, steps + 1

    def leaves(self, x: Any) -> Any:
        """Return the leaf that every row reaches in every tree, `[rows, trees]`."""
        rows = np.arange(x.shape[0])[:, None]
        start = np.broadcast_to(self.roots, (x.shape[0], self.roots.size)).astype(np.int64)

        def step(places: Any, _: Any) -> tuple[Any, None]:
            value = rnp.getitem(x, (rows, rnp.take(self.feature, places)))
            limit = rnp.take(self.threshold.astype(x.dtype), places)
            holds = self._holds(value, limit, places)
            down = rnp.where(holds, rnp.take(self.true, places), rnp.take(self.false, places))
            return down, None

        return scan_rows(step, rnp.asarray(start), np.arange(max(self.depth, 1)))[0]

    def _holds(self, value: Any, limit: Any, places: Any) -> Any:
        compare = [rnp.less_equal, rnp.less, rnp.greater_equal, rnp.greater, rnp.equal,
                   rnp.not_equal]  # fmt: skip
        holds: Any = None
        for mode in np.unique(self.mode):
            found = (
                self._is_member(value, places) if mode == _MEMBER else compare[mode](value, limit)
            )
            chosen = rnp.equal(rnp.take(self.mode, places), mode)
            holds = found if holds is None else rnp.where(chosen, found, holds)
        if np.any(self.missing):
            holds = rnp.logical_or(
                holds, rnp.logical_and(rnp.isnan(value), rnp.take(self.missing, places))
            )
        return holds

    def _is_member(self, value: Any, places: Any) -> Any:
        sets = rnp.take(self.members.astype(value.dtype), places, axis=0)
        return rnp.any(rnp.equal(rnp.expand_dims(value, -1), sets), -1)


_AGGREGATES: dict[str, Any] = {"SUM": rnp.sum, "AVERAGE": rnp.mean, "MIN": rnp.min, "MAX": rnp.max}
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
        below = np.where(are_leaves, np.asarray(ids) + inner, np.asarray(ids))
        return np.concatenate([below, own]).astype(np.int64)

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
    return _aggregated(trees.leaves(x), weights, _BY_NUMBER[aggregate_function], post_transform)


def _aggregated(leaves: Any, weights: Array, aggregate: str, post_transform: Any) -> Any:
    votes = rnp.take(weights, leaves, axis=0)
    return transformed(_AGGREGATES[aggregate](votes, 1), post_transform)


def _sets(modes: Array, values: Any, nodes: int) -> Array | None:
    """Return the sets of the nodes that ask for membership; a NaN ends each in the list."""
    if values is None:
        return None
    owners = np.flatnonzero(modes == _MEMBER)
    ends = np.flatnonzero(np.isnan(values))
    parts = np.split(np.asarray(values), ends + 1)
    if len(parts) - 1 != owners.size:
        raise FormatError(
            f"{len(parts) - 1} sets of members for {owners.size} nodes that ask for one",
            remedy="the model is malformed: export it again",
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
    own = np.arange(len(keys))
    true, false = own.copy(), own.copy()
    for number, (tree, _) in enumerate(keys):
        if nodes_modes[number] != "LEAF":
            true[number] = place[tree, nodes_truenodeids[number]]
            false[number] = place[tree, nodes_falsenodeids[number]]
    below = set(true[true != own]) | set(false[false != own])
    roots = np.asarray([n for n in own if n not in below], np.int64)
    trees = Trees(
        np.asarray(nodes_featureids, np.int64),
        np.asarray(_or_tensor(nodes_values, nodes_values_as_tensor)),
        np.asarray([_MODES.get(mode, 0) for mode in nodes_modes], np.int64), true, false, roots,
        np.asarray(nodes_missing_value_tracks_true or (0,) * len(keys), bool),
    )  # fmt: skip
    return trees, place


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
    votes = rnp.take(weights, trees.leaves(rnp.astype(x, "f32")), axis=0)
    total = _AGGREGATES[aggregate_function](votes, 1)
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
    scores = rnp.sum(rnp.take(weights, trees.leaves(rnp.astype(x, "f32")), axis=0), 1)
    base = _or_tensor(base_values, base_values_as_tensor)
    if base is not None and len(base):
        scores = scores + np.asarray(base, np.float32)[-scores.shape[-1] :]
    if not is_binary:
        return labels.at(rnp.argmax(scores, -1)), transformed(scores, post_transform)
    is_share = bool(np.min(given) >= 0)
    above = rnp.greater(scores[:, 0], 0.5 if is_share else 0.0)
    chosen = labels.at(rnp.astype(above, "i64"))
    return chosen, two_classes(scores, post_transform, is_share=is_share)
