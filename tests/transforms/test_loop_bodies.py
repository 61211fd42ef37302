"""What a loop's body may hold: formulas, captured arrays as they are, captures of captures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.nn as nn
import rlx.numpy as rnp
from rlx.ir.lowering import OneKernel
from rlx.ir.op import OPS, Trait
from rlx.passes.pipeline import pipeline
from rlx.runtime.lower import claimed_ops
from rlx.target import detect_target
from rlx.tracing.pytree import tree_flatten

NATIVE = ("llvm", "c")

FORMULAS = sorted(
    name
    for name, definition in OPS.items()
    if definition.has(Trait.ELEMENTWISE)
    and definition.decompose is not None
    and definition.family != "collective"  # functions of ranks
    and name not in ("divide_or_zero", "hypot", "root_of_powers")  # no activations
)

ACTIVATIONS = sorted({*FORMULAS, "gelu", "gelu_approx", "silu", "mish", "softplus"})


def everywhere(function: Callable[..., Any], *arguments: Any, rtol: float = 1e-6) -> Any:
    """Return the reference's results after comparing them with those of both back ends."""
    expected = rlx.jit(function, backend="reference")(*arguments)
    for backend in NATIVE:
        found = rlx.jit(function, backend=backend)(*arguments)
        pairs = zip(tree_flatten(found)[0], tree_flatten(expected)[0], strict=True)
        for one, other in pairs:
            assert np.shape(one) == np.shape(other)
            np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)
    return expected


def five_times(name: str) -> Callable[[Any], Any]:
    """Return the scan that applies an activation five times."""
    function = activation(name)
    return lambda x: rlx.scan(lambda c, _: (function(c), None), x, length=5)[0]


def activation(name: str) -> Callable[[Any], Any]:
    if name in ("gelu", "gelu_approx"):
        return lambda x: nn.gelu(x, approximate=name == "gelu_approx")
    if name == "named":  # the formula of a value that policies of `checkpoint` know by name
        return lambda x: rlx.checkpoint_name(x * x, "square")
    found: Callable[[Any], Any] = getattr(nn, name)
    return found


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_its_formula_in_a_small_loop_its_gradient_and_its_vmap(name: str) -> None:
    run = five_times(name)
    x, xs = np.float32(0.7), np.linspace(-2, 2, 11, dtype=np.float32)

    def all_three(x: Any, xs: Any) -> Any:
        return run(x), rlx.grad(run)(x), rlx.vmap(run)(xs), rlx.vmap(rlx.grad(run))(xs)

    value, *_ = everywhere(all_three, x, xs, rtol=1e-5)
    by_hand = x
    for _ in range(5):
        by_hand = rlx.jit(activation(name), backend="reference")(by_hand)
    np.testing.assert_allclose(value, by_hand, rtol=1e-5)


def test_a_formula_may_be_in_a_while_loop() -> None:
    def run(x: Any) -> Any:
        return rlx.while_loop(lambda c: nn.silu(c[1]) > 0.2, lambda c: (c[0] + 1, nn.silu(c[1])), x)

    trips, last = everywhere(run, (0, 3.0), rtol=1e-12)
    assert trips > 2
    assert last < 0.5


RETURNED: dict[str, Callable[[Any, Any], Any]] = {
    "by map": lambda u, w: rlx.map(lambda _: w, u),
    "next to a carry": lambda u, w: rlx.scan(lambda c, a: (c + a, w), 0.0, u)[1],
    "twice": lambda u, w: rlx.scan(lambda c, a: (a, (w, c, w)), 0.0, u)[1][0],
    "as next carry": lambda u, w: rlx.scan(lambda c, _: (w, c), w, u)[0],
    "as a row": lambda u, w: rlx.map(lambda _: w[1], u),
    "as a column": lambda u, w: rlx.map(lambda _: w[:, 1], u),
    "flat": lambda u, w: rlx.map(lambda _: rnp.reshape(w, (-1,)), u),
}


@pytest.mark.parametrize("length", [3, 0])
@pytest.mark.parametrize("how", RETURNED)
def test_results_may_be_captured_arrays_or_their_parts(how: str, length: int) -> None:
    """A large array stays in memory, where the step has no variables for it."""
    run, rows = RETURNED[how], np.arange(float(length))
    for w in (np.arange(6.0).reshape(2, 3), np.arange(600.0).reshape(20, 30)):
        everywhere(run, rows, w)


EMPTY: dict[str, Callable[[Any, Any], Any]] = {
    "rows of a constant": lambda u, _: rlx.map(lambda a: np.arange(600.0) * a, u[:, 0]),
    "rows of a broadcast": lambda u, _: rlx.map(lambda a: rnp.broadcast_to(a, (9, 700)), u[:, 0]),
    "rows of rows": lambda u, _: rlx.map(rnp.sin, u),
    "carries and rows": lambda u, w: rlx.scan(lambda c, a: (c + a[:7], a), w, u),
    "inside another loop": lambda u, w: rlx.map(lambda x: rlx.map(lambda a: a + x, u), w),
    "no trips": lambda _, w: rlx.while_loop(lambda c: c[0] < 9, lambda c: c + 1, w, max_trips=0),
}


@pytest.mark.parametrize("how", EMPTY)
def test_a_loop_of_no_steps_is_its_first_carries_and_no_rows(how: str) -> None:
    everywhere(EMPTY[how], np.zeros((0, 700)), np.arange(7.0))


def test_a_captured_array_may_be_combined_with_one_that_was_captured_on_the_way() -> None:
    """The inner names of what two levels capture do not collide."""

    def run(a: Any, b: Any, x: Any) -> Any:
        a, b = 2 * a, rnp.sin(b)

        def outer(c: Any, _: Any) -> Any:
            total, shaped = b.sum(), rnp.reshape(a, (2, 3))

            def inner(d: Any, _: Any) -> Any:
                return d + shaped.sum() + total * d, shaped

            return rlx.scan(inner, c, length=2)

        return rlx.scan(outer, x, length=3)

    w = np.arange(6.0).reshape(2, 3)
    last, rows = everywhere(run, w, w, 1.0, rtol=1e-12)
    expected = np.float64(1.0)
    for _ in range(6):
        expected = expected + 2 * w.sum() + np.sin(w).sum() * expected
    np.testing.assert_allclose(last, expected, rtol=1e-12)
    np.testing.assert_array_equal(rows, np.broadcast_to(2 * w, (3, 2, 2, 3)))


@pytest.mark.parametrize("shape", [(15, 5, 10), (10, 15, 5), (15, 64), (16, 4, 4)])
def test_code_does_not_grow_with_what_a_step_keeps(shape: tuple[int, ...]) -> None:
    """Lanes that are apart in memory are gathered and stored one by one, if they are few."""

    def run(x: Any, rows: Any) -> Any:
        return rlx.scan(lambda c, a: (c * a, c), x, rows)[1]

    text = rlx.jit(run, backend="llvm").llvm_ir(np.ones(shape), np.ones(4))
    assert len(text.splitlines()) < 5000


@pytest.mark.slow
def test_functions_of_what_a_step_keeps_are_called_in_lanes() -> None:
    """Fifteen lanes of fifty values: with every sine inlined, LLVM took a minute and a half."""

    def run(x: Any) -> Any:
        return rlx.scan(lambda c, _: (rnp.sin(c) * c + 1, None), x, length=7)[0]

    x = np.random.default_rng(0).standard_normal((15, 5, 10))
    text = rlx.jit(run, backend="llvm").llvm_ir(x)
    inlined = [line for line in text.splitlines() if "@sin_f64" in line and "noinline" not in line]
    assert all(line.startswith("define") for line in inlined)
    everywhere(run, x, rtol=1e-10)


def test_loops_over_formulas_are_one_kernel() -> None:
    graph = rlx.jit(five_times("elu")).graph(np.float32(1))
    done = pipeline(claimed_ops(), detect_target()).run(graph)
    assert [node.lowering for node in done.nodes if node.operands] == [OneKernel()]
