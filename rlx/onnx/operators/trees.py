"""Operators that are ensembles of decision trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.onnx.leaves import LeafValues, Walk
from rlx.onnx.operators.scores import Labels, transformed, two_classes
from rlx.onnx.registry import operator
from rlx.onnx.tree_masks import votes
from rlx.onnx.tree_sets import EQ, GT, GTE, LEQ, LT, MEMBER, NEQ, Nodes
from rlx.onnx.tree_tables import Trees, malformed
from rlx.tracing.trace import TracedArray

_DOMAIN = "ai.onnx.ml"
Array = np.ndarray[Any, Any]

MODES = {
    "BRANCH_LEQ": LEQ, "BRANCH_LT": LT, "BRANCH_GTE": GTE, "BRANCH_GT": GT,
    "BRANCH_EQ": EQ, "BRANCH_NEQ": NEQ, "BRANCH_MEMBER": MEMBER,
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
            raise malformed("a node of a tree is its own child")
        return np.concatenate([below, own]).astype(np.int64)

    _require_indices("nodes_modes", nodes_modes, len(MODES))
    _require_indices("tree_roots", tree_roots, inner)
    _require_indices("leaf_targetids", leaf_targetids, n_targets)

    missing = nodes_missing_value_tracks_true or (0,) * inner
    pad = np.zeros(leaves)
    nodes = Nodes(
        np.concatenate([nodes_featureids, pad]).astype(np.int64),
        np.concatenate([np.asarray(nodes_splits), pad]),
        np.concatenate([np.asarray(nodes_modes), pad]).astype(np.int64),
        children(nodes_truenodeids, nodes_trueleafs),
        children(nodes_falsenodeids, nodes_falseleafs),
        np.concatenate([missing, pad]).astype(bool),
        _sets(np.asarray(nodes_modes), membership_values),
    )
    weights = np.zeros((inner + leaves, n_targets), x.dtype)
    weights[own, np.asarray(leaf_targetids)] = leaf_weights
    trees = Trees(nodes, np.asarray(tree_roots, np.int64), weights)
    if _is_lazy(trees, x, post_transform):
        return _leaf_values(trees, x, weights)
    total = votes(trees, x, weights, _BY_NUMBER[aggregate_function])
    return transformed(total, post_transform)


def _is_lazy(trees: Trees, x: Any, post_transform: Any) -> bool:
    """True if a result is a function of the leaf of one tree, which need not be walked yet."""
    is_plain = post_transform in (0, "NONE")
    return is_plain and trees.roots.size == 1 and isinstance(x, TracedArray) and x.ndim == 2


def _leaf_values(trees: Trees, x: Any, weights: Array) -> LeafValues:
    trees.require_features(x.shape[1])
    walk = Walk(trees, x, weights.dtype)
    return LeafValues(((walk, weights[trees.order][walk.leaves]),))


def _require_indices(name: str, found: Any, count: Any) -> None:
    """Raise a FormatError unless all elements are at least 0 and less than `count`."""
    indices = np.asarray(found)
    outside = (indices < 0) | (indices >= count)
    if outside.any():
        raise malformed(f"{name} has {indices[outside][0]}, which is not an index of the model")


def _sets(modes: Array, values: Any) -> dict[int, Array]:
    """Return the sets of the nodes that test membership; a NaN ends each in the list."""
    owners = np.flatnonzero(modes == MEMBER)
    if values is None and owners.size:
        raise malformed("nodes test membership, and there are no membership_values")
    if values is None:
        return {}
    ends = np.flatnonzero(np.isnan(values))
    parts = np.split(np.asarray(values), ends + 1)
    if len(parts) - 1 != owners.size:
        raise malformed(f"{len(parts) - 1} sets of members for {owners.size} nodes that test one")
    return {int(owner): part[:-1] for owner, part in zip(owners, parts, strict=False)}


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
) -> tuple[Nodes, Array, dict[tuple[int, int], int]]:
    """Return nodes that are numbered per tree, roots, and the place of each (tree, node)."""
    del nodes_hitrates, nodes_hitrates_as_tensor
    keys = list(zip(nodes_treeids, nodes_nodeids, strict=True))
    place = {key: number for number, key in enumerate(keys)}
    modes = [_mode_of(mode) for mode in nodes_modes]
    true, false = np.arange(len(keys)), np.arange(len(keys))
    for number, key in enumerate(keys):
        if nodes_modes[number] != "LEAF":
            true[number] = _place_of_child(place, key, nodes_truenodeids[number])
            false[number] = _place_of_child(place, key, nodes_falsenodeids[number])
    nodes = Nodes(
        np.asarray(nodes_featureids, np.int64),
        np.asarray(_or_tensor(nodes_values, nodes_values_as_tensor)),
        np.asarray(modes, np.int64), true, false,
        np.asarray(nodes_missing_value_tracks_true or (0,) * len(keys), bool), {},
    )  # fmt: skip
    return nodes, _roots(keys, true, false), place


def _mode_of(name: str) -> int:
    """Return the number of a mode; any for leaves, which compare nothing."""
    known = ("LEAF", *(mode for mode, number in MODES.items() if number != MEMBER))
    if name not in known:
        raise malformed(f"a node has mode {name}; modes are {', '.join(known)}")
    return MODES.get(name, LEQ)


def _place_of_child(place: dict[tuple[int, int], int], parent: tuple[int, int], child: int) -> int:
    """Return the place of a child of another node of the same tree."""
    key = parent[0], child
    if key == parent or key not in place:
        raise malformed(f"node {parent[1]} of tree {parent[0]} has child {child}, which is none")
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
            raise malformed(f"the first node of tree {tree}, its root, is a child of another one")
    return np.asarray(list(first.values()), np.int64)


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
    given_nodes, roots, place = _classic(**nodes)
    given = _or_tensor(target_weights, target_weights_as_tensor)
    weights = _weights(place, n_targets, target_treeids, target_nodeids, target_ids, given)
    trees = Trees(given_nodes, roots, weights)
    base = _or_tensor(base_values, base_values_as_tensor)
    offset = np.asarray(base if base is not None and len(base) else 0, np.float32)
    if _is_lazy(trees, x, post_transform):
        return _leaf_values(trees, x, weights + offset if offset.ndim else weights)
    total = votes(trees, rnp.astype(x, "f32"), weights, aggregate_function)
    return transformed(total + offset if offset.ndim else total, post_transform)


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
    given_nodes, roots, place = _classic(**nodes)
    count = len(classlabels_int64s or classlabels_strings or ())
    labels = Labels.of(classlabels_int64s, classlabels_strings, count)
    given = _or_tensor(class_weights, class_weights_as_tensor)
    is_binary = count == 2 and len(set(class_ids)) == 1
    ids = [0] * len(class_ids) if is_binary else class_ids
    weights = _weights(place, 1 if is_binary else count, class_treeids, class_nodeids, ids, given)
    trees = Trees(given_nodes, roots, weights)
    scores = votes(trees, rnp.astype(x, "f32"), weights, "SUM")
    base = _or_tensor(base_values, base_values_as_tensor)
    if base is not None and len(base):
        scores = scores + np.asarray(base, np.float32)[-scores.shape[-1] :]
    if not is_binary:
        return labels.at(rnp.argmax(scores, -1)), transformed(scores, post_transform)
    is_share = bool(np.min(given) >= 0)
    above = rnp.greater(scores[:, 0], 0.5 if is_share else 0.0)
    chosen = labels.at(rnp.astype(above, "i64"))
    return chosen, two_classes(scores, post_transform, is_share=is_share)
