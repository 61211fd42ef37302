"""Derivatives of linear systems against known values and JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.ir import ops
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.passes.autodiff import grad_with_loss, jvp
from rlx.passes.vmap import vmap

Array = NDArray[Any]

A = np.array([[2.0, 1, 0], [1, 3, 1], [0, 1, 2]])
B = np.array([1.0, 2, 3])
COLUMNS = np.array([[1.0, 4], [2, -1], [3, 2]])
X = np.array([0.5, 0, 1.5])
SOLUTIONS = np.array([[0.5, 3], [0, -2], [1.5, 2]])


def solve_graph(a: Array, b: Array, *, vector: bool) -> Graph:
    graph = Graph("system")
    left, right = (graph.input(n, x.shape, as_dtype(x.dtype)) for n, x in (("a", a), ("b", b)))
    graph.set_outputs([graph.solve(left, right, vector=vector)])
    return graph


def gradients(a: Array, b: Array, *, vector: bool) -> list[Array]:
    """Return the gradients of the sum of the solution."""
    graph = grad_with_loss(solve_graph(a, b, vector=vector), ["a", "b"])
    return evaluate(graph, {"a": a, "b": b, "d_output": np.ones_like(b)})[1:]


def tangent(a: Array, b: Array, /, *, vector: bool, **moved: Array) -> Array:
    graph = jvp(solve_graph(a, b, vector=vector), list(moved))
    feeds = {"a": a, "b": b, **{f"tangent_{name}": t for name, t in moved.items()}}
    return evaluate(graph, feeds)[1]


def close(actual: Array, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-10)


def test_solutions_have_known_values() -> None:
    close(evaluate(solve_graph(A, B, vector=True), {"a": A, "b": B})[0], X)
    close(evaluate(solve_graph(A, COLUMNS, vector=False), {"a": A, "b": COLUMNS})[0], SOLUTIONS)
    laplacian = 2 * np.eye(5) - np.eye(5, k=1) - np.eye(5, k=-1)
    given = np.arange(1.0, 6)
    (x,) = evaluate(solve_graph(laplacian, given, vector=True), {"a": laplacian, "b": given})
    close(x, [35 / 6, 32 / 3, 27 / 2, 40 / 3, 55 / 6])


def test_gradient_of_a_vector_system() -> None:
    da, db = gradients(A, B, vector=True)
    close(db, [0.5, 0, 0.5])
    close(da, [[-0.25, 0, -0.75], [0, 0, 0], [-0.25, 0, -0.75]])


def test_gradient_of_a_system_with_several_columns() -> None:
    da, db = gradients(A, COLUMNS, vector=False)
    close(db, [[0.5, 0.5], [0, 0], [0.5, 0.5]])
    close(da, [[-1.75, 1, -1.75], [0, 0, 0], [-1.75, 1, -1.75]])


def test_tangents_have_known_values() -> None:
    moved = np.array([0.5, -0.25, 1])
    close(tangent(A, B, vector=True, b=moved), [0.5, -0.5, 0.75])
    several = np.array([[0.5, 0], [-0.25, 1], [1, -0.5]])
    expected = [[0.5, -0.3125], [-0.5, 0.625], [0.75, -0.5625]]
    close(tangent(A, COLUMNS, vector=False, b=several), expected)
    matrix = np.array([[0.10, -0.05, 0.02], [0.03, 0.20, -0.04], [-0.01, 0.07, 0.15]])
    close(tangent(A, B, vector=True, a=matrix), [-0.08875, 0.0975, -0.15875])


def batched_systems() -> tuple[Array, Array]:
    rng = np.random.default_rng(0x57E1)
    return 0.1 * rng.random((4, 3, 3)) + 4 * np.eye(3), rng.random((4, 3))


def test_gradient_of_a_batch_is_that_of_each_slice() -> None:
    a, b = batched_systems()
    da, db = gradients(a, b, vector=True)
    for i in range(4):
        expected = np.linalg.solve(a[i].T, np.ones(3))
        close(db[i], expected)
        close(da[i], -np.outer(expected, np.linalg.solve(a[i], b[i])))


def test_vmap_of_a_system_is_a_batch_of_systems() -> None:
    a, b = batched_systems()
    batched = vmap(solve_graph(a[0], b[0], vector=True), {"a": 0, "b": 0}, size=4)
    (x,) = evaluate(batched, {"a": a, "b": b})
    for i in range(4):
        np.testing.assert_allclose(x[i], np.linalg.solve(a[i], b[i]), rtol=0, atol=1e-12)


def test_vmap_over_right_hand_sides_factors_a_shared_matrix_once() -> None:
    batched = vmap(solve_graph(A, B, vector=True), {"b": 0}, size=7)
    (solve,) = (node for node in batched.nodes if node.op is ops.solve)
    assert [operand.shape for operand in solve.operands] == [(3, 3), (3, 7)]


def test_small_vector_systems_have_their_gradient_in_one_kernel() -> None:
    graph = grad_with_loss(solve_graph(A, B, vector=True), ["a", "b"])
    assert [node.op.name for node in graph.nodes if node.op.family == "linalg"] == [
        "solve",
        "solve_backward",
    ]


@pytest.mark.parametrize("name", ["solve", "inv", "det", "slogdet", "cholesky"])
def test_gradients_are_jaxs(name: str) -> None:
    jax = pytest.importorskip("jax")
    import rlx
    from rlx.numpy import linalg

    a = batched_systems()[0]
    a = a + a.transpose(0, 2, 1)
    weights = np.random.default_rng(5).standard_normal((4, 3, 3))

    def loss(own: Any) -> Any:
        def of_matrix(m: Any) -> Any:
            result = own.solve(m, weights) if name == "solve" else getattr(own, name)(m)
            result = result[1] if name == "slogdet" else result
            return (result * result * (weights if result.ndim == 3 else 1.0)).sum()

        return of_matrix

    with jax.enable_x64(True):
        expected = np.asarray(jax.grad(loss(jax.numpy.linalg))(a))
    np.testing.assert_allclose(rlx.grad(loss(linalg))(a), expected, rtol=1e-9, atol=1e-9)
