"""Batch, group and instance norm against known values and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.passes.autodiff import grad_with_loss
from tests.ir.reference.running import run, run_all

GAMMA, BETA = np.array([1, 1.1, 1.2, 1.3]), np.full(4, 0.01)
GROUPED = [
    -1.5173798, -1.0809856, -0.6445913, -0.2081971, 0.2500168, 0.7300505, 1.2100841, 1.6901178,
    -1.8228557, -1.2991827, -0.7755096, -0.2518365, 0.2936562, 0.8609687, 1.4282812, 1.9955937,
]  # fmt: skip


def test_group_norm_has_known_values_for_each_example() -> None:
    one = (0.1 * np.arange(16) - 0.3).reshape(1, 4, 2, 2)
    x = np.concatenate([one, one[:, ::-1]])
    y = run(ops.group_norm, x, GAMMA, BETA, num_groups=2, eps=1e-5)
    np.testing.assert_allclose(y[0].ravel(), GROUPED, atol=1e-6)
    np.testing.assert_allclose(y[1], _group_norm(x[1]), atol=1e-12)


def test_the_gradient_of_group_norm_has_known_values() -> None:
    graph = Graph("loss")
    x, gamma, beta = graph.input("x", (1, 4, 2, 2), "f64"), *_vectors(graph)
    y = graph.group_norm(x, gamma, beta, num_groups=2, eps=1e-5)
    graph.set_outputs([graph.reduce_sum(y, axes=(0, 1, 2, 3))])
    feeds = {"x": (0.1 * np.arange(16) - 0.3).reshape(1, 4, 2, 2), "gamma": GAMMA, "beta": BETA}
    feeds["d_output"] = np.array(1.0)
    found = evaluate(grad_with_loss(graph, ["x", "gamma", "beta"]), feeds)
    dx, dgamma, dbeta = found[-3:]
    half = [
        0.072677,
        -0.0104299,
        -0.0935368,
        -0.1766437,
        0.1766437,
        0.0935368,
        0.0104299,
        -0.072677,
    ]
    np.testing.assert_allclose(dx.ravel(), half * 2, atol=1e-6)
    np.testing.assert_allclose(dgamma, [-3.4911538, 3.4911538] * 2, atol=1e-6)
    np.testing.assert_array_equal(dbeta, [4, 4, 4, 4])


def test_layer_norm2d_has_known_values() -> None:
    x = np.arange(1.0, 9).reshape(1, 2, 2, 2)
    y = run(ops.layer_norm2d, x, np.ones(2), np.zeros(2), eps=1e-5)
    np.testing.assert_allclose(y.ravel(), [-0.9999988] * 4 + [0.9999988] * 4, atol=1e-7)
    # Per position, not over H and W as PyTorch's layer norm of three axes.
    x = (0.01 * np.arange(36) - 0.1).reshape(1, 4, 3, 3)
    gamma, beta = 1 + 0.05 * np.arange(4), -0.02 * np.arange(4)
    y = run(ops.layer_norm2d, x, gamma, beta, eps=1e-5)
    expected = run(ops.layer_norm, np.moveaxis(x, 1, -1), gamma, beta, axis=-1, eps=1e-5)
    np.testing.assert_allclose(np.moveaxis(y, 1, -1), expected, rtol=1e-12)


@pytest.mark.parametrize("axis", [1, -1])
def test_channel_norms_agree_with_pytorch(axis: int) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    x, (gamma, beta) = rng.standard_normal((3, 4, 5, 6)), rng.standard_normal((2, 4))
    mean, variance = rng.standard_normal(4), rng.uniform(0.5, 2, 4)
    given = x if axis == 1 else np.moveaxis(x, 1, -1)
    tensor, weight, bias = map(torch.tensor, (x, gamma, beta))
    functional, options = torch.nn.functional, {"axis": axis, "eps": 1e-5}

    def agrees(found: Any, theirs: Any) -> None:
        ours = found if axis == 1 else np.moveaxis(found, -1, 1)
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-9, atol=1e-12)

    agrees(
        run(ops.group_norm, given, gamma, beta, num_groups=2, **options),
        functional.group_norm(tensor, 2, weight, bias),
    )
    agrees(
        run(ops.instance_norm, given, gamma, beta, **options),
        functional.instance_norm(tensor, weight=weight, bias=bias),
    )
    agrees(
        run(ops.batch_norm_inference, given, gamma, beta, mean, variance, **options),
        functional.batch_norm(
            tensor, torch.tensor(mean), torch.tensor(variance), weight, bias, eps=1e-5
        ),
    )
    y, batch_mean, batch_variance = run_all(ops.batch_norm_training, given, gamma, beta, **options)
    agrees(y, functional.batch_norm(tensor, None, None, weight, bias, training=True))
    np.testing.assert_allclose(batch_mean, x.mean(axis=(0, 2, 3)))
    np.testing.assert_allclose(batch_variance, x.var(axis=(0, 2, 3)))


def test_groups_that_do_not_divide_the_channels_are_refused() -> None:
    with pytest.raises(ShapeError, match="3 groups do not divide 4 channels"):
        run(ops.group_norm, np.ones((1, 4, 2)), GAMMA, BETA, num_groups=3, eps=1e-5)


def test_statistics_of_nothing_are_refused() -> None:
    with pytest.raises(ShapeError, match="must hold an element"):
        run(ops.group_norm, np.ones((1, 4, 0)), GAMMA, BETA, num_groups=2, eps=1e-5)


def _group_norm(example: Any) -> Any:
    groups = example.reshape(2, -1)
    centered = groups - groups.mean(axis=1, keepdims=True)
    scaled = centered / np.sqrt(groups.var(axis=1, keepdims=True) + 1e-5)
    return scaled.reshape(example.shape) * GAMMA[:, None, None] + BETA[:, None, None]


def _vectors(graph: Graph) -> list[Any]:
    return [graph.input(name, (4,), "f64") for name in ("gamma", "beta")]
