"""`tridiagonal_solve` of systems that need exchanges of rows, against dense solutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax

SHAPES: Any = [(1,), (2,), (5,), (2, 1), (3, 6)]


def _system(shape: tuple[int, ...]) -> Any:
    """Return the three diagonals, the main one with zeros, and their dense matrices."""
    random = np.random.default_rng(3)
    lower, upper = random.uniform(1, 2, (2, *shape))
    diagonal = random.normal(size=shape)
    if shape[-1] > 1:
        diagonal[..., 0] = diagonal[..., 2::3] = 0
    lower[..., 0] = upper[..., -1] = np.nan  # these are not read
    dense = np.zeros((*shape, shape[-1]))
    for i in range(shape[-1]):
        dense[..., i, i] = diagonal[..., i]
        if i:
            dense[..., i, i - 1], dense[..., i - 1, i] = lower[..., i], upper[..., i - 1]
    return lower, diagonal, upper, dense


@pytest.mark.parametrize("shape", SHAPES)
def test_zeros_on_the_diagonal_are_exchanged(shape: tuple[int, ...]) -> None:
    lower, diagonal, upper, dense = _system(shape)
    b = np.random.default_rng(4).normal(size=(*shape, 2))
    found = lax.linalg.tridiagonal_solve(lower, diagonal, upper, b)
    np.testing.assert_allclose(found, np.linalg.solve(dense, b), rtol=1e-9, atol=1e-9)


def test_the_gradient_is_that_of_the_dense_solution() -> None:
    lower, diagonal, upper, dense = _system((3, 6))
    b = np.random.default_rng(4).normal(size=(3, 6, 2))

    def squares(diagonal: Any, b: Any) -> Any:
        return rnp.sum(lax.linalg.tridiagonal_solve(lower, diagonal, upper, b) ** 2)

    of_diagonal, of_b = rlx.grad(squares, (0, 1))(diagonal, b)
    x = np.linalg.solve(dense, b)
    adjoint = np.linalg.solve(np.swapaxes(dense, -1, -2), 2 * x)
    np.testing.assert_allclose(of_b, adjoint, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(of_diagonal, -np.sum(adjoint * x, -1), rtol=1e-8, atol=1e-8)
