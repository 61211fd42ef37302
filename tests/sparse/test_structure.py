"""Patterns of Jacobians and Hessians: exact where the graph decides, and never without an entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as jnp
from rlx.errors import SymbolicExtentError, UnsupportedError
from rlx.ir.dtype import DType
from rlx.ir.reference import evaluate
from rlx.ir.types import TensorType
from rlx.passes.autodiff import NonDifferentiableError
from rlx.passes.autodiff.registry import facts
from rlx.sparse import Pattern
from rlx.sparse.pattern import from_entries
from rlx.tracing.traced_function import splice
from tests.fuzz.generate import program
from tests.fuzz.program import of_rlx
from tests.records import OpRecord, records

Array = Any
COLUMNS = 6
N = 6
DENSE = np.ones((N, N), int)
LOWER = np.tril(DENSE)
EYE = np.eye(N, dtype=int)
MATRIX = np.diag(np.arange(N)) + np.eye(N, k=2)
ORDER = np.array([3, 0, 0, 5])
ROWS_OF_TWO = np.kron(np.eye(3, dtype=int), np.ones((2, 2), int))


def _shift(k: int) -> Array:
    return np.eye(N, k=k, dtype=int)


def _wave(x: Array) -> Array:
    """Three steps of a stencil that grows by one neighbour at a time."""
    return rlx.fori_loop(0, 3, lambda _, y: y.at[1:].add(jnp.sin(y[:-1])), x)


def _until(x: Array) -> Array:
    return rlx.while_loop(lambda y: jnp.sum(y) < 9, lambda y: y.at[1:].add(y[:-1]), x)


def _states(x: Array) -> Array:
    return rlx.scan(lambda c, u: (jnp.sin(c) + u, c + u), 0.0, x)[1]


def _backwards(x: Array) -> Array:
    return rlx.scan(lambda c, u: (jnp.sin(c) + u, c + u), 0.0, x, reverse=True)[1]


def _rows_alone(x: Array) -> Array:
    return rlx.scan(lambda c, u: (c + 1, jnp.sin(u)), 0, x)[1]


@rlx.custom_jvp
def _rounded(x: Array) -> Array:
    return jnp.round(x)


_rounded.defjvp(lambda primals, tangents: (_rounded(*primals), tangents[0]))


def _scattered() -> Array:
    """Element `ORDER[k]` is added to the row of its number."""
    found = np.zeros((N, N), int)
    found[ORDER, ORDER] = 1
    return found


EXACT: dict[str, tuple[Callable[[Array], Array], Array]] = {
    "elementwise": (jnp.sin, EYE),
    "broadcast": (lambda x: x * jnp.sum(x), DENSE),
    "difference": (lambda x: x[1:] - x[:-1], (EYE + _shift(1))[:-1]),
    "reversed": (lambda x: x[::-1] ** 2, EYE[::-1]),
    "padded": (lambda x: jnp.pad(x, (1, 0))[:-1] * x, EYE + _shift(-1)),
    "concatenated": (lambda x: jnp.concatenate([x[4:], x[:4]]), np.roll(EYE, -4, axis=0)),
    "transposed": (lambda x: x.reshape(2, 3).T.ravel(), EYE[[0, 3, 1, 4, 2, 5]]),
    "sums_of_rows": (lambda x: x.reshape(3, 2).sum(1), ROWS_OF_TWO[::2]),
    "softmax_of_rows": (lambda x: rlx.nn.softmax(x.reshape(3, 2), 1), ROWS_OF_TWO),
    "constant_matrix": (lambda x: MATRIX @ x, (MATRIX != 0).astype(int)),
    "constant_mask": (lambda x: x * (np.arange(N) > 2), EYE * (np.arange(N) > 2)),
    "constant_choice": (
        lambda x: jnp.where(np.arange(N) > 2, x, x[::-1]),
        np.where((np.arange(N) > 2)[:, None], EYE, EYE[::-1]),
    ),
    "choice": (lambda x: jnp.where(x > 2, x, x[::-1]), EYE | EYE[::-1]),
    "constant_gather": (lambda x: x[ORDER], EYE[ORDER]),
    "constant_scatter": (lambda x: jnp.zeros(N).at[ORDER].add(x[ORDER]), _scattered()),
    "updated": (lambda x: x.at[2].set(x[0]), EYE[[0, 1, 0, 3, 4, 5]]),
    "gather": (lambda x: x[jnp.argsort(x)[:2]], DENSE[:2]),
    "slice": (lambda x: rlx.lax.dynamic_slice(x, (jnp.argmax(x),), (2,)), DENSE[:2]),
    "running_sum": (jnp.cumsum, LOWER),
    "running_maximum": (lambda x: rlx.lax.cummax(x, reverse=True), LOWER.T),
    "convolved": (lambda x: jnp.convolve(x, np.array([1.0, 0, 2]), "same"), _shift(1) + _shift(-1)),
    "batched_solve": (
        lambda x: jnp.linalg.solve(jnp.eye(2) * 3 + x.reshape(3, 2, 1), np.ones((3, 2, 1))),
        ROWS_OF_TWO,
    ),
    "sum_of_nothing": (lambda x: jnp.sum(x[1], axis=()).reshape(1), EYE[1:2]),
    "stopped": (lambda x: x * rlx.stop_gradient(x[::-1]), EYE),
    "rounded": (lambda x: jnp.round(x) + x[0], EYE[[0] * N]),
    "stated_derivative": (_rounded, EYE),
    "branch": (lambda x: rlx.cond(x[0] > 0, lambda y: y, lambda y: y[::-1], x), EYE | EYE[::-1]),
    "scan": (_states, LOWER),
    "scan_from_the_end": (_backwards, LOWER.T),
    "scan_without_a_carry": (_rows_alone, EYE),
    "steps": (_wave, EYE + _shift(-1) + _shift(-2) + _shift(-3)),
    "while": (_until, LOWER),
    "vmapped": (
        lambda x: rlx.vmap(lambda r: r * r[0])(x.reshape(3, 2)),
        EYE | np.kron(np.eye(3, dtype=int), [[1, 0], [1, 0]]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_pattern_is_the_one_that_the_program_says(name: str) -> None:
    function, expected = EXACT[name]
    x = np.linspace(0.3, 0.9, N)
    pattern = rlx.jacobian_sparsity(function)(x)
    np.testing.assert_array_equal(pattern.todense(), expected != 0)
    assert rlx.jit(rlx.jacfwd(function))(x).size == pattern.shape[0] * N


def _of_floats(record: OpRecord) -> tuple[Callable[[Any], Any], list[Array]] | None:
    """Return a record's op as a function of its float operands, and them; None without any."""
    graph, feeds = record.graph(DType.F64), record.inputs(DType.F64)
    names = [name for name, array in feeds.items() if array.dtype == np.float64]
    chosen = [at for at, output in enumerate(graph.outputs) if output.dtype is DType.F64]

    def function(floats: Any) -> Any:
        given = feeds | dict(zip(names, floats, strict=True))
        operands = [given[str(value.node.name)] for value in graph.inputs]
        results = splice(graph, operands, [False] * len(graph.outputs))
        return [results[at] for at in chosen]

    return (function, [feeds[name] for name in names]) if names and chosen else None


RECORDS = [r for r in records() if DType.F64 in r.dtypes and facts.reason(r.op) is None]


@pytest.mark.whole
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.id)
def test_no_entry_of_the_derivative_is_missing(record: OpRecord) -> None:
    """Columns of the derivative, and finite differences where the op is smooth, are within it."""
    found = _of_floats(record)
    if found is None:
        return
    _require_entries(*found, smooth=record.smooth)


def _require_entries(function: Callable[[Any], Any], floats: list[Array], *, smooth: bool) -> None:
    missing = ~rlx.jacobian_sparsity(function)(floats).todense()
    tangents = rlx.make_graph(lambda x, dx: rlx.jvp(function, (x,), (dx,)))(floats, floats)
    sizes = [array.size for array in floats]
    for column in np.random.default_rng(0).permutation(sum(sizes))[:COLUMNS]:
        unit = np.split(np.arange(sum(sizes)) == column, np.cumsum(sizes)[:-1])
        moved = [u.reshape(x.shape).astype(x.dtype) for u, x in zip(unit, floats, strict=True)]
        value, slope = _halves(tangents, [*floats, *moved])
        assert not (missing[:, column] & np.isfinite(slope) & (slope != 0)).any()
        if smooth:
            further = [x + 1e-3 * u for x, u in zip(floats, moved, strict=True)]
            changed = _halves(tangents, [*further, *moved])[0] != value
            assert not (missing[:, column] & changed).any()


@pytest.mark.parametrize("seed", range(40))
def test_no_entry_of_a_random_program_is_missing(seed: int) -> None:
    drawn = replace(program(seed), transformation="none", symbolic=False)
    arrays = drawn.arrays()
    moving = [at for at, x in enumerate(arrays) if x.dtype in (np.float32, np.float64)]

    def function(floats: Any) -> Any:
        given = [jnp.asarray(x) for x in arrays]
        for at, x in zip(moving, floats, strict=True):
            given[at] = x
        results = rlx.tree_leaves(drawn.function(of_rlx())(*given))
        return [y for y in results if y.dtype in (np.float32, np.float64)]

    if moving and rlx.tree_leaves(rlx.eval_shape(function, [arrays[at] for at in moving])):
        _require_entries(function, [np.asarray(arrays[at]) for at in moving], smooth=False)


def _halves(graph: rlx.Graph, arrays: list[Array]) -> tuple[Array, Array]:
    feeds = {str(v.node.name): x for v, x in zip(graph.inputs, arrays, strict=True)}
    with np.errstate(all="ignore"):
        results = [np.ravel(result) for result in evaluate(graph, feeds)]
    half = len(results) // 2
    return np.concatenate(results[:half]), np.concatenate(results[half:])


@pytest.mark.whole
@pytest.mark.parametrize("name", EXACT)
def test_entries_that_differ_between_points_are_nonlinear(name: str) -> None:
    function = EXACT[name][0]
    whole = rlx.jacobian_sparsity(function)(np.ones(N)).todense()
    nonlinear = rlx.jacobian_sparsity(function, nonlinear=True)(np.ones(N)).todense()
    points = np.linspace(0.3, 0.9, N), np.linspace(1.7, -0.4, N)
    one, other = (np.reshape(rlx.jacfwd(function)(x), (-1, N)) for x in points)
    assert not ((one != other) & ~nonlinear).any()
    assert not (nonlinear & ~whole).any()


def test_linear_entries_are_left_out() -> None:
    def function(x: Array) -> Array:
        return jnp.stack([MATRIX[2] @ x, jnp.sin(x[0]) + x[1], x[2] * x[3] + x[4], x[5] * 3])

    nonlinear = rlx.jacobian_sparsity(function, nonlinear=True)(np.ones(N))
    expected = np.zeros((4, N), bool)
    expected[1, 0] = expected[2, 2] = expected[2, 3] = True
    np.testing.assert_array_equal(nonlinear.todense(), expected)


HESSIANS: dict[str, tuple[Callable[[Array], Array], Array]] = {
    "linear": (lambda x: jnp.sum(x * np.arange(N)), 0 * EYE),
    "separable": (lambda x: jnp.sum(jnp.sin(x)), EYE),
    "neighbours": (lambda x: jnp.sum(x[1:] * x[:-1]), _shift(1) + _shift(-1)),
    "partly_linear": (lambda x: jnp.sum(x[:3] ** 2 + x[3:]), np.diag([1, 1, 1, 0, 0, 0])),
    "arrow": (lambda x: jnp.sum(x[0] * x**2), EYE | (EYE[[0] * N] | EYE[[0] * N].T)),
    "several_results": (lambda x: x[1:] * x[:-1], _shift(1) + _shift(-1)),
}


@pytest.mark.parametrize("name", HESSIANS)
def test_hessian_has_no_entries_where_the_function_is_linear(name: str) -> None:
    function, expected = HESSIANS[name]
    pattern = rlx.hessian_sparsity(function)(np.ones(N))
    np.testing.assert_array_equal(pattern.todense(), expected != 0)


def test_columns_are_those_of_all_chosen_arguments_and_rows_of_all_results() -> None:
    def function(state: dict[str, Array], gain: Array, _: None) -> dict[str, Array]:
        return {"moved": state["x"] * gain, "speed": state["v"]}

    state = {"v": np.ones(2), "x": rlx.ShapeDtypeStruct((2,), "f32")}
    pattern = rlx.jacobian_sparsity(function, argnums=(0, 1))(state, np.ones(2), None)
    expected = [[0, 0, 1, 0, 1, 0], [0, 0, 0, 1, 0, 1], [1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]]
    np.testing.assert_array_equal(pattern.todense(), np.array(expected) != 0)


def test_an_index_is_exact_as_a_number_and_conservative_as_an_argument() -> None:
    def taken(x: Array, index: Array) -> Array:
        return x[index]

    exact = rlx.jacobian_sparsity(taken)(np.ones(3), np.array([2, 0]))
    count = rlx.jit(lambda x, i: x * rlx.jacobian_sparsity(taken)(x, i).nnz)
    assert exact.nnz == 2
    assert count(1.0 + np.zeros(3), np.array([2, 0])).tolist() == [6, 6, 6]


@pytest.mark.parametrize("steps", [3, 5000], ids=["unrolled", "joined"])
def test_a_long_loop_gets_the_union_over_its_steps(steps: int) -> None:
    def last(x: Array) -> Array:
        return rlx.scan(lambda c, _: (c.at[1:].add(c[:-1]), c[0]), x, None, length=steps)

    pattern = rlx.jacobian_sparsity(last)(np.ones(4))
    np.testing.assert_array_equal(pattern.todense()[:4], np.tril(np.ones((4, 4))) != 0)
    np.testing.assert_array_equal(pattern.todense()[4:], np.arange(4) == [[0]] * steps)


@pytest.mark.slow
def test_a_grid_of_1e5_unknowns_has_five_entries_a_row() -> None:
    n = 316

    def residual(flat: Array) -> Array:
        u = jnp.pad(flat.reshape(n, n), 1)
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        return 4 * u[1:-1, 1:-1] - around + jnp.exp(u[1:-1, 1:-1])

    pattern = rlx.jacobian_sparsity(residual)(np.zeros(n * n))
    assert pattern.nnz == 5 * n * n - 4 * n
    assert pattern == pattern.T


def test_operations_of_patterns_are_those_of_boolean_matrices() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((7, 5)) < 0.3, rng.random((5, 4)) < 0.4
    left, right = _pattern(a), _pattern(b)
    np.testing.assert_array_equal(left.after(right).todense(), a @ b)
    np.testing.assert_array_equal(left.T.todense(), a.T)
    np.testing.assert_array_equal(left.to_scipy().todense(), a)
    again = left.T.T
    assert again == left
    assert hash(again) == hash(left)
    assert left != left.T


def _pattern(dense: Array) -> Pattern:
    rows, columns = np.nonzero(dense)
    return from_entries(rows, columns, dense.shape)


def test_spy_draws_a_dot_for_an_element_or_for_a_block() -> None:
    assert rlx.spy(_pattern(np.eye(4))) == "⠑⢄\n4 x 4, 4 nonzeros"
    drawn = rlx.spy(_pattern(np.eye(100)), width=2, height=1).splitlines()
    assert drawn == ["⠑⢄", "100 x 100, 100 nonzeros, 25 x 25 elements a dot"]


@pytest.mark.parametrize("dtype", ["i64", "c64"])
def test_integers_and_complex_numbers_have_no_sparse_derivative(dtype: str) -> None:
    with pytest.raises(NonDifferentiableError, match=f"argument 'x' of dtype {dtype}"):
        rlx.jacobian_sparsity(lambda x: x * 2.0)(rlx.ShapeDtypeStruct((3,), dtype))


def test_a_symbolic_extent_has_no_pattern() -> None:
    x = TensorType(DType.F32, (rlx.Dim("n"),))
    with pytest.raises(SymbolicExtentError, match="by 'x' of type f32"):
        rlx.jacobian_sparsity(lambda x: x * 2.0)(x)


def test_a_pattern_that_is_too_large_names_the_op_and_its_line() -> None:
    def normalized(x: Array) -> Array:
        return x / jnp.sum(x)

    with pytest.raises(UnsupportedError, match=r"(?s)10000000000 entries.*test_structure.py"):
        rlx.jacobian_sparsity(normalized)(np.ones(100_000))


def test_an_op_without_a_rule_is_dense() -> None:
    def transformed(x: Array) -> Array:
        return jnp.fft.rfft(x.reshape(2, 3), axis=0).real

    assert rlx.jacobian_sparsity(transformed)(np.ones(6)).todense().all()
