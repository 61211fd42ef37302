"""Operators of ai.onnx.ml: labels and scores are those of ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from rlx.errors import UnsupportedError  # noqa: E402
from rlx.onnx import InferenceSession  # noqa: E402
from tests.onnx.models import FLOAT, model, node  # noqa: E402

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)
X = RNG.normal(size=(12, 4)).astype(np.float32)
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")


def numbers(*shape: int) -> list[float]:
    return [float(x) for x in RNG.normal(size=shape).astype(np.float32).ravel()]


def ml(op: str, outputs: list[str], **attributes: Any) -> Any:
    """Return a model of one node of ai.onnx.ml over `x` `[rows, 4]`."""
    made = model(
        [node(op, ["x"], outputs, domain="ai.onnx.ml", **attributes)],
        {"x": (FLOAT, ["rows", X.shape[1]])}, outputs,
    )  # fmt: skip
    made.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 3))
    return made


def agree(made: Any) -> list[Array]:
    """Compare with ONNX Runtime; return our outputs."""
    peer = pytest.importorskip("onnxruntime")
    theirs = peer.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    found = InferenceSession(made, backend="reference").run(None, {"x": X})
    for ours, expected in zip(found, theirs.run(None, {"x": X}), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)
    return found


def machine(classes: int, kernel: str = "RBF", **how: Any) -> Any:
    """Return a support vector machine with three vectors a class."""
    pairs, vectors = classes * (classes - 1) // 2, 3 * classes
    return ml(
        "SVMClassifier", ["label", "scores"],
        kernel_type=kernel, kernel_params=[0.3, 0.1, 2.0], classlabels_ints=list(range(classes)),
        support_vectors=numbers(vectors, 4), vectors_per_class=[3] * classes,
        coefficients=numbers(classes - 1, vectors), rho=numbers(pairs), **how,
    )  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
def test_support_vectors_classify(kernel: str) -> None:
    agree(machine(3, kernel))


@pytest.mark.parametrize("post_transform", TRANSFORMS)
def test_a_machine_of_two_classes_scores_both(post_transform: str) -> None:
    _, scores = agree(machine(2, post_transform=post_transform))
    assert scores.shape == (len(X), 2)


@pytest.mark.parametrize("classes", [2, 4])
def test_probabilities_of_pairs_are_coupled(classes: int) -> None:
    pairs = classes * (classes - 1) // 2
    _, scores = agree(machine(classes, prob_a=[-1.5] * pairs, prob_b=numbers(pairs)))
    np.testing.assert_allclose(scores.sum(1), 1, atol=1e-5)


def test_a_linear_machine_has_a_score_for_each_class() -> None:
    agree(ml("SVMClassifier", ["label", "scores"], kernel_type="LINEAR", rho=[0.1],
             kernel_params=[0.0] * 3, classlabels_ints=[3, 1, 2],
             coefficients=numbers(3, 4)))  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_support_vectors_regress(kernel: str, one_class: int) -> None:
    agree(ml("SVMRegressor", ["y"], kernel_type=kernel, kernel_params=[0.3, 0.1, 2.0],
             n_supports=5, support_vectors=numbers(5, 4), coefficients=numbers(5), rho=[0.2],
             one_class=one_class))  # fmt: skip


def stump(tree: int, feature: int, limit: float) -> dict[str, list[Any]]:
    """Return a node with two leaves."""
    return {
        "nodes_treeids": [tree] * 3, "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [feature, 0, 0], "nodes_values": [limit, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
    }  # fmt: skip


def forest(votes: dict[tuple[int, int], list[tuple[int, float]]], **how: Any) -> Any:
    """Return stumps; `votes` says by (tree, leaf) which classes gain what."""
    trees = [stump(tree, tree % 4, 0.1 * tree) for tree in range(3)]
    nodes = {key: [x for tree in trees for x in tree[key]] for key in trees[0]}
    rows = [(*leaf, *vote) for leaf, given in votes.items() for vote in given]
    treeids, nodeids, ids, weights = zip(*rows, strict=True)
    return ml(
        "TreeEnsembleClassifier", ["label", "scores"], **nodes, class_treeids=treeids,
        class_nodeids=nodeids, class_ids=ids, class_weights=weights, **how,
    )  # fmt: skip


LEAVES = [(tree, leaf) for tree in range(3) for leaf in (1, 2)]


@pytest.mark.parametrize("post_transform", TRANSFORMS)
def test_trees_vote_for_several_classes(post_transform: str) -> None:
    votes = {leaf: list(zip(range(3), numbers(3), strict=True)) for leaf in LEAVES}
    labels, _ = agree(
        forest(votes, classlabels_int64s=[5, 7, 9], post_transform=post_transform,
               base_values=[0.1, 0.2, 0.3])
    )  # fmt: skip
    assert set(labels.tolist()) <= {5, 7, 9}


@pytest.mark.parametrize("post_transform", TRANSFORMS)
@pytest.mark.parametrize("is_share", [False, True])
def test_trees_decide_between_two_classes(post_transform: str, is_share: bool) -> None:
    scale = [0.3 * abs(x) if is_share else x for x in numbers(6)]
    votes = {leaf: [(0, weight)] for leaf, weight in zip(LEAVES, scale, strict=True)}
    agree(forest(votes, classlabels_int64s=[0, 1], post_transform=post_transform))


def test_labels_that_are_strings_are_refused() -> None:
    made = forest({leaf: [(0, 1.0), (1, 2.0)] for leaf in LEAVES}, classlabels_strings=["a", "b"])
    with pytest.raises(UnsupportedError, match="TreeEnsembleClassifier: labels that are strings"):
        InferenceSession(made).run(None, {"x": X})
