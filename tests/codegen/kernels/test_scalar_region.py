"""Regions of scalars: values of all back ends, and what is left out because it is known."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import rlx
import rlx.numpy as jnp
from bench.embedded.control import FILTER_INPUTS, kalman_filter
from rlx.errors import RlxError
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.passes.fusion import scalar_regions
from tests.aot.building import Loaded, needs_compiler
from tests.properties.typed_graphs import f32_graphs, typed_feeds

BACK_ENDS = ("c", "llvm", "reference")


def filter_in_numpy(x: Any, p: Any, u: Any, z: Any, q: Any, r: Any) -> tuple[Any, Any]:
    """The step of the filter in f64, its derivatives by complex steps."""

    def dynamics(x: Any) -> Any:
        s, c = np.sin(x[2]), np.cos(x[2])
        push = (u[0] + 0.05 * x[3] * x[3] * s) / 1.1
        turn = (9.81 * s - c * push) / (0.5 * (4.0 / 3.0 - 0.1 * c * c / 1.1))
        return x + 0.01 * np.stack([x[1], push - 0.05 * turn * c / 1.1, x[3], turn])

    def measured(x: Any) -> Any:
        return np.stack([x[0], np.sin(x[2])])

    def jacobian(f: Any, x: Any) -> Any:
        return np.stack([f(x + 1e-30j * unit).imag / 1e-30 for unit in np.eye(4)], -1)

    f, x = jacobian(dynamics, x), dynamics(x)
    p = f @ p @ f.T + q
    h = jacobian(measured, x)
    k = np.linalg.solve(h @ p @ h.T + r, h @ p).T
    i = np.eye(4) - k @ h
    return x + k @ (z - measured(x)), i @ p @ i.T + k @ r @ k.T


@pytest.mark.parametrize("precision", [None, "finite"])
@pytest.mark.parametrize("backend", BACK_ENDS)
@pytest.mark.parametrize("angle", [0.2, -2.9, 5e6])
def test_a_filter_has_the_values_of_numpy(
    backend: str, precision: str | None, angle: float
) -> None:
    x = np.array([0.1, 0.3, angle, -0.4], np.float32)
    inputs = (x, *FILTER_INPUTS[1:])
    found = rlx.jit(kalman_filter, backend=backend, precision=precision)(*inputs)
    expected = filter_in_numpy(*(array.astype(np.float64) for array in inputs))
    scale = max(1.0, abs(angle))
    for got, want in zip(found, expected, strict=True):
        # The next angle is rounded to f32, and its sine with it.
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6 * scale)


def source(function: Any, *inputs: Any, **options: Any) -> str:
    """The kernels of a program in C, without the functions of the math library."""
    text = rlx.jit(function, backend="c", **options).c_source(*inputs)
    return text[text.index("-> %") :]


KNOWN_FACTOR = re.compile(r"[(*] ?0\.0f\b|\b0\.0f \*|\b1\.0f \*|\* 1\.0f\b")


def test_a_filter_is_one_function_without_products_by_zero() -> None:
    text = source(kalman_filter, *FILTER_INPUTS, precision="finite")
    assert len(re.findall(r"status = \w+\(", text)) == 1
    assert not KNOWN_FACTOR.search(text)
    assert text.count("sin_f32") == text.count("cos_f32") == 2
    assert text.count("double n") == 2, "sine and cosine share the reduction of their angle"


def gradient(x: Any) -> Any:
    return jnp.stack([x[0], jnp.sin(x[1])])


def potential(x: Any) -> Any:
    """What `gradient` is the gradient of."""
    return 0.5 * x[0] * x[0] - jnp.cos(x[1])


DERIVATIVES = {
    "jacfwd": rlx.jacfwd(gradient),
    "jacrev": rlx.jacrev(gradient),
    "hessian": rlx.hessian(potential),
}


POSITION = np.array([0.5, 0.25], np.float32)
INFINITE = np.array([[np.inf, 1.0], [2.0, 3.0]], np.float32)


@pytest.mark.parametrize("name", ["jacfwd", "jacrev", "hessian"])
@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_entries_of_a_derivative_that_are_zero_are_absent(backend: str, name: str) -> None:
    def turned(x: Any, p: Any) -> Any:
        f = DERIVATIVES[name](x)
        return f @ p @ f.T @ f

    found = rlx.jit(turned, backend=backend)(POSITION, INFINITE)
    c = np.cos(0.25)
    np.testing.assert_allclose(found, [[np.inf, c * c], [2 * c, 3 * c**3]], rtol=1e-6)


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_absent_entries_of_a_result_are_zeros(backend: str) -> None:
    def stepped(x: Any, p: Any) -> Any:
        f = DERIVATIVES["jacfwd"](x)
        return f @ p @ f @ f, f, abs(f), jnp.where(f == 0, f, 1.0)

    p = np.ones((2, 2), np.float32)
    _, *found = rlx.jit(stepped, backend=backend)(POSITION, p)
    for each in found:
        assert each[0, 1] == each[1, 0] == 0


@pytest.mark.parametrize("backend", BACK_ENDS)
def test_a_quotient_of_absent_entries_is_none(backend: str) -> None:
    def stepped(x: Any, p: Any) -> Any:
        f = DERIVATIVES["jacfwd"](x)
        return f / f, f @ p @ f @ f

    found, _ = rlx.jit(stepped, backend=backend)(POSITION, np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(found, [[1.0, np.nan], [np.nan, 1.0]])


def scaled(p: Any) -> Any:
    """The same through a matrix of the program."""
    f = np.array([[1.0, 0.0], [0.0, 0.5]], np.float32)
    return f @ p @ f @ f


@pytest.mark.parametrize("backend", BACK_ENDS)
def test_zeros_of_a_program_multiply_infinities_unless_all_is_finite(backend: str) -> None:
    found = rlx.jit(scaled, backend=backend)(INFINITE)
    assert np.isnan(found).all()
    if backend != "reference":
        finite = rlx.jit(scaled, backend=backend, precision="finite")(INFINITE)
        np.testing.assert_array_equal(finite, [[np.inf, 0.25], [1.0, 0.375]])


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_sums_of_products_with_zero_are_shared_and_keep_what_is_not_finite(backend: str) -> None:
    """Rows of an update have zeros but at what is measured, and but at themselves."""
    n, random = 6, np.random.default_rng(6)
    gain, sparse = random.standard_normal((n, 2)), np.zeros((2, n))
    sparse[0, 1], sparse[1, 4] = 1.0, 2.0

    def updated(gain: Any, p: Any) -> Any:
        left = jnp.eye(n) - gain @ sparse
        return left @ p @ left.T

    def by_numpy(p: Any) -> Any:
        left = np.eye(n) - gain @ sparse
        with np.errstate(invalid="ignore"):
            return np.stack([[_row(_rows(a, p), b) for b in left] for a in left])

    f = rlx.jit(updated, backend=backend)
    for row, column in np.ndindex(n, n):
        for value in (np.inf, -np.inf, np.nan):
            p = random.standard_normal((n, n))
            p[row, column] = value
            np.testing.assert_allclose(f(gain, p), by_numpy(p), rtol=1e-10)


def _rows(row: Any, p: Any) -> Any:
    """Return `row @ p`, each term by itself: BLAS may leave terms out."""
    return np.sum(row[:, None] * p, axis=0)


def _row(a: Any, b: Any) -> Any:
    return np.sum(a * b)


def test_a_derivative_by_what_a_value_does_not_depend_on_is_absent() -> None:
    """The last element is none of `x`; its row of the Jacobian is that of the identity."""

    def moved(x: Any, u: Any) -> Any:
        return x + jnp.stack([x[1] * x[2], jnp.sin(x[0]), u])

    def spread(x: Any, u: Any, p: Any) -> Any:
        f = rlx.jacfwd(moved)(x, u)
        return f @ p @ f.T @ f @ p

    x, p = np.ones(3, np.float32), np.ones((3, 3), np.float32)
    text = source(spread, x, np.float32(1), p)
    assert "scalar_region" in text
    assert not KNOWN_FACTOR.search(text)


@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("fold", ["sum", "max", "min", "prod", "mean"])
def test_products_of_elements_are_folded_as_the_fold_says(backend: str, fold: str) -> None:
    def folded(a: Any, b: Any) -> Any:
        return getattr(jnp, fold)((a @ b) * b, axis=1) @ a @ b

    a, b = np.random.default_rng(3).standard_normal((2, 3, 3))
    f = rlx.jit(folded, backend=backend)
    assert "scalar_region" in f.c_source(a, b)
    expected = getattr(np, fold)((a @ b) * b, axis=1) @ a @ b
    np.testing.assert_allclose(f(a, b), expected, rtol=1e-12)


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_absent_entries_are_stored_as_zeros(backend: str) -> None:
    matrix = np.random.default_rng(4).standard_normal((2, 2))
    slope = rlx.grad(lambda x: jnp.sum((x[:2] @ matrix @ matrix) * (matrix @ x[:2])))
    f, x = rlx.jit(slope, backend=backend), np.arange(1.0, 5.0)
    assert "scalar_region" in f.c_source(x)
    square = matrix @ matrix
    expected = square @ (matrix @ x[:2]) + matrix.T @ (square.T @ x[:2])
    np.testing.assert_allclose(f(x), [*expected, 0, 0], rtol=1e-12)


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_a_singular_system_names_its_line(backend: str) -> None:
    def stepped(a: Any, b: Any) -> Any:
        s = a @ a.T @ a
        return jnp.linalg.solve(s, b) @ b

    zeros = np.zeros((2, 2), np.float32)
    with pytest.raises(RlxError, match="singular") as raised:
        rlx.jit(stepped, backend=backend)(zeros, zeros)
    assert raised.value.source is not None
    assert raised.value.source.file == __file__


@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("size", range(1, 7))
def test_systems_are_solved_with_pivots(backend: str, size: int) -> None:
    rng = np.random.default_rng(size)
    a = rng.standard_normal((size, size))
    a[0, 0] = 0 if size > 1 else a[0, 0]
    b = rng.standard_normal((size, 2))

    def stepped(a: Any, b: Any) -> Any:
        return jnp.linalg.solve(a, b).T @ (a @ b) @ (b.T @ b), jnp.linalg.solve(a.T, b[:, 0])

    first, second = rlx.jit(stepped, backend=backend)(a, b)
    solved = np.linalg.solve(a, b)
    np.testing.assert_allclose(first, solved.T @ (a @ b) @ (b.T @ b), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(second, np.linalg.solve(a.T, b[:, 0]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_a_long_chain_of_values_is_one_region(backend: str) -> None:
    def stepped(a: Any) -> Any:
        first = a @ a @ a @ a
        last = first[0, 0]
        for _ in range(700):
            last = last * 0.25 + 1.0
        return last, first

    found, _ = rlx.jit(stepped, backend=backend)(np.eye(2, dtype=np.float32))
    np.testing.assert_allclose(found, 4 / 3, rtol=1e-6)


def test_names_are_those_of_the_program() -> None:
    def stepped(p: Any, q: Any) -> Any:
        spread = p @ q @ p.T
        gain = jnp.linalg.solve(spread, q)
        return gain @ spread @ gain

    text = source(stepped, np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32))
    assert {"spread00", "spread01", "gain00", "gain11"} <= set(re.findall(r"float (\w+) =", text))
    assert f"// stepped, {__file__.rpartition('/')[2]}:" in text


@needs_compiler
@pytest.mark.parametrize("precision", [None, "finite"])
def test_for_size_matrices_are_arrays_that_loops_store(
    tmp_path: Path, precision: str | None
) -> None:
    """They have the bits of the variables that code for speed has."""
    found = []
    for optimize in ("speed", "size"):
        artifact = rlx.aot(
            rlx.jit(kalman_filter, precision=precision), tmp_path / optimize, name="filter",
            example_inputs=FILTER_INPUTS, optimize=optimize, vectors="none",
            output_names=("mean", "covariance"),
        )  # fmt: skip
        assert (LOOP in artifact.source.read_text()) == (optimize == "size")
        loaded = Loaded(artifact, "int filter_run(void *);")
        assert loaded.call("init", loaded.arena, artifact.arena_bytes) == 0
        assert loaded.call("setup", loaded.arena) == 0
        for name, array in zip("xpuzqr", FILTER_INPUTS, strict=True):
            loaded.view("inputs", name)[:] = np.ravel(np.asarray(array))
        assert loaded.call("run", loaded.arena) == 0
        found.append([loaded.view("outputs", name).copy() for name in ("mean", "covariance")])
    for plain, looped in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, looped)


LOOP = "for (int64_t i = 0; i < 4; ++i)"


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(f32_graphs(donations=False))
def test_regions_have_the_values_of_their_nodes(graph: Graph) -> None:
    fewest = scalar_regions.FEWEST_KERNELS
    scalar_regions.FEWEST_KERNELS = 0  # any small nodes are a region
    try:
        feeds = typed_feeds(graph)
        params = {str(v.node.name): feeds[str(v.node.name)] for v in graph.params}
        run = rlx.compile(graph, backend="llvm", params=params)
        inputs = {name: array for name, array in feeds.items() if name not in params}
        for found, expected in zip(run.run(inputs), evaluate(graph, feeds), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5)
    finally:
        scalar_regions.FEWEST_KERNELS = fewest
