"""Small programs, as a JAX user writes them, against Python loops, differences and JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.nn
import rlx.numpy as rnp
from tests.transforms.programs import PROGRAMS, Sample

RLX = SimpleNamespace(
    grad=rlx.grad,
    value_and_grad=rlx.value_and_grad,
    vmap=rlx.vmap,
    jvp=rlx.jvp,
    jacfwd=rlx.jacfwd,
    hessian=rlx.hessian,
    scan=rlx.scan,
    while_loop=rlx.while_loop,
    fori_loop=rlx.fori_loop,
    cond=rlx.cond,
    associative_scan=rlx.associative_scan,
    logsumexp=rlx.nn.logsumexp,
    sigmoid=rlx.nn.sigmoid,
    solve_triangular=rnp.linalg.solve_triangular,
)
TOLERANCE = {"float64": 1e-8, "float32": 2e-4, "complex64": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
LONG = {"lstm_batch", "n_body", "hessian", "gru_batch", "gru_vector", "neural_ode", "lstm"}
"""Programs whose mapped gradients take a second to compile."""
DIFFERENTIABLE = [program for program in PROGRAMS if program.derivative]


def of(programs: list[Sample], *, slow: Collection[str] = ()) -> pytest.MarkDecorator:
    marks = {p.name: pytest.mark.slow if p.name in slow else () for p in programs}
    cases = [pytest.param(p, id=p.name, marks=marks[p.name]) for p in programs]
    return pytest.mark.parametrize("program", cases)


def assert_close(given: Any, expected: Any) -> None:
    for one, other in zip(rlx.tree_leaves(given), rlx.tree_leaves(expected), strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert one.shape == other.shape
        tolerance = TOLERANCE.get(one.dtype.name, 0.0)
        np.testing.assert_allclose(
            one.astype(np.complex128), other.astype(np.complex128), rtol=tolerance, atol=tolerance
        )


def objective(function: Callable[..., Any], n: Any) -> Callable[..., Any]:
    """The sum over all floats that `function` returns, so that there is one derivative."""

    def scalar(*args: Any) -> Any:
        result = n.asarray(0.0)
        for x in rlx.tree_leaves(function(*args)):
            if np.dtype(x.dtype).kind != "i":
                result = result + n.sum(n.sin(x.astype(n.float64)))
        return result

    return scalar


# Python loops


class Updated(np.ndarray[Any, Any]):
    """An array with `x.at[i].set(v)`."""

    @property
    def at(self) -> _At:
        return _At(self)


class _At:
    def __init__(self, array: Updated, index: Any = None) -> None:
        self.array, self.index = array, index

    def __getitem__(self, index: Any) -> _At:
        return _At(self.array, index)

    def set(self, value: Any) -> Any:
        result = self.array.copy()
        result[self.index] = value
        return result

    def add(self, value: Any) -> Any:
        result = self.array.copy()
        np.add.at(result, self.index, value)
        return result


def updated(tree: Any) -> Any:
    return rlx.tree_map(lambda x: np.asarray(x).view(Updated), tree)


def stacked(trees: list[Any]) -> Any:
    return rlx.tree_map(lambda *rows: np.stack(rows), *trees)


def scan(f: Any, init: Any, xs: Any, length: int = 0, reverse: bool = False) -> Any:
    leaves = rlx.tree_leaves(xs)
    steps = range(len(leaves[0]) if leaves else length)
    carry, rows = updated(init), []
    for i in reversed(steps) if reverse else steps:
        carry, row = f(carry, rlx.tree_map(lambda x, i=i: x[i], xs))
        rows.append(row)
    return carry, stacked(rows[::-1] if reverse else rows)


def while_loop(condition: Any, body: Any, value: Any) -> Any:
    while condition(value):
        value = updated(body(value))
    return value


def fori_loop(lower: int, upper: int, body: Any, value: Any) -> Any:
    for i in range(lower, upper):
        value = body(i, updated(value))
    return value


def associative_scan(combine: Any, x: Any) -> Any:
    return np.stack([functools.reduce(combine, x[: i + 1]) for i in range(len(x))])


def vmap(f: Any, in_axes: Any = 0) -> Any:
    def mapped(*args: Any) -> Any:
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        count = next(len(x) for x, axis in zip(args, axes, strict=True) if axis == 0)
        rows = [[x if a is None else x[i] for x, a in zip(args, axes, strict=True)]
                for i in range(count)]  # fmt: skip
        return stacked([f(*row) for row in rows])

    return mapped


def logsumexp(x: Any, axis: Any = None) -> Any:
    return np.log(np.sum(np.exp(x), axis=axis))


LOOPS = SimpleNamespace(
    scan=scan,
    while_loop=while_loop,
    fori_loop=fori_loop,
    associative_scan=associative_scan,
    cond=lambda condition, yes, no, *operands: (yes if condition else no)(*operands),
    vmap=vmap,
    logsumexp=logsumexp,
    sigmoid=lambda x: 1 / (1 + np.exp(-x)),
    solve_triangular=lambda a, b, lower: np.linalg.solve(a, b),
)
DERIVATIVES_WITHIN = {
    "leapfrog", "nested_transforms", "jacobian", "hessian", "lorenz_sensitivity", "lotka_fit",
}  # fmt: skip
"""Programs that plain NumPy cannot run: the interpreter of graphs is their oracle."""


def expected(program: Sample) -> Any:
    if program.name in DERIVATIVES_WITHIN:
        function, arguments = program.make(RLX, rnp, program.size)
        return rlx.jit(function, backend="reference")(*arguments)
    function, arguments = program.make(LOOPS, np, program.size)
    with np.errstate(all="ignore"):
        return function(*updated(arguments))


@of([program for program in PROGRAMS if program.name not in ("half_scan", "brain_float_scan")])
def test_a_program_computes_what_python_loops_do(program: Sample) -> None:
    function, arguments = program.make(RLX, rnp, program.size)
    assert_close(rlx.jit(function)(*arguments), expected(program))


@of([program for program in DIFFERENTIABLE if not program.name.endswith("_scan")])
def test_the_gradient_of_a_program_is_the_limit_of_differences(program: Sample) -> None:
    function, (first, *others) = program.make(RLX, rnp, program.size)
    scalar = objective(function, rnp)
    rng = np.random.default_rng(3)
    along = rlx.tree_map(lambda x: rng.standard_normal(np.shape(x)), first)

    def run(step: Any, first: Any, *others: Any) -> Any:
        moved = rlx.tree_map(lambda x, d: x + step * d, wide(first), along)
        if not program.reverse:
            return scalar(moved, *others), rlx.jvp(
                lambda x: scalar(x, *others), (moved,), (along,)
            )[1]
        value, slopes = rlx.value_and_grad(scalar)(moved, *others)
        pairs = zip(rlx.tree_leaves(slopes), rlx.tree_leaves(along), strict=True)
        return value, sum(rnp.sum(slope * d) for slope, d in pairs)

    compiled = rlx.jit(run)
    h = 1e-5
    values = [compiled(step, first, *wide(others))[0] for step in (h, -h)]
    slope = compiled(0.0, first, *wide(others))[1]
    np.testing.assert_allclose(slope, (values[0] - values[1]) / (2 * h), rtol=2e-5, atol=1e-6)


def wide(tree: Any) -> Any:
    """Differences need the digits of f64."""
    return rlx.tree_map(
        lambda x: x.astype(np.float64) if np.dtype(getattr(x, "dtype", "i8")).kind == "f" else x,
        tree,
    )


@of([program for program in DIFFERENTIABLE if program.reverse], slow=LONG)
def test_a_mapped_gradient_is_the_gradient_of_each_instance(program: Sample) -> None:
    function, (first, *others) = program.make(RLX, rnp, program.size)
    slope = rlx.grad(objective(function, rnp))
    rows = [rlx.tree_map(lambda x, by=by: (x * by).astype(x.dtype), arrays(first))
            for by in (1.0, 0.9, 1.1)]  # fmt: skip
    mapped = rlx.vmap(slope, in_axes=(0, *[None] * len(others)))
    one = rlx.jit(slope)
    given = rlx.jit(mapped)(stacked(rows), *others)
    assert_close(given, stacked([one(row, *others) for row in rows]))


@pytest.mark.slow
@of(PROGRAMS)
def test_a_program_in_c_agrees_with_jax(program: Sample) -> None:
    jax = pytest.importorskip("jax")
    jnp = pytest.importorskip("jax.numpy")
    lib = SimpleNamespace(
        **{name: getattr(jax, name) for name in ("grad", "value_and_grad", "vmap", "jvp")},
        **{name: getattr(jax, name) for name in ("jacfwd", "hessian")},
        **{name: getattr(jax.lax, name) for name in ("scan", "while_loop", "fori_loop")},
        **{name: getattr(jax.lax, name) for name in ("cond", "associative_scan")},
        logsumexp=jax.nn.logsumexp,
        sigmoid=jax.nn.sigmoid,
        solve_triangular=pytest.importorskip("jax.scipy.linalg").solve_triangular,
    )
    function, arguments = program.make(RLX, rnp, program.size)
    other, _ = program.make(lib, jnp, program.size)
    with jax.enable_x64(True):
        assert_close(rlx.jit(function, backend="c")(*arguments), jax.jit(other)(*arguments))
        if program.derivative and program.reverse:
            slope = rlx.jit(rlx.grad(objective(function, rnp)), backend="c")
            expected_slope = jax.jit(jax.grad(objective(other, jnp)))
            assert_close(slope(*arguments), expected_slope(*arguments))


def arrays(tree: Any) -> Any:
    return rlx.tree_map(np.asarray, tree)
