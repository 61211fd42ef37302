"""LU factors of stacks and of matrices that are not square, and what solves with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax
from rlx.scipy import linalg

scipy = pytest.importorskip("scipy.linalg")

SHAPES = ((4, 4), (3, 4, 4), (2, 3, 4, 4), (3, 5), (5, 3), (2, 5, 3), (1, 1), (1, 4), (4, 1))


def matrices(shape: tuple[int, ...]) -> Any:
    a = np.random.default_rng(0).normal(size=shape)
    if len(shape) > 2:
        a[0] = 0  # a singular one among others
    return a


@pytest.mark.parametrize("backend", ["llvm", "c", "none"])
@pytest.mark.parametrize("shape", SHAPES)
def test_factors_are_scipys(shape: tuple[int, ...], backend: str) -> None:
    a = matrices(shape)
    for joined in (False, True):
        factor = linalg.lu
        if backend != "none":
            factor = rlx.jit(factor, static_argnums=1, backend=backend)
        for found, expected in zip(factor(a, joined), scipy.lu(a, joined), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_exchanges_amount_to_the_permutation(shape: tuple[int, ...]) -> None:
    a = matrices(shape)
    factors, pivots, permutation = lax.linalg.lu(a)
    assert permutation.dtype == np.int32
    found = lax.linalg.lu_pivots_to_permutation(pivots, shape[-2])
    np.testing.assert_array_equal(found, permutation)
    if len(shape) == 2:
        own, exchanged = scipy.lu_factor(a)
        np.testing.assert_allclose(factors, own, atol=1e-12)
        np.testing.assert_array_equal(pivots, exchanged)


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 2), (5, 3), (2, 5, 3), (2, 3, 5)])
def test_factors_of_rectangles_have_the_derivatives_of_scipys(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(2)
    a, weights, step = random.normal(size=(3, *shape))
    size = 1e-6

    def weighed(a: Any) -> float:
        lower, upper = scipy.lu(a)[1:]
        count = upper.shape[-2]
        padded = np.zeros_like(a)
        padded[..., :count] += np.tril(lower, -1)
        padded[..., :count, :] += upper
        return float(np.sum(padded * weights))

    expected = np.zeros_like(a)
    for place in np.ndindex(*shape):
        moved = np.zeros_like(a)
        moved[place] = size
        expected[place] = (weighed(a + moved) - weighed(a - moved)) / (2 * size)

    def loss(a: Any) -> Any:
        return rnp.sum(linalg.lu_factor(a)[0] * weights)

    np.testing.assert_allclose(rlx.grad(loss)(a), expected, rtol=1e-6, atol=1e-6)
    _, slope = rlx.jvp(loss, (a,), (step,))
    np.testing.assert_allclose(slope, np.sum(expected * step), rtol=1e-6, atol=1e-6)
    if len(shape) == 2:
        _, slope = rlx.jit(rlx.vmap(lambda a: rlx.jvp(loss, (a,), (step,))))(np.stack([a, a]))
        np.testing.assert_allclose(slope, 2 * [np.sum(expected * step)], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("trans", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_systems_are_solved(batch: tuple[int, ...], dtype: str, trans: int) -> None:
    random = np.random.default_rng(1)
    a, b = (random.normal(size=(*batch, 5, n)) + 1j * random.normal(size=(*batch, 5, n))
            for n in (5, 2))  # fmt: skip
    a, b = (x.astype(dtype) if dtype == "complex128" else x.real for x in (a, b))
    turned = (a, np.swapaxes(a, -1, -2), np.conj(np.swapaxes(a, -1, -2)))[trans]
    factored = linalg.lu_factor(a)
    found = rlx.jit(lambda b: linalg.lu_solve(factored, b, trans))(b)
    np.testing.assert_allclose(found, np.linalg.solve(turned, b), atol=1e-11)
    found = linalg.lu_solve(factored, b[..., 0], trans)
    np.testing.assert_allclose(found, np.linalg.solve(turned, b)[..., 0], atol=1e-11)


def test_the_program_of_a_solution_does_not_grow_with_the_matrix() -> None:
    def solve(a: Any, b: Any) -> Any:
        return linalg.lu_solve(linalg.lu_factor(a), b)

    sizes = [
        len(rlx.make_graph(solve)(np.eye(n), np.ones(n)).nodes) for n in (8, 64, 512)
    ]  # a node or more for each row, once
    assert sizes[0] == sizes[1] == sizes[2]
