"""Normalization and cross-entropy against known values and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.ir import ops
from tests.ir.reference.running import f32, f64, run


def test_layer_norm_has_known_values() -> None:
    y = run(ops.layer_norm, f64(1, 2, 3, 4), np.ones(4), np.zeros(4), axis=-1, eps=1e-5)
    np.testing.assert_allclose(y, [-1.3416354, -0.4472118, 0.4472118, 1.3416354], atol=1e-7)


def test_layer_norm_survives_a_mean_far_above_the_deviation() -> None:
    x = (1e4 + np.array([[0.0, 1, 2, 3]])).astype(np.float32)
    y = run(ops.layer_norm, x, np.ones(4, "f4"), np.zeros(4, "f4"), axis=1, eps=1e-12)
    np.testing.assert_allclose(y, [[-1.3416408, -0.4472136, 0.4472136, 1.3416408]], rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_layer_norm_over_any_axis_agrees_with_pytorch(axis: int) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(7)
    x = rng.standard_normal((3, 4, 5))
    gamma, beta = rng.standard_normal((2, x.shape[axis]))
    theirs = torch.nn.functional.layer_norm(
        torch.tensor(np.moveaxis(x, axis, -1).copy()), gamma.shape, torch.tensor(gamma),
        torch.tensor(beta), 1e-5,
    ).numpy()  # fmt: skip
    y = run(ops.layer_norm, x, gamma, beta, axis=axis, eps=1e-5)
    np.testing.assert_allclose(y, np.moveaxis(theirs, -1, axis), rtol=1e-10)


def test_rms_norm_has_known_values_with_and_without_beta() -> None:
    one = np.ones(4)
    y = run(ops.rms_norm, f64(1, 2, 3, 4), one, axis=0, eps=1e-6)
    np.testing.assert_allclose(y, [0.3651483, 0.7302967, 1.095445, 1.4605934], atol=1e-6)
    shifted = run(ops.rms_norm, f64(2, 0, 0, 0), one, one, axis=0, eps=1e-6)
    np.testing.assert_allclose(shifted - 1, [1.999999, 0, 0, 0], atol=1e-6)


_LOGITS = np.array([[1, 2, 3], [-1, 0, 4], [5, 5, 5]], np.float32)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32])
def test_cross_entropy_has_known_values(dtype: type[np.generic]) -> None:
    labels = np.array([2, 0, 1], dtype)
    loss = run(ops.softmax_cross_entropy_with_logits, _LOGITS, labels)
    np.testing.assert_allclose(loss, [0.407606, 5.0247449, 1.0986123], atol=1e-5)
    gradient = run(ops.softmax_cross_entropy_backward, _LOGITS, labels, f32(1, 1, 1))
    expected = [
        [0.0900306, 0.2447285, -0.334759],
        [-0.9934267, 0.017868, 0.9755588],
        [1 / 3, -2 / 3, 1 / 3],
    ]
    np.testing.assert_allclose(gradient, expected, atol=1e-6)
