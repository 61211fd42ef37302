"""Types without numbers, and linear parts of functions."""

from __future__ import annotations

import numpy as np

import rlx
import rlx.numpy as rnp

X = np.array([0.5, -1.0, 2.0])


def test_eval_shape_returns_types_without_running() -> None:
    given = rlx.ShapeDtypeStruct((4, 3), np.float32)
    found = rlx.eval_shape(lambda x, y: {"product": x @ y, "count": rnp.sum(y > 0)}, given, X)
    assert found["product"] == rlx.ShapeDtypeStruct((4,), np.float64)
    assert found["count"] == rlx.ShapeDtypeStruct((), np.int64)
    assert found["product"].size == 4


def test_linearize_is_the_value_and_its_pushforward() -> None:
    value, push = rlx.linearize(lambda x: rnp.sin(x) * 2, X)
    np.testing.assert_allclose(value, np.sin(X) * 2)
    np.testing.assert_allclose(rlx.jit(push)(np.ones(3)), 2 * np.cos(X))


def test_linear_transpose() -> None:
    matrix = np.arange(6.0).reshape(2, 3)
    transposed = rlx.linear_transpose(lambda x: matrix @ x, rlx.ShapeDtypeStruct((3,), "f64"))
    np.testing.assert_allclose(rlx.jit(transposed)(np.array([1.0, 2.0]))[0], matrix.T @ [1.0, 2.0])
