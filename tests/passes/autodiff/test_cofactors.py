"""The derivative of a determinant is the matrix of cofactors, of singular matrices, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from rlx.numpy import linalg

Array = NDArray[Any]
BACKENDS = ["reference", "llvm"]


def matrix(extent: int, rank: int) -> Array:
    """Return a matrix of small integers of the given rank: rows repeat, so that pivots are 0."""
    rows = np.random.default_rng(extent).integers(-3, 4, (extent, extent)).astype(np.float64)
    rows[rank:] = rows[0] if rank else 0
    return rows


def minors(a: Array) -> Array:
    """Return the cofactors by their definition."""
    indices = np.ndindex(a.shape)
    cut = [np.delete(np.delete(a, i, 0), j, 1) for i, j in indices]
    signs = [(-1) ** (i + j) for i, j in np.ndindex(a.shape)]
    return np.array([s * np.linalg.det(m) for s, m in zip(signs, cut, strict=True)]).reshape(
        a.shape
    )


@pytest.mark.whole
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("extent", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("missing", [0, 1, 2, 3])
def test_the_gradient_of_a_determinant_is_its_cofactors(
    extent: int, missing: int, backend: str
) -> None:
    a = matrix(extent, max(extent - missing, 0))
    found = rlx.jit(rlx.grad(linalg.det), backend=backend)(a)
    np.testing.assert_allclose(found, minors(a), rtol=1e-9, atol=1e-9 * np.abs(a).max() ** extent)


@pytest.mark.parametrize("column", [0, 2, 4])
def test_a_column_of_zeros_leaves_the_cofactors_of_that_column(column: int) -> None:
    a = matrix(5, 5)
    a[:, column] = 0
    np.testing.assert_allclose(rlx.jit(rlx.grad(linalg.det))(a), minors(a), rtol=1e-9, atol=1e-9)


def test_regular_and_singular_matrices_of_one_stack_keep_to_themselves() -> None:
    stack = np.stack([matrix(4, 4), matrix(4, 3), np.zeros((4, 4)), np.eye(4)]).astype(np.float32)
    found = rlx.jit(rlx.grad(lambda a: linalg.det(a).sum()))(stack)
    expected = [minors(a.astype(np.float64)) for a in stack]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("extent", [2, 3, 4, 5])
def test_forward_and_second_derivatives_at_a_singular_matrix(extent: int) -> None:
    a, da = matrix(extent, extent - 1), matrix(extent + 1, extent + 1)[:extent, :extent]
    _, tangent = rlx.jit(lambda x: rlx.jvp(linalg.det, (x,), (da,)))(a)
    np.testing.assert_allclose(tangent, (minors(a) * da).sum(), rtol=1e-9)
    _, second = rlx.jit(lambda x: rlx.jvp(rlx.grad(linalg.det), (x,), (da,)))(a)
    expected = (minors(a + da * 1e-4) - minors(a - da * 1e-4)) / 2e-4
    np.testing.assert_allclose(second, expected, rtol=1e-5, atol=1e-4 * np.abs(expected).max())
