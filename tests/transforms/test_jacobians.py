"""Jacobians by several arguments: a tuple with a matrix for each, in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp


@pytest.mark.parametrize("jacobian", [rlx.jacrev, rlx.jacfwd])
def test_jacobians_by_several_arguments_are_a_tuple_of_matrices(jacobian: Any) -> None:
    a = np.arange(6.0).reshape(2, 3)
    x, y = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0])

    def function(x: Any, y: Any) -> Any:
        return rnp.matmul(a, x) * y

    by_x, by_y = jacobian(function, argnums=(0, 1))(x, y)
    np.testing.assert_allclose(by_x, y[:, None] * a)
    np.testing.assert_allclose(by_y, np.diag(a @ x))
