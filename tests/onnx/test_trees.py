"""Ensembles of trees: walks of few and many rows, and damaged tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from rlx.errors import FormatError  # noqa: E402
from rlx.onnx import InferenceSession  # noqa: E402
from tests.onnx.models import model, node  # noqa: E402

FLOAT = onnx.TensorProto.FLOAT
DOMAIN = "ai.onnx.ml"


def forest(*, features: int = 3, mode: str = "BRANCH_LEQ", loop: bool = False) -> Any:
    """Return two trees: one of three leaves in two levels, and a single leaf."""
    attributes: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0, 0, 0, 1],
        "nodes_nodeids": [0, 1, 2, 3, 4, 0],
        "nodes_featureids": [0, 0, features - 1, 0, 0, 0],
        "nodes_values": [0.5, 0.0, -0.5, 0.0, 0.0, 0.0],
        "nodes_modes": [mode, "LEAF", mode, "LEAF", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 3, 0, 0, 0],
        "nodes_falsenodeids": [2, 0, 2 if loop else 4, 0, 0, 0],
        "target_treeids": [0, 0, 0, 1],
        "target_nodeids": [1, 3, 4, 0],
        "target_ids": [0, 0, 0, 0],
        "target_weights": [1.0, 2.0, 4.0, 8.0],
        "n_targets": 1,
    }
    tree = node("TreeEnsembleRegressor", ["x"], ["y"], domain=DOMAIN, **attributes)
    made = model([tree], {"x": (FLOAT, [None, 3])}, ["y"])
    made.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 3))
    return made


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


def test_a_cycle_and_a_missing_feature_are_errors() -> None:
    x = {"x": np.zeros((2, 3), np.float32)}
    with pytest.raises(FormatError, match="form a cycle"):
        InferenceSession(forest(loop=True)).run(None, x)
    with pytest.raises(FormatError, match="reads feature 6 of rows of 3"):
        InferenceSession(forest(features=7)).run(None, x)
