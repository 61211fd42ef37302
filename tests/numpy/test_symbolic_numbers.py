"""Symbolic extents used as numbers: one program for all sizes, against NumPy at each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import ShapeError, UnsupportedError
from rlx.ir.dtype import DType

BACKENDS = ("c", "llvm", "reference")
BOUND = 9
SizedProgram = Callable[[Any], Any]
NAMES: dict[str, Any] = {"key": rlx.random.key(3)}


def both(text: str) -> tuple[SizedProgram, SizedProgram]:
    """Return an expression of `x`, and of `n` elements, by rlx.numpy and by NumPy."""

    def by(np: Any) -> SizedProgram:
        return lambda x: eval(text, {"np": np, "x": x, "n": x.shape[0], "rlx": rlx, **NAMES})

    return by(rnp), by(np)


AT_ANY_SIZE = [
    "np.sum(x) + n", "n * x", "x * n", "x - n", "n - x", "x.size * x", "0.5 * n * x", "2 ** n + x",
    "n ** 2 * x", "n % 4 + x", "x / (n + 1)", "(n + 1) // 2 * x", "7 // (n + 1) + x", "x > n",
    "n == np.sum(x > -9)", "np.full(3, n)", "np.where(x > 0, n, -x)", "np.maximum(x, n)",
    "np.sqrt(n) * x", "np.arange(n) * x", "np.arange(1, 2 * n + 1, 2) * x",
    "np.arange(n - 1, -1, -1) * x", "np.arange(0, n + 5, 3)", "np.linspace(0, 1, n) * x",
    "np.linspace(2, 5, n, endpoint=False) * x", "np.linspace(0, 9, n, dtype=int) * x",
    "np.repeat(x, 3)", "np.repeat(np.arange(2), n)", "np.tile(x, 2)", "np.tile(np.arange(2), n)",
    "np.eye(n) @ x", "np.eye(n, k=1) @ x", "np.tri(n) @ x", "np.diag(x, 1)",
    "np.diagonal(np.outer(x, x))", "np.trace(np.outer(x, x))", "np.indices((n, 2))",
    "np.split(np.concatenate([x, x]), 2)[1]", "np.searchsorted(np.sort(x), 0.3)",
    "np.cumsum(np.ones(n)) * x", "np.outer(x, x).reshape(n * n)", "np.identity(n) * x",
]  # fmt: skip

FROM_ONE_ELEMENT = [
    "np.sum(x) / n", "1 / n * x", "np.median(x)", "np.quantile(x, 0.3)", "np.percentile(x, 60)",
    "np.nanmedian(x)", "np.median(np.outer(x, x), axis=1)", "np.take(x, n - 1)", "x[n - 1] + x[-1]",
    "np.take(x, n + 3, mode='clip')", "np.argmax(x) == n - 1", "np.mean(x) * n", "n // n + x",
    "np.resize(x, (3, 5))", "np.lexsort((x, np.abs(x)))",
    "np.take_along_axis(np.outer(x, x), np.argsort(np.outer(x, x), axis=1), 1)",
]  # fmt: skip

FROM_TWO_ELEMENTS = [
    "np.var(x, ddof=1)", "np.std(x, ddof=1)", "np.cov(np.stack([x, x * x]))",
    "np.linspace(2, 5, n, retstep=True)[1] * x",
]  # fmt: skip

CASES = [
    *((text, 0) for text in AT_ANY_SIZE),
    *((text, 1) for text in FROM_ONE_ELEMENT),
    *((text, 2) for text in FROM_TWO_ELEMENTS),
]


def graph_of(program: SizedProgram, least: int) -> rlx.Graph:
    extent = rlx.Dim("n", min=least, max=BOUND)
    return rlx.jit(program).graph(rlx.TensorType(DType.F64, (extent,)))


def drawn(size: int) -> Any:
    return np.random.default_rng(size).normal(size=size)


def require_equal(found: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("text", "least"), CASES)
def test_one_program_computes_with_extents_as_numpy_does_at_each_size(
    text: str, least: int, backend: str
) -> None:
    program, of_numpy = both(text)
    run = rlx.compile(graph_of(program, least), backend=backend)
    for size in sorted({least, max(least, 1), 5, BOUND}):
        x = drawn(size)
        require_equal(run(x)[0], of_numpy(x))


def steps(x: Any) -> Any:
    return rlx.scan(lambda carry, row: (carry * 0.9 + row, carry * row), 1.0, x)


LOOPS: dict[str, SizedProgram] = {
    "carry": lambda x: steps(x)[0],
    "rows": lambda x: steps(x)[1],
    "reverse": lambda x: rlx.scan(lambda c, row: (c * 0.9 + row, c), 0.5, x, reverse=True)[1],
    "length": lambda x: rlx.scan(lambda c, _: (c * 1.1, None), x, length=x.shape[0])[0],
    "fori": lambda x: rlx.lax.fori_loop(0, x.shape[0], lambda i, c: c * 0.9 + i * x[i], 0.0),
    "fori from 1": lambda x: rlx.lax.fori_loop(1, x.shape[0], lambda i, c: c * 0.9 + i, x),
    "map": lambda x: rlx.map(lambda row: row * row + x.shape[0], x),
    "pair": lambda x: rlx.scan(lambda c, r: (c + r[0] * r[1], r), 0.0, (x, x * 2))[1][1],
    "vmap": lambda x: rlx.vmap(lambda row: rnp.sum(row * x))(rnp.outer(x, x)),
    "vmap of a scan": lambda x: rlx.vmap(lambda row: steps(row)[0])(rnp.outer(x, x)),
    "vmap of reads": lambda x: rlx.vmap(lambda i: x[i])(rnp.arange(x.shape[0])),
    "draws": lambda x: x * rlx.random.uniform(NAMES["key"], x.shape, "f8"),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_batches_over_a_symbolic_axis_are_those_of_each_size(
    name: str, backend: str
) -> None:
    """Values, and gradients of their sum, are what the same function computes at a fixed size."""
    program = LOOPS[name]

    def slope(x: Any) -> Any:
        return rlx.grad(lambda y: rnp.sum(program(y) ** 2))(x)

    for function in (program, slope):
        run = rlx.compile(graph_of(function, 0), backend=backend)
        for size in (0, 1, 5, BOUND):
            x = drawn(size)
            require_equal(run(x)[0], rlx.jit(function, backend="reference")(x))


def test_steps_beyond_the_length_are_not_run() -> None:
    """A callback counts the steps: skipped ones call nothing."""
    seen: list[float] = []

    def body(total: Any, row: Any) -> Any:
        rlx.debug.callback(lambda value: seen.append(float(value)), row)
        return total + row, None

    run = rlx.compile(graph_of(lambda x: rlx.scan(body, 0.0, x)[0], 0))
    run(np.arange(4.0))
    assert sorted(seen) == [0.0, 1.0, 2.0, 3.0]


REFUSED: dict[str, tuple[str, type[Exception]]] = {
    "a transform": ("np.fft.fft(x)", ShapeError),
    "a step of a float": ("np.arange(0.0, n, 0.5)", ShapeError),
    "a negative number of elements": ("np.arange(3, n)", ShapeError),
    "an extent in Python's numbers": ("__import__('math').sqrt(n)", ShapeError),
    "an order that bounds leave open": ("x if n > 4 else -x", UnsupportedError),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_needs_the_number_itself_says_so(case: str) -> None:
    text, error = REFUSED[case]
    with pytest.raises(error, match="n"):
        graph_of(both(text)[0], 0)


def test_outside_of_a_trace_an_extent_has_no_number() -> None:
    extent = rlx.Dim("n", max=BOUND)
    attempts: list[Callable[[], Any]] = [
        lambda: rnp.add(extent, 1.0), lambda: extent / 2, lambda: rnp.arange(extent),
        lambda: np.ones(2) * extent,
    ]  # fmt: skip
    for compute in attempts:
        with pytest.raises(ShapeError, match="only while a function is traced"):
            compute()


def test_an_extent_does_not_widen_an_array() -> None:
    extent = rlx.Dim("n", max=BOUND)
    graph = rlx.jit(lambda x: x * x.shape[0] + 1 / (x.size + 1)).graph(
        rlx.TensorType(DType.F32, (extent,))
    )
    assert graph.outputs[0].dtype is DType.F32
