"""Native linear systems against NumPy: every size and batch, and what is singular."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.codegen.llvm.jit import LlvmBackend
from rlx.errors import SingularMatrixError
from rlx.ir import ops
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph
from rlx.runtime.compile import compile
from rlx.target import detect_target
from tests.codegen.kernels.native import case_of, module_of, run_case

Array = NDArray[Any]

SIZES = (1, 2, 3, 5, 6, 7, 13, 16, 17, 40)
MORE_SIZES = tuple(sorted({*range(1, 21), 40} - set(SIZES)))
BATCHES = (0, 1, 3, 17)
TOLERANCE = {"f32": 2e-4, "f64": 1e-11}
# Each is laid out otherwise: spelled out, in loops, one slice at a time, in the arena.
LAYOUTS = {"spelled out": (11, 3), "loops": (11, 9), "few slices": (2, 12), "arena": (3, 70)}


def system(batch: int, size: int, columns: int, dtype: str) -> tuple[Array, Array]:
    rng = np.random.default_rng([batch, size])
    a = rng.uniform(-1, 1, (batch, size, size)) + 2 * np.sqrt(size) * np.eye(size)[::-1]
    b = rng.standard_normal((batch, size, columns))
    return a.astype(as_dtype(dtype).numpy), b.astype(as_dtype(dtype).numpy)


def graph_of(op: Any, *arrays: Array, **attributes: Any) -> Graph:
    graph = Graph("system")
    given = [graph.input(f"x{i}", x.shape, as_dtype(x.dtype)) for i, x in enumerate(arrays)]
    result = op(*given, **attributes)
    graph.set_outputs(result if isinstance(result, tuple) else [result])
    return graph


def run(op: Any, *arrays: Array, **attributes: Any) -> list[Array]:
    compiled = compile(graph_of(op, *arrays, **attributes), backend="llvm")
    return list(compiled(**{f"x{i}": x for i, x in enumerate(arrays)}))


def check_sizes(sizes: tuple[int, ...], dtype: str) -> None:
    systems = [system(batch, size, 2, dtype) for size in sizes for batch in BATCHES]
    cases = [case_of(graph_of(ops.solve, a, b), f"n{i}") for i, (a, b) in enumerate(systems)]
    native = LlvmBackend().load(module_of(cases), detect_target())
    for case, (a, b) in zip(cases, systems, strict=True):
        status, (x,) = run_case(case, native.address(case.entry.name), [a, b])
        assert status == 0
        expected = np.linalg.solve(a.astype(np.float64), b.astype(np.float64))
        np.testing.assert_allclose(x, expected, rtol=0, atol=TOLERANCE[dtype], err_msg=str(a.shape))


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_solutions_are_numpys_over_sizes_and_batches(dtype: str) -> None:
    check_sizes(SIZES, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_solutions_are_numpys_over_all_other_sizes(dtype: str) -> None:
    check_sizes(MORE_SIZES, dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_singular_matrix_is_an_error_that_names_the_slice(layout: str) -> None:
    batch, size = LAYOUTS[layout]
    a, b = system(batch, size, 1, "f64")
    a[batch - 1, 1] = a[batch - 1, 0]
    with pytest.raises(SingularMatrixError, match=f"solve.* at position {batch - 1}"):
        run(ops.solve, a, b)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_singular_matrix_is_nan_on_request_in_its_slice_only(layout: str) -> None:
    batch, size = LAYOUTS[layout]
    a, b = system(batch, size, 1, "f64")
    a[1, 1] = a[1, 0]
    (x,) = run(ops.solve, a, b, on_singular="nan")
    others = [i for i in range(batch) if i != 1]
    assert np.isnan(x[1]).all()
    np.testing.assert_allclose(x[others], np.linalg.solve(a[others], b[others]), atol=1e-11)


@pytest.mark.parametrize("matrix", [[[1, 2], [2, 4]], [[3, 6], [1, 2]], [[0, 0], [0, 1]]])
@pytest.mark.parametrize("batch", [1, 9])
def test_small_integer_matrices_of_deficient_rank_are_singular(
    matrix: list[list[int]], batch: int
) -> None:
    a = np.tile(np.array(matrix, np.float64), (batch, 1, 1))
    with pytest.raises(SingularMatrixError, match="position 0"):
        run(ops.solve, a, np.ones((batch, 2, 1)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nan_in_a_matrix_reaches_the_solution_and_is_not_singular(layout: str) -> None:
    batch, size = LAYOUTS[layout]
    a, b = system(batch, size, 1, "f64")
    a[0, :, 0] = 0.0
    a[0, size - 1, 0] = np.nan
    (x,) = run(ops.solve, a, b)
    assert np.isnan(x[0]).any()
    np.testing.assert_allclose(x[1:], np.linalg.solve(a[1:], b[1:]), atol=1e-11)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_indefinite_matrix_has_no_cholesky_factor(layout: str) -> None:
    batch, size = LAYOUTS[layout]
    a, _ = system(batch, size, 1, "f64")
    definite = a @ a.transpose(0, 2, 1)
    definite[1, size - 1, size - 1] = -1.0
    (factor,) = run(ops.cholesky, definite, on_singular="nan")
    assert np.isnan(factor[1]).all()
    np.testing.assert_allclose(factor[0], np.linalg.cholesky(definite[0]), atol=1e-10)
    with pytest.raises(SingularMatrixError, match="position 1"):
        run(ops.cholesky, definite)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_lu_is_scipys_and_factors_singular_matrices(layout: str) -> None:
    linalg = pytest.importorskip("scipy.linalg")
    batch, size = LAYOUTS[layout]
    a, _ = system(batch, size, 1, "f64")
    a[1] = 0.0
    factors, pivots, permutation = run(ops.lu, a)
    expected, exchanged = linalg.lu_factor(a[0])
    np.testing.assert_allclose(factors[0], expected, atol=1e-11)
    np.testing.assert_array_equal(pivots[0], exchanged)
    lower = np.tril(factors, -1) + np.eye(size)
    moved = np.take_along_axis(a, permutation[..., None].astype(np.int64), axis=1)
    np.testing.assert_allclose(lower @ np.triu(factors), moved, atol=1e-11)


def test_determinant_of_a_singular_matrix_is_zero() -> None:
    a = np.stack([np.ones((3, 3)), np.eye(3) * 2])
    (determinant,) = run(ops.det, a)
    signs, logarithms = run(ops.slogdet, a)
    np.testing.assert_array_equal(determinant, [0, 8])
    np.testing.assert_array_equal(signs, [0, 1])
    np.testing.assert_allclose(logarithms, [-np.inf, np.log(8)])


def test_a_triangle_ignores_the_rest_of_the_matrix() -> None:
    a, b = system(5, 4, 2, "f64")
    a[:, np.arange(4), np.arange(4)] = 2.0
    spoiled = np.where(np.tril(np.ones((4, 4), bool)), a, np.nan)
    (x,) = run(ops.triangular_solve, spoiled, b, lower=True)
    np.testing.assert_allclose(np.tril(a) @ x, b, atol=1e-12)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("size", [8, 12, 20, 24, 32, 64])
def test_each_triangle_of_a_batch_has_its_own_solution(size: int, dtype: str) -> None:
    """Whether its lanes, its right sides alone, or neither fit on the stack."""
    a, b = system(5, size, 8, dtype)
    a[:] = np.tril(a) / size + np.eye(size)
    options = {"unit_diagonal": False, "transposed": False, "left": True, "on_singular": "nan"}
    (x,) = run(ops.triangular_solve, a, b, lower=True, **options)
    expected = np.linalg.solve(a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_allclose(x, expected, rtol=0, atol=TOLERANCE[dtype])


def test_solutions_have_the_same_bits_for_any_number_of_threads() -> None:
    a, b = system(300, 12, 1, "f64")
    graph = graph_of(ops.solve, a, b)
    alone, together = (compile(graph, backend="llvm", threads=n)(x0=a, x1=b) for n in (1, 2))
    np.testing.assert_array_equal(alone[0], together[0])
