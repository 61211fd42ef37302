"""Value numbering: equal values are one, and what is known is folded bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rlx.codegen.loops.evaluate import evaluate
from rlx.codegen.loops.expr import E, const, fma, select
from rlx.codegen.loops.nodes import Binary, BinaryOp, Const, Prim, UnaryOp, ValueType, Var
from rlx.codegen.loops.value_numbers import ValueNumbers, is_absent

X, Y = (E(Var(name, ValueType(Prim.F32))) for name in "xy")
ONE, TWO = const(1.0, Prim.F32), const(2.0, Prim.F32)
PIVOT = select(X <= 0.0, const(np.nan, Prim.F32), X.unary(UnaryOp.SQRT))
SAME: dict[str, tuple[E, E]] = {
    "order": (X * Y, Y * X), "one": (X * 1.0, X), "quotient by one": (X / 1.0, X),
    "no less": (X - 0.0, X), "twice negative": ((-X).unary(UnaryOp.NEG), X),
    "difference": (X + (-Y), X - Y), "sum": (X - (-Y), X + Y),
    "negative factor": (X * -2.0, -(X * 2.0)), "power of two": (X / 4.0, X * 0.25),
    "fused with one": (fma(X, ONE, Y), X + Y), "fused with minus one": (fma(X, -ONE, Y), Y - X),
    "literals": (ONE / 3.0, const(1 / 3, Prim.F32)), "known choice": (select(ONE < 2.0, X, Y), X),
    "one condition": (select(X < Y, X, select(X < Y, TWO, Y) * X), select(X < Y, X, Y * X)),
    "pivot": (select(PIVOT.eq(0.0), X, Y), Y),
    "equal choices": (select(X < Y, X + Y, Y + X), X + Y),
}  # fmt: skip
DIFFERENT: dict[str, tuple[E, E]] = {
    "zero": (X * 0.0, const(0.0, Prim.F32)),
    "signed zero": (X + 0.0, X),
    "reversed": (const(0.0, Prim.F32) - X, -X),
    "inexact reciprocal": (X / 3.0, X * (1 / 3)),
    "other condition": (select(X < Y, X, select(Y < X, TWO, Y)), select(X < Y, X, Y)),
    "root of zero": (select(X.unary(UnaryOp.SQRT).eq(0.0), X, Y), Y),
    "association": ((X + Y) + TWO, X + (Y + TWO)),
}
SPECIAL = np.array([0.0, -0.0, 1.5, -3.0, np.inf, -np.inf, np.nan, 1e-45, 3e38], np.float32)


@pytest.mark.parametrize("name", SAME)
def test_equal_values_are_one(name: str) -> None:
    numbers = ValueNumbers()
    a, b = SAME[name]
    assert numbers.of(a).node is numbers.of(b).node


@pytest.mark.parametrize("name", DIFFERENT)
def test_values_that_differ_in_a_bit_stay_apart(name: str) -> None:
    numbers = ValueNumbers()
    a, b = DIFFERENT[name]
    assert numbers.of(a).node is not numbers.of(b).node


@pytest.mark.parametrize("name", [*SAME, *DIFFERENT])
def test_simplified_values_have_the_same_bits(name: str) -> None:
    x, y = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    for value in (SAME | DIFFERENT)[name]:
        with np.errstate(all="ignore"):
            plain = np.broadcast_to(evaluate(value.node, {"x": x, "y": y}), x.shape)
            found = evaluate(ValueNumbers().of(value).node, {"x": x, "y": y})
        found = np.broadcast_to(found, x.shape)
        is_nan = np.isnan(plain)
        np.testing.assert_array_equal(is_nan, np.isnan(found))
        np.testing.assert_array_equal(plain[~is_nan].view("u4"), found[~is_nan].view("u4"))


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (lambda zero: zero * X + Y, Y),
        (lambda zero: fma(X, zero, Y), Y),
        (lambda zero: fma(X, Y, zero), X * Y),
        (lambda zero: zero - X, -X),
        (lambda zero: X - zero, X),
        (lambda zero: -zero / X + Y, Y),
        (lambda zero: select(X < Y, zero, zero) + X, X),
    ],
)
def test_structural_zeros_are_absent(built: Callable[[E], E], expected: E) -> None:
    numbers = ValueNumbers()
    assert numbers.of(built(numbers.zero(Prim.F32))).node is numbers.of(expected).node


def test_functions_read_plain_zeros_for_structural_ones() -> None:
    numbers = ValueNumbers()
    zero = numbers.zero(Prim.F32)
    assert is_absent(zero.node)
    found = numbers.of(select(X < 0.0, zero, Y))
    assert not any(is_absent(part) for part in (found.node.a, found.node.b))  # type: ignore[union-attr]
    assert isinstance(numbers.of(zero < 1.0).node, Const)


def test_a_chain_of_squares_is_visited_once_a_step() -> None:
    value = X
    for _ in range(60):  # as a tree it has 2**60 leaves
        value = E(Binary(BinaryOp.MUL, value.node, value.node))
    numbers = ValueNumbers()
    numbers.of(value)
    assert len(numbers) == 61
