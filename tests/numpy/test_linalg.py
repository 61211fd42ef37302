"""`rlx.numpy.linalg`'s linear systems against NumPy's, and the order in which einsum contracts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError, SingularMatrixError
from rlx.ir.dtype import DType
from rlx.ir.types import TensorType
from rlx.numpy import linalg

RNG = np.random.default_rng(7)
A = RNG.standard_normal((5, 3, 3)) + 3 * np.eye(3)
DEFINITE = A @ A.transpose(0, 2, 1) + np.eye(3)
COLUMNS = RNG.standard_normal((5, 3, 2))
VECTOR = RNG.standard_normal(3)

SAME: dict[str, Callable[[Any], Any]] = {
    "solve one vector for a batch": lambda own: own.solve(A, VECTOR),
    "solve with a shared matrix": lambda own: own.solve(A[0], COLUMNS),
}


@pytest.mark.parametrize("name", SAME)
def test_function_is_numpys(name: str) -> None:
    np.testing.assert_allclose(SAME[name](linalg), SAME[name](np.linalg), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("trans", [0, 1, "T"])
@pytest.mark.parametrize("unit_diagonal", [False, True])
def test_solve_triangular_is_scipys(lower: bool, trans: Any, unit_diagonal: bool) -> None:
    scipy = pytest.importorskip("scipy.linalg")
    how = {"lower": lower, "trans": trans, "unit_diagonal": unit_diagonal}
    expected = scipy.solve_triangular(A[0], VECTOR, **how)
    np.testing.assert_allclose(linalg.solve_triangular(A[0], VECTOR, **how), expected)


def test_lu_factor_is_scipys() -> None:
    scipy = pytest.importorskip("scipy.linalg")
    for own, other in zip(linalg.lu_factor(A[0]), scipy.lu_factor(A[0]), strict=True):
        np.testing.assert_allclose(own, other)


def test_cholesky_takes_the_mean_of_both_triangles() -> None:
    skewed = DEFINITE + np.triu(np.ones((3, 3)), 1) - np.tril(np.ones((3, 3)), -1)
    np.testing.assert_allclose(linalg.cholesky(skewed), np.linalg.cholesky(DEFINITE))
    lower_only = np.tril(DEFINITE)
    factor = linalg.cholesky(lower_only, symmetrize_input=False)
    np.testing.assert_allclose(factor, np.linalg.cholesky(DEFINITE))
    np.testing.assert_allclose(
        linalg.cholesky(DEFINITE, upper=True), np.linalg.cholesky(DEFINITE).transpose(0, 2, 1)
    )


def test_solve_is_compiled_differentiated_and_batched() -> None:
    def loss(a: Any, b: Any) -> Any:
        return linalg.solve(a, b).sum()

    da = rlx.jit(rlx.vmap(rlx.grad(loss), in_axes=(0, None)))(A, VECTOR)
    for i in range(5):
        x, db = np.linalg.solve(A[i], VECTOR), np.linalg.solve(A[i].T, np.ones(3))
        np.testing.assert_allclose(da[i], -np.outer(db, x), rtol=1e-10)


def test_a_singular_matrix_is_an_error_or_nan() -> None:
    singular = np.stack([np.eye(2), np.ones((2, 2))])
    with pytest.raises(SingularMatrixError, match="position 1"):
        rlx.jit(linalg.inv)(singular)
    with pytest.raises(SingularMatrixError, match="position 1"):
        linalg.inv(singular)
    found = linalg.inv(singular, on_singular="nan")
    np.testing.assert_array_equal(found[0], np.eye(2))
    assert np.isnan(found[1]).all()


def test_a_vector_is_no_matrix() -> None:
    with pytest.raises(ShapeError, match="a has shape"):
        linalg.solve(VECTOR, VECTOR)


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_one_singular_matrix_spoils_no_other_under_grad_and_vmap(backend: str) -> None:
    stack = np.stack([np.eye(2), np.zeros((2, 2)), 2 * np.eye(2)]).astype(np.float32)
    sides = np.ones((3, 2), np.float32)

    def loss(a: Any, b: Any) -> Any:
        return rnp.sum(linalg.solve(a, b, on_singular="nan"))

    whole = rlx.jit(rlx.grad(lambda a, b: rnp.sum(rlx.vmap(loss)(a, b))), backend=backend)
    each = rlx.jit(rlx.vmap(rlx.grad(loss)), backend=backend)
    for found in (whole(stack, sides), each(stack, sides)):
        np.testing.assert_allclose(found[0], -np.ones((2, 2)))
        np.testing.assert_allclose(found[2], -np.ones((2, 2)) / 4)
        assert np.isnan(found[1]).all()


RANDOM = np.random.default_rng(0)
CASES: dict[str, tuple[tuple[int, ...], ...]] = {
    "bi,bj,ij->b": ((7, 5), (7, 6), (5, 6)),
    "ij,jk,kl->il": ((4, 9), (9, 2), (2, 8)),
    "ij,jk,kl,lm,mn->in": ((2, 3), (3, 4), (4, 5), (5, 6), (6, 7)),
    "ab,bc,cd,de,ef,fg,gh,h->a": ((2, 3), (3, 2), (2, 3), (3, 2), (2, 3), (3, 2), (2, 3), (3,)),
    "ii,ij,j->": ((4, 4), (4, 5), (5,)),
    "...i,...j,ij->...": ((3, 2, 4), (2, 5), (4, 5)),
    "ab,b,ab->ab": ((3, 1), (4,), (3, 4)),
}
ORDERS: tuple[Any, ...] = (True, False, "optimal", "greedy")


def arrays(subscripts: str) -> list[np.ndarray[Any, Any]]:
    return [RANDOM.standard_normal(shape) for shape in CASES[subscripts]]


@pytest.mark.parametrize("optimize", ORDERS)
@pytest.mark.parametrize("subscripts", CASES)
def test_every_order_gives_numpys_values(subscripts: str, optimize: Any) -> None:
    given = arrays(subscripts)
    found = rnp.einsum(subscripts, *given, optimize=optimize)
    np.testing.assert_allclose(found, np.einsum(subscripts, *given), rtol=1e-12, atol=1e-12)


def test_a_path_of_numpy_is_followed() -> None:
    given = arrays("ij,jk,kl->il")
    path, _ = np.einsum_path("ij,jk,kl->il", *given, optimize="optimal")
    found = rnp.einsum("ij,jk,kl->il", *given, optimize=path)
    np.testing.assert_allclose(found, np.einsum("ij,jk,kl->il", *given), rtol=1e-12)


@pytest.mark.parametrize(
    "optimize", ["fastest", [(0, 1)], [(0, 3), (0, 1)], [(0, 0), (0, 1)]], ids=str
)
def test_a_path_that_does_not_fit_is_refused(optimize: Any) -> None:
    with pytest.raises(InputError, match="einsum"):
        rnp.einsum("ij,jk,kl->il", *arrays("ij,jk,kl->il"), optimize=optimize)


def arena(subscripts: str, *shapes: tuple[Any, ...]) -> int:
    types = [TensorType(DType.F32, shape) for shape in shapes]
    graph = rlx.jit(lambda *x: rnp.einsum(subscripts, *x)).graph(*types)
    return rlx.compile(graph).plan.arena_bytes


def test_no_operand_is_multiplied_out() -> None:
    assert arena("bi,bj,ij->b", (1024, 256), (1024, 256), (256, 256)) < 4 * 2**20


def test_symbolic_extents_count_by_their_bounds() -> None:
    n = rlx.Dim("n", max=1024)
    assert arena("bi,bj,ij->b", (n, 256), (n, 256), (256, 256)) < 4 * 2**20
