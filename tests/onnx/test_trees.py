"""Ensembles of trees: walks of few and many rows, and damaged tables."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import rlx  # noqa: E402
from rlx.errors import FormatError, LimitError  # noqa: E402
from rlx.limits import current_budget  # noqa: E402
from rlx.onnx import InferenceSession, load, tree_masks, tree_sets, tree_tables  # noqa: E402
from tests.onnx.models import model, node  # noqa: E402

FLOAT = onnx.TensorProto.FLOAT
DOMAIN = "ai.onnx.ml"


def forest(*, features: int = 3, mode: str = "BRANCH_LEQ", **damaged: Any) -> Any:
    """Return two trees: one of three leaves in two levels, and a single leaf."""
    attributes: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0, 0, 0, 1],
        "nodes_nodeids": [0, 1, 2, 3, 4, 0],
        "nodes_featureids": [0, 0, features - 1, 0, 0, 0],
        "nodes_values": [0.5, 0.0, -0.5, 0.0, 0.0, 0.0],
        "nodes_modes": [mode, "LEAF", mode, "LEAF", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 3, 0, 0, 0],
        "nodes_falsenodeids": [2, 0, 4, 0, 0, 0],
        "target_treeids": [0, 0, 0, 1],
        "target_nodeids": [1, 3, 4, 0],
        "target_ids": [0, 0, 0, 0],
        "target_weights": [1.0, 2.0, 4.0, 8.0],
        "n_targets": 1,
    }
    return ensemble("TreeEnsembleRegressor", 3, **{**attributes, **damaged})


def ensemble(operator: str, version: int, **attributes: Any) -> Any:
    tree = node(operator, ["x"], ["y"], domain=DOMAIN, **attributes)
    made = model([tree], {"x": (FLOAT, [None, 3])}, ["y"])
    made.opset_import.append(onnx.helper.make_opsetid(DOMAIN, version))
    return made


LISTS = (
    "nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_values", "nodes_modes",
    "nodes_truenodeids", "nodes_falsenodeids", "target_treeids", "target_nodeids", "target_ids",
    "target_weights",
)  # fmt: skip

THIRD: dict[str, Any] = {
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF"],
    "nodes_truenodeids": [1, 0, 3, 0, 3, 0],
}  # node 4 is an inner one, too

COMPARE: dict[str, Any] = {
    "BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater, "BRANCH_EQ": np.equal, "BRANCH_NEQ": np.not_equal,
}  # fmt: skip


@pytest.mark.parametrize("mode", COMPARE)
@pytest.mark.parametrize("rows", [1, 5, 70])
def test_leaves_are_reached_by_comparisons_with_nan_and_bounds(mode: str, rows: int) -> None:
    values = [0.5, -0.5, 0.0, 1.0, np.nan, np.inf, -np.inf]
    x = np.random.default_rng(rows).choice(values, (rows, 3)).astype(np.float32)
    holds = COMPARE[mode]
    inner = np.where(holds(x[:, 2], np.float32(-0.5)), 2, 4)
    expected = 8 + np.where(holds(x[:, 0], np.float32(0.5)), 1, inner)
    for backend in ("reference", "llvm"):
        (y,) = InferenceSession(forest(mode=mode), backend=backend).run(None, {"x": x})
        np.testing.assert_array_equal(y[:, 0], expected)


def drawn_forest(seed: int, leaves: int, *, is_chain: bool) -> tuple[Any, Any]:
    """Return a forest of drawn comparisons, bounds and missing values, and what it sums up."""
    r = np.random.default_rng(seed)
    values = np.array([-1.0, -0.5, 0.0, 0.5, 1.0], np.float32)
    rows: list[tuple[Any, ...]] = []  # tree, node, feature, value, mode, true, false, missing
    votes: list[tuple[int, int, int, float]] = []  # tree, node, target, weight

    def grow(tree: int, count: int) -> int:
        """Add a tree of `count` leaves; return its number among its nodes."""
        at, number = len(rows), len([row for row in rows if row[0] == tree])
        rows.append(())
        if count == 1:
            rows[at] = (tree, number, 0, 0.0, "LEAF", 0, 0, 0)
            votes.extend((tree, number, target, float(r.integers(-8, 9))) for target in (0, 1))
            return number
        rows[at] = (tree, number)
        left = 1 if is_chain else int(r.integers(1, count))
        sides = [left, count - left] if r.random() < 0.5 else [count - left, left]
        true, false = (grow(tree, side) for side in sides)
        mode = r.choice(list(COMPARE))
        rows[at] = (tree, number, int(r.integers(3)), float(r.choice(values)), str(mode), true,
                    false, int(r.random() < 0.3))  # fmt: skip
        return number

    for tree in range(5):
        grow(tree, max(1, leaves - 7 * tree))
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
             "missing_value_tracks_true")  # fmt: skip
    columns = zip(names, zip(*rows, strict=True), strict=True)
    nodes = {f"nodes_{name}": list(each) for name, each in columns}
    kinds = ("treeids", "nodeids", "ids", "weights")
    lists = zip(kinds, zip(*votes, strict=True), strict=True)
    targets = {f"target_{name}": list(each) for name, each in lists}

    def expected(x: Any) -> Any:
        """Walk from node to node."""
        place = {row[:2]: row for row in rows}
        weight = {vote[:3]: vote[3] for vote in votes}
        found = np.zeros((len(x), 2), np.float32)
        for number, features in enumerate(x):
            for tree in range(5):
                row = place[tree, 0]
                while row[4] != "LEAF":
                    value = features[row[2]]
                    holds = COMPARE[row[4]](value, np.float32(row[3]))
                    row = place[tree, row[5] if holds or (row[7] and np.isnan(value)) else row[6]]
                found[number] += [weight[tree, row[1], target] for target in (0, 1)]
        return found

    return ensemble("TreeEnsembleRegressor", 3, n_targets=2, **nodes, **targets), expected


@pytest.mark.parametrize("rows", [1, 2, 9, 40, 130, "any"])
@pytest.mark.parametrize(("leaves", "is_chain"), [(12, False), (31, True), (32, False), (90, True)])
@pytest.mark.parametrize("backend", ["reference", "c", "llvm"])
def test_drawn_forests_reach_the_leaves_of_a_walk(
    rows: Any, leaves: int, is_chain: bool, backend: str
) -> None:
    """Trees of more leaves than a mask has bits, too; weights are whole, so any order is exact."""
    given, expected = drawn_forest(leaves + is_chain, leaves, is_chain=is_chain)
    dims = {"x": (rlx.Dim("rows", max=200), 3)} if rows == "any" else None
    session = InferenceSession(given, backend=backend, dims=dims)
    count = 50 if rows == "any" else rows
    values = [-1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 0.25, np.nan, np.inf, -np.inf, 1e-45, -1e-45]
    x = np.random.default_rng(0).choice(values, (count, 3)).astype(np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected(x))


@pytest.mark.parametrize("limit", [40, 100])
def test_many_rows_walk_trees_by_groups(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_tables, "_IN_CACHE", limit)
    monkeypatch.setattr(tree_masks, "_WORTH", {True: 0, False: 0})
    given, expected = drawn_forest(1, 60, is_chain=False)
    x = np.random.default_rng(0).standard_normal((100, 3)).astype(np.float32)
    session = InferenceSession(given, backend="llvm")
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected(x))
    graph = load(given, dims={"x": x.shape})
    assert sum(each.op.name == "walk_trees" for each in graph.nodes) > 2


def test_a_missing_feature_is_an_error() -> None:
    x = {"x": np.zeros((2, 3), np.float32)}
    with pytest.raises(FormatError, match="reads feature 6 of rows of 3"):
        InferenceSession(forest(features=7)).run(None, x)


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        ({"nodes_truenodeids": [1, 0, 9, 0, 0, 0]}, "node 2 of tree 0 has child 9"),
        ({"nodes_truenodeids": [0, 0, 3, 0, 0, 0]}, "node 0 of tree 0 has child 0"),
        ({"nodes_falsenodeids": [2, 0, 0, 0, 0, 0]}, "first node of tree 0, its root, is a child"),
        ({"nodes_falsenodeids": [2, 0, 4, 0, 2, 0], **THIRD}, "nodes of a tree form a cycle"),
        ({"nodes_modes": ["BRANCH_NOT", *["LEAF"] * 5]}, "a node has mode BRANCH_NOT"),
        ({"nodes_featureids": [-2, 0, 0, 0, 0, 0]}, "reads feature -2 of rows of 3"),
        (dict.fromkeys(LISTS), "an ensemble has no trees"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damaged_tables_are_errors(damaged: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        InferenceSession(forest(**damaged)).run(None, {"x": np.zeros((2, 3), np.float32)})


def test_nodes_that_no_root_reaches_are_unused() -> None:
    """Tree 0 loses its inner node, whose leaves would add 2 or 4; ONNX Runtime agrees."""
    cut = forest(nodes_falsenodeids=[1, 0, 4, 0, 0, 0])
    (y,) = InferenceSession(cut).run(None, {"x": np.zeros((2, 3), np.float32)})
    np.testing.assert_array_equal(y, [[9], [9]])


def stumps(**damaged: Any) -> Any:
    """Return two nodes over three leaves, as TreeEnsemble has them."""
    given: dict[str, Any] = {
        "nodes_featureids": [0, 1], "nodes_splits": np.array([0, 0.5], np.float32),
        "nodes_modes": np.zeros(2, np.uint8),
        "nodes_truenodeids": [1, 0], "nodes_trueleafs": [0, 1],
        "nodes_falsenodeids": [1, 2], "nodes_falseleafs": [1, 1],
        "tree_roots": [0], "leaf_targetids": [0] * 3,
        "leaf_weights": np.array([1, 2, 4], np.float32), **damaged,
    }  # fmt: skip
    tensors = {
        name: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in given.items()
    }
    return ensemble("TreeEnsemble", 5, n_targets=1, **tensors)


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        ({"nodes_modes": np.array([9, 0], np.uint8)}, "nodes_modes has 9"),
        ({"nodes_modes": np.array([6, 0], np.uint8)}, "there are no membership_values"),
        ({"nodes_truenodeids": [2, 0]}, "children has 2"),
        ({"nodes_falsenodeids": [1, 3]}, "children has 3"),
        ({"nodes_truenodeids": [0, 0]}, "a node of a tree is its own child"),
        ({"tree_roots": [-1]}, "tree_roots has -1"),
        ({"leaf_targetids": [0, 0, 1]}, "leaf_targetids has 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damaged_indices_are_errors(damaged: dict[str, Any], message: str) -> None:
    x = {"x": np.ones((2, 3), np.float32)}
    np.testing.assert_array_equal(InferenceSession(stumps()).run(None, x)[0], [[2], [2]])
    with pytest.raises(FormatError, match=message):
        InferenceSession(stumps(**damaged)).run(None, x)


@pytest.mark.parametrize("rows", [2, 50])
def test_trees_may_share_leaves(rows: int) -> None:
    count = 40
    splits = np.linspace(-1, 1, count).astype(np.float32)
    shared = ensemble(
        "TreeEnsemble", 5, n_targets=1, nodes_featureids=[0] * count,
        nodes_splits=onnx.numpy_helper.from_array(splits),
        nodes_modes=onnx.numpy_helper.from_array(np.zeros(count, np.uint8)),
        nodes_truenodeids=[0] * count, nodes_trueleafs=[1] * count,
        nodes_falsenodeids=[1] * count, nodes_falseleafs=[1] * count,
        tree_roots=list(range(count)), leaf_targetids=[0, 0],
        leaf_weights=onnx.numpy_helper.from_array(np.array([1, 10], np.float32)),
    )  # fmt: skip
    x = np.random.default_rng(0).standard_normal((rows, 3)).astype(np.float32)
    (y,) = InferenceSession(shared).run(None, {"x": x})
    np.testing.assert_array_equal(y[:, 0], np.where(x[:, :1] <= splits, 1, 10).sum(1))


def chain_of_equals(values: list[float], *, missing: bool, mode: str) -> dict[str, Any]:
    """Return a tree that compares one feature with values in turn, of equal leaves but the last."""
    count = len(values)
    inner, leaves = list(range(count)), list(range(count, 2 * count + 1))
    equal, others = leaves[:count], [*inner[1:], leaves[count]]
    is_equal = mode == "BRANCH_EQ"
    return {
        "nodes_treeids": [0] * len(inner + leaves),
        "nodes_nodeids": inner + leaves,
        "nodes_featureids": [1] * count + [0] * len(leaves),
        "nodes_values": values + [0.0] * len(leaves),
        "nodes_modes": [mode] * count + ["LEAF"] * len(leaves),
        "nodes_truenodeids": (equal if is_equal else others) + [0] * len(leaves),
        "nodes_falsenodeids": (others if is_equal else equal) + [0] * len(leaves),
        "nodes_missing_value_tracks_true": [int(missing)] * count + [0] * len(leaves),
        "target_treeids": [0] * len(leaves), "target_nodeids": leaves,
        "target_ids": [0] * len(leaves), "target_weights": [1.0] * count + [2.0],
    }  # fmt: skip


@pytest.mark.parametrize("mode", ["BRANCH_EQ", "BRANCH_NEQ"])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("rows", [1, 70])
def test_a_chain_of_comparisons_with_values_is_sets(rows: int, missing: bool, mode: str) -> None:
    """Three sets of 30, 30 and 15 values; NaN is equal if missing values count so."""
    values = [float(each) for each in range(0, 150, 2)]
    given = forest(**chain_of_equals(values, missing=missing, mode=mode))
    is_equal_if_missing = missing and mode == "BRANCH_EQ"
    x = np.random.default_rng(0).integers(-2, 160, (rows, 3)).astype(np.float32)
    x[::7] = np.nan
    x[1::11] = 2.5
    found = np.where(np.isnan(x[:, 1]), is_equal_if_missing, np.isin(x[:, 1], values))
    expected = np.where(found, 1, 2)
    for backend in ("reference", "c", "llvm"):
        (y,) = InferenceSession(given, backend=backend).run(None, {"x": x})
        np.testing.assert_array_equal(y[:, 0], expected)


def count_of_records(given: Any) -> int:
    """Return the nodes and leaves in the table of an ensemble, and the record of the end."""
    graph = load(given, dims={"x": (1, 3)})
    (walk,) = [each for each in graph.nodes if each.op.name == "walk_trees"]
    found: int = walk.operands[1].shape[0] // walk.attribute("width")
    return found


def test_a_folded_chain_has_a_node_for_30_values() -> None:
    nodes = chain_of_equals([float(each) for each in range(75)], missing=False, mode="BRANCH_EQ")
    assert count_of_records(forest(**nodes)) == 1 + 3 + 4  # the end, the sets, and their leaves


def long_chain(count: int, *, is_same: bool) -> Any:
    """Return a chain of comparisons with 0, 1, ..., of equal leaves or of a leaf for each value."""
    nodes = chain_of_equals([float(each) for each in range(count)], missing=False, mode="BRANCH_EQ")
    weights = [1.0] * count if is_same else [float(each) for each in range(count)]
    return forest(**{**nodes, "target_weights": [*weights, -1.0]})


@pytest.mark.parametrize("is_same", [True, False])
def test_a_long_chain_has_nodes_for_its_sets(is_same: bool) -> None:
    count = 3000
    given = long_chain(count, is_same=is_same)
    tests = count // 30 if is_same else count
    assert count_of_records(given) == 1 + tests + (tests + 1)
    x = np.random.default_rng(0).integers(-100, count + 100, (70, 3)).astype(np.float32)
    expected = np.where((x[:, 1] < 0) | (x[:, 1] >= count), -1, 1 if is_same else x[:, 1])
    (y,) = InferenceSession(given, backend="llvm").run(None, {"x": x})
    np.testing.assert_array_equal(y[:, 0], expected)


def count_of_steps(given: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the calls that making sets takes, and the sizes of the sets that are copied."""
    steps = 0

    def count_call(_frame: Any, event: str, _function: Any) -> None:
        nonlocal steps
        steps += event in ("call", "c_call")

    def copied(members: set[float]) -> frozenset[float]:
        nonlocal steps
        steps += len(members)
        return frozenset(members)

    def counted(*operands: Any) -> Any:
        sys.setprofile(count_call)
        try:
            return with_sets(*operands)
        finally:
            sys.setprofile(profile)

    with_sets, profile = tree_sets.with_sets, sys.getprofile()
    with monkeypatch.context() as patch:
        patch.setattr(tree_sets, "frozenset", copied, raising=False)
        patch.setattr(tree_tables, "with_sets", counted)
        load(given, dims={"x": (1, 3)})
    return steps


@pytest.mark.parametrize("is_same", [True, False])
def test_steps_grow_as_chains_do(is_same: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as the square of their length."""
    few, many = (
        count_of_steps(long_chain(count, is_same=is_same), monkeypatch) for count in (750, 3000)
    )
    assert 750 < few < many < 5 * few


@pytest.mark.parametrize("count", [1, 40])
def test_making_sets_takes_no_more_time_than_the_limit(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time is up when the sets are begun; a single one is no chain to fold."""
    caught: list[LimitError] = []

    def late(*operands: Any) -> Any:
        monkeypatch.setattr(current_budget(), "_started", -math.inf)
        try:
            return with_sets(*operands)
        except LimitError as error:
            caught.append(error)
            raise

    with_sets = tree_sets.with_sets
    monkeypatch.setattr(tree_tables, "with_sets", late)
    with pytest.raises(LimitError, match="the limit seconds is 60"):
        load(long_chain(count, is_same=True), dims={"x": (1, 3)}, limits=rlx.LoadLimits(seconds=60))
    assert caught


@pytest.mark.parametrize("rows", [3, 40])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_sets_of_members_have_any_size(rows: int, dtype: Any) -> None:
    """One of 100 values and one of none, below a comparison, and a missing value that holds."""
    members = [*range(0, 200, 2), np.nan, np.nan]
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    tensors = {
        name: onnx.numpy_helper.from_array(np.array(each, dtype))
        for name, each in {
            "nodes_splits": [100, 0, 0], "leaf_weights": [1, 2, 4, 8], "membership_values": members,
        }.items()
    }  # fmt: skip
    tree = node(
        "TreeEnsemble", ["x"], ["y"], domain=DOMAIN, n_targets=1, nodes_featureids=[0, 1, 2],
        nodes_modes=onnx.numpy_helper.from_array(np.array([0, 6, 6], np.uint8)),
        nodes_truenodeids=[1, 0, 2], nodes_trueleafs=[0, 1, 1], nodes_falsenodeids=[2, 1, 3],
        nodes_falseleafs=[0, 1, 1], nodes_missing_value_tracks_true=[0, 0, 1], tree_roots=[0],
        leaf_targetids=[0] * 4, **tensors,
    )  # fmt: skip
    made = model([tree], {"x": (kind, [None, 3])}, ["y"])
    made.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 5))
    x = np.random.default_rng(0).integers(-5, 210, (rows, 3)).astype(dtype)
    x[1::5] = np.nan
    is_member = np.isin(x[:, 1], members[:-2])
    expected = np.where(
        x[:, 0] <= 100, np.where(is_member, 1, 2), np.where(np.isnan(x[:, 2]), 4, 8)
    )
    for backend in ("reference", "llvm"):
        (y,) = InferenceSession(made, backend=backend).run(None, {"x": x})
        np.testing.assert_array_equal(y[:, 0], expected)
