"""Derivatives at points where parts of a composition have none, compared with 50 digits.

No finite number may be wrong: not the value, a first derivative (where none exists, a subgradient
between the slopes of both sides) or a second derivative.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn

Array = np.ndarray[Any, Any]

# Singular at the origin
PARTS = [
    "norm(x)", "hypot(x[0], x[1])", "std(x)", "norm3(x)", "root(square(x[0]) + 2 * x[1] * x[1])",
    "abs(x[0])", "abs(x[1])", "norm(x - x[::-1])", "root(dot(x, x))",
]  # fmt: skip
FUNCTIONS = [
    "{}**2", "{}**3", "{}**4", "cos({})", "cosh({})", "sin({})", "exp(-{})", "exp(-{}**2 / 2)",
    "(1 + {0}) * exp(-{0})", "(1 + {0} + {0} * {0} / 3) * exp(-{0})", "sinc({})", "log1p({})",
    "log1p({}**2)", "tanh({})", "1 / (1 + {})", "root(1 + {}**2)", "{0} * sin({0})",
    "{0} * tanh({0})", "softplus({0}) - {0} / 2", "log(cosh({}))", "expm1({0}) - {0}", "root({})",
]  # fmt: skip
FORMS = ["{a}", "{a}", "({a}) * ({b})", "({a}) + ({b})", "({a}) * (1 + x[0])", "({a}) * x[1]"]


def compositions(seed: int, count: int) -> list[str]:
    """Draw `count` formulas in `x`, a vector of two."""
    draw = np.random.default_rng(seed)

    def one() -> str:
        inner = str(draw.choice(FUNCTIONS)).format(draw.choice(PARTS))
        return str(draw.choice(FUNCTIONS)).format(f"({inner})") if draw.random() < 0.3 else inner

    return [str(draw.choice(FORMS)).format(a=one(), b=one()) for _ in range(count)]


_SHARED = ["cos", "cosh", "exp", "expm1", "hypot", "log", "log1p", "sin", "tanh"]
NAMES: dict[str, Any] = {
    name: getattr(rnp, name)
    for name in [
        "abs",
        "cos",
        "cosh",
        "dot",
        "exp",
        "expm1",
        "hypot",
        "log",
        "log1p",
        "sin",
        "sinc",
        "square",
        "std",
        "tanh",
    ]
} | {
    "norm": rnp.linalg.norm,
    "norm3": lambda x: rnp.linalg.norm(x, ord=3),
    "root": rnp.sqrt,
    "softplus": nn.softplus,
}


def power_mean(x: Array, order: int) -> Any:
    return mpmath.root(sum(abs(each) ** order for each in x), order)


EXACT: dict[str, Any] = {
    name: getattr(mpmath, name)
    for name in ["cos", "cosh", "exp", "expm1", "hypot", "log", "log1p", "sin", "tanh"]
} | {
    "abs": abs,
    "dot": np.dot,
    "norm": lambda x: power_mean(x, 2),
    "norm3": lambda x: power_mean(x, 3),
    "root": mpmath.sqrt,
    "sinc": mpmath.sincpi,
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
    "square": lambda x: x * x,
    "std": lambda x: abs(x[0] - x[1]) / 2,
}


def function(text: str, names: dict[str, Any]) -> Callable[[Any], Any]:
    made: Callable[[Any], Any] = eval(f"lambda x: {text}", dict(names))
    return made


def one_sided(f: Callable[[Any], Any], i: int, j: int | None = None) -> list[float]:
    """Return difference quotients by x[i] (and x[j]) at the origin, to all sides."""
    h = mpmath.mpf(10) ** -12

    def at(*steps: tuple[int, Any]) -> Any:
        x = np.array([mpmath.mpf(0)] * 2)
        for index, step in steps:
            x[index] = x[index] + step
        return f(x)

    if j is None:
        return [float((at((i, s * h)) - at()) / (s * h)) for s in (1, -1)]
    pairs = [(s * h, t * h * k) for s, t, k in itertools.product((1, -1), (1, -1), (1, 3))]
    return [
        float((at((i, s), (j, t)) - at((i, s)) - at((j, t)) + at()) / (s * t)) for s, t in pairs
    ]


def faults(text: str, value: float, gradient: Array, hessian: Array) -> Iterator[str]:
    """Yield what is finite and wrong."""
    f = function(text, EXACT)
    with mpmath.workdps(50):
        exact = float(f(np.array([mpmath.mpf(0)] * 2)))
        firsts = [one_sided(f, i) for i in range(2)]
        seconds = {(i, j): one_sided(f, i, j) for i in range(2) for j in range(2)}
    if not abs(value - exact) < 1e-12:
        yield f"value {value}, not {exact}"
    for i, sides in enumerate(firsts):
        slack = 1e-9 * (1 + max(map(abs, sides)))
        if np.isfinite(gradient[i]) and not (
            max(map(abs, sides)) < 1e5 and min(sides) - slack < gradient[i] < max(sides) + slack
        ):
            yield f"d/dx{i} is {gradient[i]}, not {sides}"
    for (i, j), sides in seconds.items():
        got = hessian[i, j]
        # At a kink of abs, the second derivative is that of both sides
        is_kink = "abs" in text and min(sides) - 1e-8 <= got <= max(sides) + 1e-8
        if np.isfinite(got) and not is_kink and not np.allclose(sides, got, rtol=1e-8, atol=1e-8):
            yield f"d2/dx{i}dx{j} is {got}, not {sides}"


def derivatives(texts: list[str]) -> list[tuple[float, Array, Array]]:
    """Return value, gradient and Hessian of all at the origin, from one traced program."""
    functions = [function(text, NAMES) for text in texts]

    def all_of(x: Any) -> Any:
        return [(f(x), rlx.grad(f)(x), rlx.hessian(f)(x)) for f in functions]

    found = rlx.jit(all_of, backend="reference")(np.zeros(2))
    return [(float(v), np.asarray(g), np.asarray(h)) for v, g, h in found]


def check(seed: int, count: int) -> None:
    texts = compositions(seed, count)
    wrong = [
        f"{text}: {fault}"
        for text, found in zip(texts, derivatives(texts), strict=True)
        for fault in faults(text, *found)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("seed", range(10))
def test_drawn_compositions_have_no_finite_wrong_derivative(seed: int) -> None:
    check(seed, 20)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1050))
def test_many_drawn_compositions_have_no_finite_wrong_derivative(seed: int) -> None:
    check(seed, 40)


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
