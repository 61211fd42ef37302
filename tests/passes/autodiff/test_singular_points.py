"""Derivatives at points where parts of a composition have none, compared with 50 digits.

No finite number may be wrong: not the value, a first derivative (where none exists, a subgradient
between the slopes of both sides) or a second derivative.
"""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn
from tests.passes.autodiff.singular_compositions import NAMES, check, function


@pytest.mark.costly(4)
@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_drawn_compositions_have_no_finite_wrong_derivative(seed: int, dtype: str) -> None:
    """Of ten formulas, with factors at points, some 180 compositions: 9,000 in `make test`."""
    check(seed, 10, dtype)


SMOOTH = [
    ("square", "norm(x)**2", 2),
    ("product of equal roots", "root(dot(x, x)) * root(dot(x, x))", 2),
    ("cube", "norm(x)**3", 0),
    ("hypot", "hypot(x[0], x[1])**2", 2),
    ("cosine", "cos(norm(x))", -1),
    ("RBF kernel", "exp(-norm(x)**2 / 2)", -1),
    ("Matern 3/2", "(1 + 2 * norm(x)) * exp(-2 * norm(x))", -4),
    ("Matern 5/2", "(1 + 3 * norm(x) + 3 * norm(x)**2) * exp(-3 * norm(x))", -3),
    ("sinc", "sinc(norm(x))", -(np.pi**2) / 3),
]


@pytest.mark.parametrize("backend", [pytest.param("c", marks=pytest.mark.slow), "reference"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_hessians_of_smooth_functions_of_norms_are_right_at_the_origin(
    dtype: str, backend: str
) -> None:
    functions = [function(text, NAMES) for _, text, _ in SMOOTH]
    both = (rlx.hessian, lambda f: rlx.jacrev(rlx.grad(f)))
    found = rlx.jit(lambda x: [[d(f)(x) for d in both] for f in functions], backend=backend)
    for (name, _, factor), hessians in zip(SMOOTH, found(np.zeros(2, dtype)), strict=True):
        for hessian in hessians:
            np.testing.assert_allclose(hessian, factor * np.eye(2), rtol=1e-6, err_msg=name)


ROUGH = ["norm(x)", "exp(-norm(x))", "(norm(x[:1]) + norm(x[1:]))**2", "norm(x) * x[0]", "norm3(x)"]


@pytest.mark.parametrize("text", ROUGH)
def test_second_derivatives_that_do_not_exist_are_not_finite(text: str) -> None:
    """Of norms and hypot too, in each mode; a first derivative stays the subgradient 0."""
    f = function(text, NAMES)
    forward = rlx.jacfwd(rlx.jacfwd(f))
    first, *seconds = rlx.jit(
        lambda x: (rlx.grad(f)(x), rlx.hessian(f)(x), forward(x)), backend="reference"
    )(np.zeros(2))
    np.testing.assert_array_equal(first, 0)
    assert all(np.isnan(second).any() for second in seconds)


def test_hessian_of_a_matrix_of_distances_matches_differences() -> None:
    """Zeros on the diagonal, and two equal points."""
    x = np.array([[0.0, 1.0], [0.0, 1.0], [2.0, 3.0]])

    def f(x: Any) -> Any:
        r = rnp.linalg.norm(x[:, None] - x, axis=-1)
        weights = np.arange(9.0).reshape(3, 3)
        return rnp.sum(weights * (1 + r + r * r / 3) * rnp.exp(-r))

    gradient = rlx.jit(rlx.grad(f), backend="reference")
    steps = 1e-5 * np.eye(6).reshape(6, 3, 2)
    expected = np.array([(gradient(x + s) - gradient(x - s)).ravel() / 2e-5 for s in steps])
    hessian = rlx.jit(rlx.hessian(f), backend="reference")(x).reshape(6, 6)
    np.testing.assert_allclose(hessian, expected, atol=1e-4)


@pytest.mark.parametrize("order", [1, 1.5, 2, 3, 4.5, 10])
def test_norms_of_every_order_have_the_gradient_0_at_the_origin(order: float) -> None:
    x = np.array([[3.0, -4.0], [0.0, 0.0]])  # a row of padding
    norms = rlx.grad(lambda x: rnp.sum(rnp.linalg.norm(x, order, axis=1)))
    size = np.sum(np.abs(x[0]) ** order) ** (1 / order)
    expected = [np.sign(x[0]) * (np.abs(x[0]) / size) ** (order - 1), [0, 0]]
    np.testing.assert_allclose(rlx.jit(norms, backend="c")(x), expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("name", "x", "slope"),
    [("sqrt", 0.0, np.inf), ("sqrt", -1.0, np.nan), ("cbrt", 0.0, np.inf), ("log", 0.0, np.inf)],
)
def test_slopes_are_those_of_the_formula_where_no_convention_holds(
    name: str, x: float, slope: float
) -> None:
    np.testing.assert_array_equal(rlx.grad(getattr(rnp, name))(x), slope)


@pytest.mark.parametrize(
    "derivative",
    [rlx.grad, lambda f: rlx.grad(rlx.grad(f)), rlx.hessian],
    ids=["1", "2", "hessian"],
)
@pytest.mark.parametrize("name", ["sqrt", "log", "reciprocal", "arcsin"])
def test_elements_that_where_leaves_out_have_no_slope(name: str, derivative: Any) -> None:
    """Though the slope of the function that was not chosen is infinite or NaN."""
    f = derivative(lambda x: rnp.where(x > 3, getattr(rnp, name)(x) * x, 0.0))
    assert [float(rlx.jit(f, backend="reference")(x)) for x in (0.0, -1.0, 1.0)] == [0, 0, 0]


NESTED: dict[str, Any] = {
    "inner root": lambda x: rnp.where(x > 5, 0.0, rnp.where(x > 0, rnp.sqrt(x), 2 * x)),
    "outer root": lambda x: rnp.where(x > 5, 0.0, rnp.sqrt(rnp.where(x > 0, x, -x))),
    "sum of both": lambda x: rnp.where(
        x > 1e9, 0.0, (lambda y: rnp.where(x > 0, rnp.log(y), 2 * y))(rnp.exp(x))
    ),
    "three": lambda x: rnp.where(
        x < 5, rnp.where(x < 0, 2 * x, rnp.where(x > 1, rnp.log(x), x)), rnp.exp(x)
    ),
    "activation": lambda x: rnp.where(x < 5, rlx.nn.relu(x) * rnp.where(x > 1, x, 1.0), 1 / x),
}


@pytest.mark.parametrize("name", NESTED)
def test_elements_that_nested_selections_leave_out_have_no_slope(name: str) -> None:
    """In reverse mode as in forward mode, whose selections drop the numbers themselves."""
    x = np.array([-np.inf, -2.0, 0.0, 0.5, 3.0, 7.0, 1e3, np.inf])
    forward = rlx.jvp(NESTED[name], (x,), (np.ones_like(x),))[1]
    reverse = rlx.vjp(NESTED[name], x)[1](np.ones_like(x))[0]
    np.testing.assert_allclose(reverse, forward, rtol=1e-14)


def _norm_of_rows(x: Any) -> Any:
    rows = np.ones((3, 2))
    return rlx.scan(lambda c, _: (c, rnp.cos(rnp.linalg.norm(x))), 0.0, rows)[1].sum()


IN_BODIES: dict[str, tuple[Any, float]] = {
    "scan": (lambda x: rlx.fori_loop(0, 3, lambda _, c: c + rnp.linalg.norm(x) ** 2, 0.0), 6),
    "rows of a scan": (_norm_of_rows, -3),
    "carry": (
        lambda x: rnp.linalg.norm(rlx.fori_loop(0, 3, lambda _, c: 2 * c, x)) ** 2, 128
    ),
    "branch": (
        lambda x: rlx.cond(x[0] > -1, lambda x: rnp.linalg.norm(x) ** 2, lambda x: x[0], x), 2
    ),
    "checkpoint": (rlx.checkpoint(lambda x: rnp.cos(rnp.linalg.norm(x))), -1),
    "while": (
        lambda x: rlx.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + rnp.linalg.norm(x) ** 2), (0, 0.0),
            max_trips=5,
        )[1],
        6,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_BODIES)
def test_hessians_of_norms_in_bodies_are_right_at_the_origin(name: str) -> None:
    f, factor = IN_BODIES[name]
    found = rlx.jit(lambda x: (rlx.hessian(f)(x), rlx.jacrev(rlx.grad(f))(x)), backend="reference")
    for hessian in found(np.zeros(2)):
        np.testing.assert_allclose(hessian, factor * np.eye(2), rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "second"),
    [
        ("cos(lse(abs(x[0]), 0 * abs(x[0])) - abs(x[0]) / 2)", -math.sin(math.log(2)) / 4),
        ("lse(norm(x), 0 * norm(x)) - norm(x) / 2", 0.25),
        ("cosh(root(square(x[0]) + x[1] * 2 * x[1]))", 1.0),
    ],
)
def test_columns_of_batched_formulas_are_independent(text: str, second: float) -> None:
    """Logarithms of sums over a stacked axis, and sums of squares with factors."""
    f, x = function(text, NAMES), np.zeros((2, 3))

    def slope_along_ones(x: Any) -> Any:
        gradient = rlx.grad(lambda x: rnp.sum(f(x)))
        return rlx.jvp(gradient, (x,), (np.array([[1.0], [0.0]]) + 0 * x,))[1]

    moved = rlx.jit(slope_along_ones, backend="reference")(x)
    np.testing.assert_allclose(moved, np.outer([second, 0], np.ones(3)), rtol=1e-14)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_expm1_over_its_argument_has_slopes_near_zero(dtype: str) -> None:
    f = function("exprel(x)", NAMES)
    both = rlx.jit(
        rlx.vmap(lambda x: (*rlx.value_and_grad(f)(x), rlx.grad(rlx.grad(f))(x))),
        backend="reference",
    )
    x = np.array([0, 1e-30, -4e-17, 1e-5, 0.49, -0.51, 3], dtype)
    with mpmath.workdps(40):
        exact = [
            mpmath.taylor(lambda t: mpmath.hyp1f1(1, 2, t), mpmath.mpf(float(e)), 2) for e in x
        ]
    expected = np.array([[float(a), float(b), 2 * float(c)] for a, b, c in exact])
    expected[0, 0] = np.nan  # a quotient of zeros, though its slopes exist
    for found, column in zip(both(x), expected.T, strict=True):
        np.testing.assert_allclose(found, column, rtol=1e-14 if dtype == "f8" else 2e-5)


def test_a_quotient_of_zeros_has_one_value_and_no_finite_slope_of_what_reads_it() -> None:
    x = np.array([0.0, -0.0, 1e-9])
    for text in ("exprel(x)", "log(exprel(x))", "exprel(x) ** 2 + x"):
        f = function(text, NAMES)
        plain = rlx.jit(f, backend="reference")(x)
        value, slope = rlx.jit(rlx.vmap(rlx.value_and_grad(f)), backend="reference")(x)
        np.testing.assert_array_equal(plain, f(x))
        np.testing.assert_allclose(value, plain, rtol=1e-15)
        assert np.isnan(plain[:2]).all()
        assert np.isfinite(slope[2])
        if text != "exprel(x)":
            assert np.isnan(slope[:2]).all()


def test_roots_of_norms_have_no_finite_slope() -> None:
    """Where a kept magnitude is 0 and its factor infinite, the slope is not that of its sign."""
    f = function("tanh(norm4(x)) + root(1.5 * norm4(x))", NAMES)
    both = rlx.jit(lambda x: (rlx.grad(f)(x), rlx.hessian(f)(x)), backend="reference")
    gradient = rlx.jit(lambda x: rlx.jvp(rlx.grad(f), (x,), (x,))[0], backend="reference")
    x = np.zeros(2)
    assert np.isnan(both(x)[0]).all()
    assert np.isnan(gradient(x)).all()


@pytest.mark.parametrize("name", ["maximum", "clip", "relu"])
def test_roots_of_squares_above_zero_are_norms(name: str) -> None:
    above: Any = {
        "maximum": lambda u: rnp.maximum(u, 0), "clip": lambda u: rnp.clip(u, 0, None),
        "relu": nn.relu,
    }[name]  # fmt: skip
    hessian = rlx.jit(rlx.hessian(lambda x: rnp.sqrt(above(x @ x)) ** 2), backend="reference")
    np.testing.assert_array_equal(hessian(np.zeros(2)), 2 * np.eye(2))
