"""Sparse Jacobians and Hessians are the dense ones, by a few passes; so are products."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as jnp
from rlx.errors import InputError, RlxError, ShapeError
from rlx.ir import ops
from rlx.ir.op import Trait
from rlx.sparse import SparseMatrix
from rlx.sparse.constant_indices import Repetition, as_indices, find_repetition
from rlx.sparse.pattern import from_entries
from tests.aot.building import Loaded, needs_compiler

Array = Any
N = 12
X = np.linspace(0.2, 1.3, N)
BAND = np.tril(np.triu(np.ones((N, N)), -2), 1)


def pendulum(x: Array, u: Array) -> Array:
    return jnp.stack([x[0] + 0.1 * x[1], x[1] + 0.1 * (jnp.sin(x[0]) + u * x[1])])


def shooting(z: Array) -> Array:
    """Defects of stages `x[k + 1] - f(x[k], u[k])`."""
    states, inputs = z[:-4].reshape(-1, 2), z[-4:]
    return (states[1:] - rlx.vmap(pendulum)(states[:-1], inputs[: len(states) - 1])).ravel()


JACOBIANS: dict[str, tuple[Callable[[Array], Array], int, int]] = {
    "elementwise": (jnp.tanh, 1, 0),
    "shooting": (shooting, 4, 0),
    "band": (lambda x: BAND @ jnp.sin(x), 4, 0),
    "arrow": (lambda x: jnp.concatenate([jnp.sum(x * x)[None], x[1:] * x[0]]), 2, 1),
    "sums": (lambda x: jnp.sum(jnp.exp(x.reshape(2, 6)), 1), 0, 1),
    "dense": (lambda x: x[:3] * jnp.sum(x**3), 0, 3),
    "constant": (lambda x: jnp.zeros(3) + x.shape[0], 0, 0),
    "scan": (lambda x: rlx.scan(lambda c, u: (c + 1, jnp.sin(u) * c), 0.0, x)[1], 1, 0),
}  # fmt: skip


@pytest.mark.parametrize("transform", [lambda f: f, rlx.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", JACOBIANS)
def test_sparse_jacobian_is_the_dense_one(name: str, transform: Callable[..., Any]) -> None:
    function = JACOBIANS[name][0]
    value, jacobian = transform(rlx.value_and_sparse_jacobian(function))(X)
    np.testing.assert_allclose(value, function(X), rtol=1e-14)
    dense = rlx.jacfwd(function)(X)
    np.testing.assert_allclose(jacobian.todense(), dense, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(jacobian.to_scipy().todense(), dense, rtol=1e-13, atol=1e-14)
    alone = transform(rlx.sparse_jacobian(function))(X)
    np.testing.assert_array_equal(alone.data, jacobian.data)


@pytest.mark.parametrize("name", JACOBIANS)
def test_passes_are_as_many_as_colours(name: str) -> None:
    function, forward, reverse = JACOBIANS[name]
    graph = rlx.make_graph(rlx.sparse_jacobian(function))(X)
    gathers = [node for node in graph.nodes if node.op.has(Trait.INDEXED_READ)]
    rows = np.size(function(X))
    passes = gathers[-1].operands[0].shape[0] if forward or reverse else 0
    assert passes == forward * rows + reverse * N


def test_all_passes_share_the_reciprocal_of_a_divisor() -> None:
    def function(x: Array) -> Array:
        return jnp.sin(x) / (1 + x * x)

    graph = rlx.make_graph(rlx.sparse_jacobian(lambda x: function(x) + function(x[::-1])))(X)
    divided = [node.operands[0].shape for node in graph.nodes if node.op is ops.div]
    assert set(divided) == {(), (N,)}  # none is of passes x elements
    one = rlx.make_graph(lambda x: rlx.jvp(function, (x,), (x,))[1])(X)
    assert [node.operands[0].shape for node in one.nodes if node.op is ops.div] == [(N,)] * 3


HESSIANS: dict[str, Callable[[Array], Array]] = {
    "chain": lambda x: jnp.sum(jnp.sin(x[1:]) * x[:-1]),
    "arrow": lambda x: jnp.sum(x**3) * x[0] + jnp.sum(x),
    "partly_linear": lambda x: jnp.sum(x[:4] ** 2 * x[4:8]) + jnp.sum(x[8:]),
    "dense": lambda x: jnp.prod(x),
    "linear": jnp.sum,
}


@pytest.mark.parametrize("transform", [lambda f: f, rlx.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", HESSIANS)
def test_sparse_hessian_is_the_dense_one(name: str, transform: Callable[..., Any]) -> None:
    hessian = transform(rlx.sparse_hessian(HESSIANS[name]))(X)
    dense = rlx.hessian(HESSIANS[name])(X)
    np.testing.assert_allclose(hessian.todense(), dense, rtol=1e-12, atol=1e-13)


def test_arguments_and_results_are_trees() -> None:
    def function(state: dict[str, Array], gain: Array) -> tuple[Array, Array]:
        return state["v"] * gain, state["x"][::-1]

    args = {"v": np.ones(2), "x": np.ones((1, 3))}, np.float64(2)
    value, jacobian = rlx.jit(rlx.value_and_sparse_jacobian(function, argnums=(0, 1)))(*args)
    assert [part.shape for part in value] == [(2,), (1, 3)]
    assert jacobian.shape == (5, 6)
    expected = np.diag([2.0, 2, 1, 1, 1])
    expected = np.concatenate([expected, [[1.0], [1], [0], [0], [0]]], 1)
    np.testing.assert_array_equal(jacobian.todense(), expected)


def _matrix(shape: tuple[int, int] = (5, 7)) -> tuple[SparseMatrix, Array]:
    rng = np.random.default_rng(0)
    dense = np.where(rng.random(shape) < 0.5, rng.standard_normal(shape), 0)
    rows, columns = np.nonzero(dense)
    return SparseMatrix(dense[rows, columns], from_entries(rows, columns, shape)), dense


def _equal_rows() -> tuple[SparseMatrix, Array]:
    dense = np.eye(5, 7) + 2 * np.eye(5, 7, 2)
    rows, columns = np.nonzero(dense)
    return SparseMatrix(dense[rows, columns], from_entries(rows, columns, dense.shape)), dense


@pytest.mark.parametrize("made", [_matrix(), _equal_rows()], ids=["any_rows", "equal_rows"])
def test_products_are_those_of_the_dense_matrix(made: tuple[SparseMatrix, Array]) -> None:
    matrix, dense = made
    x, y = np.random.default_rng(1).standard_normal((7, 3)), np.ones((2, 5))
    products: tuple[Callable[[Any, Any], Any], ...] = (operator.matmul, rlx.jit(operator.matmul))
    for product in products:
        np.testing.assert_allclose(product(matrix, x), dense @ x, rtol=1e-14)
        np.testing.assert_allclose(product(matrix, x[:, 0]), dense @ x[:, 0], rtol=1e-14)
        np.testing.assert_allclose(product(y, matrix), y @ dense, rtol=1e-14)
        np.testing.assert_allclose(product(y[0], matrix), y[0] @ dense, rtol=1e-14)
    np.testing.assert_array_equal(matrix.T.todense(), dense.T)
    np.testing.assert_allclose(matrix.T @ y.T, dense.T @ y.T, rtol=1e-14)


def test_values_are_differentiated_and_batched() -> None:
    def norm(x: Array) -> Array:
        return jnp.sum((rlx.sparse_jacobian(jnp.sin)(x) @ x) ** 2)

    expected = rlx.grad(lambda x: jnp.sum((jnp.cos(x) * x) ** 2))(X)
    np.testing.assert_allclose(rlx.jit(rlx.grad(norm))(X), expected, rtol=1e-12)
    batch = rlx.vmap(rlx.sparse_jacobian(jnp.sin))(np.stack([X, -X, 2 * X]))
    np.testing.assert_allclose(batch.data, np.cos([X, -X, 2 * X]), rtol=1e-14)


def test_a_given_pattern_takes_the_place_of_the_one_found() -> None:
    rows, columns = np.nonzero(BAND)
    wider = from_entries(rows, columns, (N, N))
    jacobian = rlx.sparse_jacobian(jnp.sin, sparsity=wider)(X)
    assert jacobian.nnz == wider.nnz
    np.testing.assert_allclose(jacobian.todense(), np.diag(np.cos(X)), rtol=1e-14)
    hessian = rlx.sparse_hessian(lambda x: jnp.sum(x**3), sparsity=wider)
    with pytest.raises(ShapeError, match=r"shape \(12, 12\); the hessian has \(3, 3\)"):
        hessian(X[:3])


def test_a_product_with_another_shape_names_both() -> None:
    with pytest.raises(ShapeError, match=r"shape \(5, 7\) times an array of shape \(5,\)"):
        _matrix()[0] @ np.ones(5)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 3)])
def test_products_of_no_terms_are_zeros(shape: tuple[int, int]) -> None:
    matrix = SparseMatrix(np.zeros(0), from_entries([], [], shape))
    for columns in ((), (2,), (0,)):
        product = matrix @ np.ones((shape[1], *columns))
        np.testing.assert_array_equal(product, np.zeros((shape[0], *columns)))


@pytest.mark.parametrize("size", [0, 3])
def test_functions_without_elements_have_jacobians_without_entries(size: int) -> None:
    value, found = rlx.value_and_sparse_jacobian(lambda x: 2 * x[:0])(np.ones(size, np.float32))
    assert (value.shape, found.shape, found.data.shape) == ((0,), (0, size), (0,))
    assert found.dtype == np.float32
    assert rlx.sparse_jacobian(lambda _: ())(np.ones(size)).shape == (0, size)


@pytest.mark.parametrize(
    ("sparsity", "error", "message"),
    [
        (from_entries([0], [0], (5, 2)), ShapeError, r"\(5, 2\); the jacobian has \(2, 2\)"),
        (np.eye(2), InputError, "type ndarray, not a Pattern"),
    ],
)
def test_a_pattern_of_another_kind_is_refused(
    sparsity: Any, error: type[RlxError], message: str
) -> None:
    with pytest.raises(error, match=message):
        rlx.sparse_jacobian(lambda x: x, sparsity=sparsity)(np.ones(2))


def test_types_are_those_of_the_result() -> None:
    jacobian = rlx.sparse_jacobian(lambda x: x * np.float32(2))(X.astype(np.float32))
    assert jacobian.dtype == np.float32
    assert repr(jacobian) == f"SparseMatrix({N} x {N}, {N} values of float32)"


def test_generated_c_is_as_long_for_ten_times_as_many_stages(tmp_path: Path) -> None:
    def stages(x: Array) -> Array:
        return (x[:, 2:] * jnp.sin(x[:, :1]) - x[:, 1:2]).ravel()

    program, sizes = rlx.jit(rlx.sparse_jacobian(stages)), []
    for count in (100, 1000):
        x = np.ones((count, 3))
        rlx.aot(program, tmp_path / str(count), name="jac", example_inputs=[x], emit_only=True)
        sizes.append((tmp_path / str(count) / "jac.c").stat().st_size)
    assert sizes[1] < 1.02 * sizes[0]


RANDOM = np.random.default_rng(0).integers(0, 90, 60)
TABLES: dict[str, tuple[Array, Repetition | None]] = {
    "range": (np.arange(100), Repetition(0, 1, 100)),
    "cycle": (np.tile([3, 1, 2], 40), Repetition(0, 3, 40)),
    "growing": (
        np.concatenate([RANDOM[:5], np.arange(300) // 3 * 5 + np.tile([0, 2, 1], 100), RANDOM[:7]]),
        Repetition(5, 3, 100),
    ),
    "random": (RANDOM, None),
    "mostly_random": (np.concatenate([RANDOM, np.arange(60), RANDOM]), None),
    "empty": (np.zeros(0, np.int64), None),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_that_repeat_themselves_are_computed(name: str) -> None:
    table, expected = TABLES[name]
    assert find_repetition(table) == expected
    np.testing.assert_array_equal(rlx.jit(lambda x: x + as_indices(table))(0), table)


@needs_compiler
def test_a_sparse_jacobian_is_written_in_c(tmp_path: Path) -> None:
    program = rlx.jit(rlx.sparse_jacobian(shooting))
    artifact = rlx.aot(program, tmp_path, name="jac", example_inputs=[X])
    declared = "int jac_call(void *, const double *, double *);"
    loaded = Loaded(artifact, declared)
    expected = np.asarray(program(X).data)
    found = np.zeros_like(expected)
    assert loaded.call("init", loaded.arena, artifact.arena_bytes) == 0
    assert loaded.call("setup", loaded.arena) == 0
    pointers = [loaded.pointer(x, "double *") for x in (X, found)]
    assert loaded.call("call", loaded.arena, *pointers) == 0
    np.testing.assert_allclose(found, expected, rtol=1e-12)
