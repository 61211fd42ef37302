"""Loops, branches and functions with stated derivatives, against JAX and against plain loops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError, GraphError, InputError, RlxError, ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph

RNG = np.random.default_rng(5)
X, Y = RNG.standard_normal(3), RNG.standard_normal((6, 3))


def assert_close(given: Any, expected: Any) -> None:
    leaves, others = rlx.tree_leaves(given), rlx.tree_leaves(expected)
    for one, other in zip(leaves, others, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, np.asarray(other), rtol=1e-9, atol=1e-11)


ControlFlow = Callable[[Any, Any, Any, Any], Any]
"""Takes a library of control flow, its numpy, x of shape (3,) and y of shape (6, 3)."""


def scanned_cell(t: Any, n: Any, x: Any, y: Any) -> Any:
    return t.scan(lambda c, row: (n.tanh(c * x + row), n.sum(c * c)), n.sin(x), y)


def scanned_tree(t: Any, n: Any, x: Any, y: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        a, (b, count) = carry["a"], carry["rest"]
        new = {"a": n.sin(a + row["left"]), "rest": (b * a[0] + row["right"], count + 1)}
        return new, {"sum": a + b}

    first = {"a": x, "rest": (0.5, 0)}
    last, rows = t.scan(step, first, {"left": y, "right": y[:, 0]})
    return last["a"], last["rest"][0], rows["sum"]


def scanned_backwards(t: Any, n: Any, x: Any, y: Any) -> Any:
    return t.scan(lambda c, row: (c * 0.5 + row * x, n.cos(c)), x, y, reverse=True)


def scanned_without_rows(t: Any, n: Any, x: Any, y: Any) -> Any:
    return t.scan(lambda c, _: (n.sin(c + y[0]), None), x, None, length=4)[0]


def scanned_zero_times(t: Any, n: Any, x: Any, y: Any) -> Any:
    return t.scan(lambda c, row: (c * row, c + row), x * 2, y[:0])


def nested_scans(t: Any, n: Any, x: Any, y: Any) -> Any:
    def outer(c: Any, row: Any) -> Any:
        inner, rows = t.scan(lambda d, e: (d * e + c.sum(), n.sin(d)), row[0], row * x)
        return n.tanh(c * inner), rows

    return t.scan(outer, x, y)


def fixed_fori(t: Any, n: Any, x: Any, y: Any) -> Any:
    return t.fori_loop(1, 5, lambda i, v: n.sin(v) * i + y[0], x)


def indexing_fori(t: Any, n: Any, x: Any, y: Any) -> Any:
    return t.fori_loop(0, 6, lambda i, v: v + n.cos(n.take(y, i, axis=0)) * v, x)


def empty_fori(t: Any, n: Any, x: Any, y: Any) -> Any:
    return t.fori_loop(5, 2, lambda i, v: v * y[0], x)


def branch(t: Any, n: Any, x: Any, y: Any) -> Any:
    return t.cond(n.sum(x) > 0, lambda a: n.sin(a) * y[0], lambda a: a * a, x)


def other_branch(t: Any, n: Any, x: Any, y: Any) -> Any:
    return t.cond(n.sum(x) <= 0, lambda a: {"r": (n.sin(a), 0.0)}, lambda a: {"r": (a, a[0])}, x)


def switched(t: Any, n: Any, x: Any, y: Any) -> Any:
    count = n.sum(x > -100)
    return t.switch(count, [lambda a, _: a, lambda a, b: a + b, lambda a, b: a * b], x, y[1])


def branch_in_scan(t: Any, n: Any, x: Any, y: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        return t.cond(row[0] > 0, lambda: c * row, lambda: n.sin(c)), c[0]

    return t.scan(step, x, y)


def mapped(t: Any, n: Any, x: Any, y: Any) -> Any:
    return t.map(lambda row: n.sum(n.sin(row) * x), y)


def mapped_in_batches(t: Any, n: Any, x: Any, y: Any) -> Any:
    return t.map(lambda row: n.sin(row) * x, y, batch_size=4)


def summed_prefixes(t: Any, n: Any, x: Any, y: Any) -> Any:
    return t.associative_scan(n.multiply, y * x)


def affine_prefixes(t: Any, n: Any, x: Any, y: Any) -> Any:
    def combine(first: Any, second: Any) -> Any:
        return first[0] * second[0], first[1] * second[0] + second[1]

    return t.associative_scan(combine, (n.cos(y), y + x), reverse=True)


def prefixes_along_rows(t: Any, n: Any, x: Any, y: Any) -> Any:
    return t.associative_scan(n.multiply, y * x, axis=1)


PROGRAMS = [
    scanned_cell, scanned_tree, scanned_backwards, scanned_without_rows, scanned_zero_times,
    nested_scans, fixed_fori, indexing_fori, empty_fori, branch, other_branch, switched,
    branch_in_scan, mapped, mapped_in_batches, summed_prefixes, affine_prefixes,
    prefixes_along_rows,
]  # fmt: skip


def loss(t: Any, n: Any, program: ControlFlow) -> Callable[[Any, Any], Any]:
    def of(x: Any, y: Any) -> Any:
        leaves = rlx.tree_leaves(program(t, n, x, y))
        return sum((n.sum(leaf * leaf) for leaf in leaves), 0.0)

    return of


USES: dict[str, Callable[[Any, Any, Any, ControlFlow], Any]] = {
    "jit": lambda t, d, n, p: d.jit(lambda x, y: p(t, n, x, y))(X, Y),
    "grad": lambda t, d, n, p: d.jit(d.grad(loss(t, n, p), (0, 1)))(X, Y),
    "jvp": lambda t, d, n, p: d.jvp(loss(t, n, p), (X, Y), (Y[0], Y * Y)),
    "vmap": lambda t, d, n, p: d.vmap(lambda x: p(t, n, x, Y))(Y[:2]),
    "checkpoint": lambda t, d, n, p: d.jit(d.grad(d.checkpoint(loss(t, n, p)), (0, 1)))(X, Y),
    "grad of vmap": lambda t, d, n, p: d.grad(
        lambda xs: d.vmap(lambda x: loss(t, n, p)(x, Y))(xs).sum()
    )(Y[:2]),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs_mean_what_they_mean_in_jax(program: ControlFlow, use: str) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    theirs = SimpleNamespace(**vars(jax.lax))
    expected = USES[use](theirs, jax, jax.numpy, program)
    assert_close(USES[use](rlx, rlx, rnp, program), expected)


def test_scan_is_a_python_loop() -> None:
    carry, rows = np.float64(0.5), []
    for x in Y[:, 0]:
        rows.append(carry * 2)
        carry = np.tanh(carry + x)
    assert_close(
        rlx.scan(lambda c, x: (rnp.tanh(c + x), c * 2), 0.5, Y[:, 0]), (carry, np.asarray(rows))
    )


def test_scan_may_checkpoint_its_carries() -> None:
    def total(x: Any, **options: Any) -> Any:
        return rlx.scan(lambda c, y: (rnp.sin(c + y), None), x, Y, **options)[0].sum()

    assert_close(rlx.grad(lambda x: total(x, checkpoints=2))(X), rlx.grad(total)(X))


@pytest.mark.parametrize("checkpoints", [1, 2, "sqrt"])
@pytest.mark.parametrize("program", [nested_scans, scanned_tree], ids=lambda p: p.__name__)
def test_checkpoints_nest_and_change_no_gradient(program: ControlFlow, checkpoints: Any) -> None:
    stored = SimpleNamespace(**vars(rlx))
    stored.scan = functools.partial(rlx.scan, checkpoints=checkpoints)
    assert_close(
        rlx.jit(rlx.grad(loss(stored, rnp, program), (0, 1)))(X, Y),
        rlx.jit(rlx.grad(loss(rlx, rnp, program), (0, 1)))(X, Y),
    )


def test_a_checkpointed_body_has_the_same_gradient() -> None:
    def total(x: Any, wrap: Any) -> Any:
        return rlx.scan(wrap(lambda c, y: (rnp.sin(c * x + y), None)), x, Y)[0].sum()

    assert_close(
        rlx.jit(rlx.grad(lambda x: total(x, rlx.checkpoint)))(X),
        rlx.grad(lambda x: total(x, lambda f: f))(X),
    )


def collatz(n: Any) -> Any:
    def step(state: Any) -> Any:
        value, steps = state
        odd = 3 * value + 1
        return rnp.where(value % 2 == 0, value // 2, odd), steps + 1

    return rlx.while_loop(lambda state: state[0] != 1, step, (n, 0))[1]


def test_while_loop_ends_when_its_condition_does() -> None:
    assert collatz(27) == 111
    assert rlx.jit(collatz)(27) == 111
    np.testing.assert_array_equal(rlx.vmap(collatz)(np.asarray([1, 6, 27])), [0, 8, 111])


def doubled_until(limit: Any, x: Any, **options: Any) -> Any:
    return rlx.while_loop(lambda v: v < limit, lambda v: v * 2 * rnp.cos(x), x, **options)


def test_while_loop_has_forward_derivatives() -> None:
    value, tangent = rlx.jvp(lambda x: doubled_until(5.0, x), (0.3,), (1.0,))
    step = 1e-6
    slope = (doubled_until(5.0, 0.3 + step) - doubled_until(5.0, 0.3 - step)) / (2 * step)
    assert value > 5
    np.testing.assert_allclose(tangent, slope, rtol=1e-6)


def test_a_bounded_while_loop_has_reverse_derivatives() -> None:
    tangent = rlx.jvp(lambda x: doubled_until(5.0, x), (0.3,), (1.0,))[1]
    gradient = rlx.grad(lambda x: doubled_until(5.0, x, max_trips=20))
    np.testing.assert_allclose(gradient(0.3), tangent, rtol=1e-12)


def test_an_unbounded_while_loop_says_what_reverse_mode_needs() -> None:
    with pytest.raises(RlxError, match="max_trips"):
        rlx.grad(lambda x: doubled_until(5.0, x))(0.3)


def test_fori_loop_takes_traced_bounds() -> None:
    summed = rlx.jit(lambda a, b: rlx.fori_loop(a, b, lambda i, v: v + i, 0))
    assert summed(2, 6) == 2 + 3 + 4 + 5
    assert summed(6, 2) == 0


def test_weakly_typed_carries_take_the_dtype_of_the_body() -> None:
    rows = np.arange(4, dtype="f4")
    assert rlx.scan(lambda c, x: (c + x, c), 0, rows)[0].dtype == np.float32
    assert rlx.fori_loop(0, 3, lambda i, v: v * 0.5, 1) == 0.125
    assert rlx.while_loop(lambda v: v < 3, lambda v: v + rows[1], 0).dtype == np.float32


def test_bodies_and_branches_need_no_arrays() -> None:
    assert rlx.cond(True, lambda: 1.0, lambda: 2.0) == 1.0
    assert rlx.jit(lambda p: rlx.cond(p, lambda: 1.0, lambda: 2.0))(False) == 2.0
    _, ones = rlx.jit(lambda: rlx.scan(lambda c, _: (None, 1.0), None, length=3))()
    np.testing.assert_array_equal(ones, [1, 1, 1])
    _, twos = rlx.jit(lambda xs: rlx.scan(lambda c, x: (c, 2.0), 0.0, xs))(Y)
    np.testing.assert_array_equal(twos, [2] * 6)


def test_only_the_branch_taken_is_differentiated() -> None:
    root = rlx.grad(lambda x: rlx.cond(x > 0, rnp.sqrt, lambda x: x, x))
    assert root(0.0) == 1.0
    assert root(4.0) == 0.25


def test_switch_clamps_its_index() -> None:
    branches = [lambda x: x, lambda x: -x]
    assert rlx.switch(-3, branches, 2.0) == 2.0
    assert rlx.switch(9, branches, 2.0) == -2.0


def test_cond_takes_numbers_and_a_single_operand() -> None:
    assert rlx.cond(2, lambda x: x, lambda x: -x, operand=3.0) == 3.0


# Wrong bodies


def changes_dtype(c: Any, x: Any) -> Any:
    return c.astype("f32"), x


def changes_shape(c: Any, x: Any) -> Any:
    return rnp.stack([c, c]), x


def changes_structure(c: Any, x: Any) -> Any:
    return (c, c), x


def changes_leaf(c: Any, x: Any) -> Any:
    return {"p": c["p"], "v": (c["v"][0].astype("f32"), c["v"][1])}, x


def loses_leaf(c: Any, x: Any) -> Any:
    return {"p": c["p"]}, x


def takes_one(c: Any) -> Any:
    return c


def returns_one(c: Any, x: Any) -> Any:
    return c


WRONG: dict[str, tuple[Callable[[], Any], type[RlxError], list[str]]] = {
    "dtype of a carry": (
        lambda: rlx.scan(changes_dtype, np.ones(2), length=2),
        DTypeError,
        ["changes_dtype", "carry", "f64[2]", "f32[2]", "test_control.py", "astype"],
    ),
    "dtype of a leaf": (
        lambda: rlx.scan(changes_leaf, {"p": X, "v": (X, 1.0)}, Y),
        DTypeError,
        ["changes_leaf", "carry['v'][0]", "f64[3]", "f32[3]", "test_control.py", "changes_leaf"],
    ),
    "a carry is lost": (
        lambda: rlx.scan(loses_leaf, {"p": X, "v": (X, 1.0)}, Y),
        InputError,
        ["loses_leaf", "dict(('p', 'v')", "dict(('p',): *)", "test_control.py"],
    ),
    "missing input": (
        lambda: rlx.scan(takes_one, X, Y),
        InputError,
        ["scan: body 'takes_one'", "(carry, x)", "too many positional", "test_control.py"],
    ),
    "missing operand": (
        lambda: rlx.cond(True, takes_one, changes_structure, X),
        InputError,
        ["cond: branch 'changes_structure'", "'x'", "test_control.py"],
    ),
    "missing index": (
        lambda: rlx.fori_loop(0, 3, takes_one, X), InputError, ["fori_loop", "(i, value)"],
    ),
    "unbounded loop in reverse mode": (
        lambda: rlx.grad(lambda x: rlx.while_loop(lambda v: v < 3, takes_one, x))(1.0),
        RlxError,
        ["'takes_one'", "unbounded", "max_trips", "rlx.custom_vjp", "test_control.py"],
    ),
    "too many checkpoints": (
        lambda: rlx.scan(lambda c, x: (c, x), X, Y, checkpoints=9),
        GraphError,
        ["checkpoints is 9", "1..6", "test_control.py"],
    ),
    "no batches": (
        lambda: rlx.map(takes_one, Y, batch_size=0), InputError, ["batch_size is 0"],
    ),
    "structure of a combination": (
        lambda: rlx.associative_scan(changes_structure, Y),
        InputError,
        ["associative_scan", "changes_structure", "tuple(*, *)", "test_control.py"],
    ),
    "shape of a combination": (
        lambda: rlx.associative_scan(lambda a, b: (a + b)[:1], Y),
        ShapeError,
        ["changes the shape of elems", "(3, 3)", "(1, 3)", "test_control.py"],
    ),
    "shape of a carry": (
        lambda: rlx.scan(changes_shape, np.ones(2), length=2),
        ShapeError,
        ["changes_shape", "carry", "f64[2]", "f64[2, 2]", "test_control.py"],
    ),
    "structure of a carry": (
        lambda: rlx.scan(changes_structure, np.ones(2), length=2),
        InputError,
        ["changes_structure", "tuple(*, *)", "test_control.py"],
    ),
    "no pair": (
        lambda: rlx.scan(returns_one, np.ones(2), length=2),
        InputError,
        ["returns_one", "(carry, output)", "test_control.py"],
    ),
    "no length": (lambda: rlx.scan(returns_one, 0.0), InputError, ["length", "test_control.py"]),
    "lengths differ": (
        lambda: rlx.scan(returns_one, 0.0, (X, Y)),
        ShapeError,
        ["xs_0 has 3", "xs_1 has 6", "test_control.py"],
    ),
    "condition of several elements": (
        lambda: rlx.while_loop(lambda v: v < 3, lambda v: v + 1, X),
        ShapeError,
        ["condition", "(3,)", "rlx.numpy.all", "test_control.py"],
    ),
    "condition that is no bool": (
        lambda: rlx.while_loop(lambda v: v, lambda v: v - 1, 3),
        DTypeError,
        ["condition", "i64", "test_control.py"],
    ),
    "dtypes of branches": (
        lambda: rlx.cond(True, lambda x: x, lambda x: x.astype("f32"), X),
        DTypeError,
        ["f64[3]", "f32[3]", "test_control.py"],
    ),
    "shapes of branches": (
        lambda: rlx.cond(True, lambda x: x, lambda x: x[:2], X),
        ShapeError,
        ["f64[3]", "f64[2]", "test_control.py"],
    ),
    "structures of branches": (
        lambda: rlx.switch(0, [changes_structure, returns_one], 1.0, 2.0),
        InputError,
        ["changes_structure", "returns_one", "test_control.py"],
    ),
    "float index": (lambda: rlx.switch(0.5, [abs], 1.0), DTypeError, ["f64", "test_control.py"]),
    "array predicate": (
        lambda: rlx.cond(X > 0, abs, abs, X), ShapeError, ["(3,)", "where", "test_control.py"],
    ),
    "float bound": (
        lambda: rlx.fori_loop(0, 2.5, lambda i, v: v, 0), DTypeError, ["upper", "test_control.py"],
    ),
}  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_body_is_named_with_its_values_and_line(case: str) -> None:
    call, error, parts = WRONG[case]
    with pytest.raises(error) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)


def test_a_scan_that_gives_nothing_is_no_loop() -> None:
    assert rlx.jit(lambda x: rlx.scan(lambda c, row: (c, None), None, x))(np.ones((4, 3))) == (
        None,
        None,
    )
    body = Graph("body")
    body.input("row", (3,))
    graph = Graph("nothing")
    with pytest.raises(GraphError, match="returns nothing"):
        ops.scan(graph.input("rows", (4, 3)), body=body, length=4, num_carries=0)
