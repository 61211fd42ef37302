"""Rounding in training: known values, gradients, and wrong uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError, GraphError, ShapeError

X = np.array([-2, -0.4, 0.1, 0.6, 1], np.float32)


def test_values_of_a_batch_are_multiples_of_its_own_scale() -> None:
    made = rlx.jit(lambda x: rlx.nn.fake_quantize(x, bits=4))(X)
    np.testing.assert_allclose(made, [-2, -0.2857143, 0, 0.5714286, 0.8571429], atol=1e-6)


def test_a_given_scale_is_used_for_each_channel() -> None:
    x, scale = np.stack([X, X]), np.array([0.5, 0.25], np.float32)
    made = rlx.nn.fake_quantize(x, scale, bits=4, axis=0)
    np.testing.assert_allclose(made, [[-2, -0.5, 0, 0.5, 1], [-1.75, -0.5, 0, 0.5, 1]])


def test_a_moving_average_is_a_result() -> None:
    state = np.zeros(1, np.float32)
    for largest, expected in ((1.27, 0.01), (2.54, 0.011), (0.0, 0.0099)):
        x = np.array([largest], np.float32)
        _, state = rlx.nn.fake_quantize_ema(x, state, decay=0.9)
        np.testing.assert_allclose(state, [expected], atol=1e-6)


def test_a_learned_scale_has_a_gradient() -> None:
    dy = np.arange(1, 6, dtype=np.float32)

    def weighted(x: Any, scale: Any) -> Any:
        return rnp.sum(rlx.nn.fake_quantize_lsq(x, scale, bits=4) * dy)

    dx, dscale = rlx.grad(weighted, argnums=(0, 1))(X, np.array([0.25], np.float32))
    np.testing.assert_allclose(dx, [0, 2, 3, 4, 5])
    np.testing.assert_allclose(dscale, [-10.6], atol=1e-5)


def test_wrong_uses_are_typed_errors() -> None:
    with pytest.raises(GraphError, match="bits"):
        rlx.nn.fake_quantize(X, bits=3)
    with pytest.raises(ShapeError, match=r"scale has shape \(3,\); it must be \(5,\)"):
        rlx.nn.fake_quantize(X, np.ones(3, np.float32), axis=0)
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        rlx.nn.fake_quantize(X, axis=2)
    with pytest.raises(DTypeError, match="x has dtype i64"):
        rlx.nn.fake_quantize(np.arange(3))
