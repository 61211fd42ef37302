"""Compositions of functions, drawn, and their derivatives where parts of them are singular."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.scipy.special import logsumexp

Array = np.ndarray[Any, Any]

# Singular at the origin
PARTS = [
    "norm(x)",
    "hypot(x[0], x[1])",
    "std(x)",
    "norm3(x)",
    "root(square(x[0]) + 2 * x[1] * x[1])",
    "abs(x[0])",
    "abs(x[1])",
    "norm(x - x[::-1])",
    "root(dot(x, x))",
    "root(maximum(dot(x, x), 0))",
    "norm4(x)",
]
SPECTRAL = [
    "trace_root(x)", "trace_exp(x)", "log_det(x)", "entropy(x)", "entry_sin(x)",
    "entry_root(x)", "nuclear(x)", "schatten(x)", "singular_cube(x)",
]  # fmt: skip
FUNCTIONS = [
    "{}**2", "{}**3", "{}**4", "cos({})", "cosh({})", "sin({})", "exp(-{})", "exp(-{}**2 / 2)",
    "(1 + {0}) * exp(-{0})", "(1 + {0} + {0} * {0} / 3) * exp(-{0})", "sinc({})", "log1p({})",
    "log1p({}**2)", "tanh({})", "1 / (1 + {})", "root(1 + {}**2)", "{0} * sin({0})",
    "{0} * tanh({0})", "softplus({0}) - {0} / 2", "log(cosh({}))", "expm1({0}) - {0}", "root({})",
    "exprel({})", "lse({0}, -{0})", "lse({0}, 0 * {0}) - {0} / 2", "arctan({0}) * {0}",
]  # fmt: skip
FORMS = ["{a}", "{a}", "({a}) * ({b})", "({a}) + ({b})", "({a}) * (1 + x[0])", "({a}) * x[1]"]


def compositions(seed: int, count: int) -> list[str]:
    """Draw `count` formulas in `x`, a vector of two."""
    draw = np.random.default_rng(seed)

    def one() -> str:
        parts = SPECTRAL if draw.random() < 0.15 else PARTS
        inner = str(draw.choice(FUNCTIONS)).format(draw.choice(parts))
        return str(draw.choice(FUNCTIONS)).format(f"({inner})") if draw.random() < 0.3 else inner

    return [str(draw.choice(FORMS)).format(a=one(), b=one()) for _ in range(count)]


def symmetric_matrix(n: Any, x: Any) -> Any:
    """Return a matrix of two eigenvalues that are 1 at the origin."""
    return n.stack([n.stack([1 + x[0], x[1]]), n.stack([x[1], 1 + 2 * x[1]])])


def square_matrix(n: Any, x: Any) -> Any:
    """Return a matrix of two singular values that are 1 at the origin."""
    return n.stack([n.stack([1 + x[0], 3 * x[1]]), n.stack([x[1] - x[0], 1 + 0 * x[0]])])


def by_eigenvalues(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: rnp.sum(f(rnp.linalg.eigvalsh(symmetric_matrix(rnp, x))))


def entry(f: Callable[[Any], Any], column: int) -> Callable[[Any], Any]:
    def of(x: Any) -> Any:
        w, v = rnp.linalg.eigh(symmetric_matrix(rnp, x))
        return ((v * f(w)) @ v.T)[0, column]

    return of


def singular_cube(x: Any) -> Any:
    u, s, vt = rnp.linalg.svd(square_matrix(rnp, x))
    return ((u * s**3) @ vt)[0, 1]


_PLAIN = (
    *("abs", "arctan", "cos", "cosh", "dot", "exp", "expm1", "hypot", "log", "log1p", "maximum"),
    *("sin", "sinc", "square", "std", "tanh"),
)
NAMES: dict[str, Any] = {name: getattr(rnp, name) for name in _PLAIN} | {
    "norm": rnp.linalg.norm,
    "norm3": lambda x: rnp.linalg.norm(x, ord=3),
    "norm4": lambda x: rnp.linalg.norm(x, ord=4),
    "root": rnp.sqrt,
    "softplus": nn.softplus,
    "exprel": lambda x: rnp.expm1(x) / x,
    "lse": lambda a, b: logsumexp(rnp.stack([a, b])),
    "trace_root": by_eigenvalues(rnp.sqrt),
    "trace_exp": by_eigenvalues(rnp.exp),
    "log_det": by_eigenvalues(rnp.log),
    "entropy": by_eigenvalues(lambda w: w * rnp.log(w)),
    "entry_sin": entry(rnp.sin, 1),
    "entry_root": entry(rnp.sqrt, 0),
    "nuclear": lambda x: rnp.linalg.norm(square_matrix(rnp, x), "nuc"),
    "schatten": lambda x: rnp.sum(rnp.linalg.svdvals(square_matrix(rnp, x)) ** 4),
    "singular_cube": singular_cube,
}


def power_mean(x: Array, order: int) -> Any:
    return mpmath.root(sum(abs(each) ** order for each in x), order)


def two_values(f: Callable[[Any], Any], x: Array) -> tuple[Any, Any, Any, Any]:
    """Return `f` of both eigenvalues, their mean and half their distance."""
    mean, half = 1 + (x[0] + 2 * x[1]) / 2, mpmath.hypot((x[0] - 2 * x[1]) / 2, x[1])
    return f(mean + half), f(mean - half), mean, half


def exact_trace(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: sum(two_values(f, x)[:2])


def exact_entry(f: Callable[[Any], Any], column: int) -> Callable[[Any], Any]:
    def of(x: Array) -> Any:
        high, low, mean, half = two_values(f, x)
        slope = (high - low) / (2 * half) if half else 0
        return slope * x[1] if column else (high + low) / 2 + slope * (1 + x[0] - mean)

    return of


def exact_nuclear(x: Array) -> Any:
    (a, b), (c, d) = square_matrix(np, x)
    return mpmath.sqrt(a * a + b * b + c * c + d * d + 2 * abs(a * d - b * c))


def gram(x: Array) -> Any:
    a = square_matrix(np, x)
    return a, a.T @ a


EXACT: dict[str, Any] = {
    name: getattr(mpmath, name) for name in ["cos", "cosh", "exp", "expm1", "hypot", "sin", "tanh"]
} | {
    "abs": abs,
    "arctan": mpmath.atan,
    "dot": np.dot,
    "log": lambda x: mpmath.log(x) if x > 0 else mpmath.nan,
    "log1p": lambda x: mpmath.log1p(x) if x > -1 else mpmath.nan,
    "maximum": max,
    "norm": lambda x: power_mean(x, 2),
    "norm3": lambda x: power_mean(x, 3),
    "norm4": lambda x: power_mean(x, 4),
    "root": lambda x: mpmath.sqrt(x) if x >= 0 else mpmath.nan,
    "sinc": mpmath.sincpi,
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
    "square": lambda x: x * x,
    "std": lambda x: abs(x[0] - x[1]) / 2,
    "exprel": lambda x: mpmath.expm1(x) / x if x else mpmath.mpf(1),
    "lse": lambda a, b: mpmath.log(mpmath.exp(a) + mpmath.exp(b)),
    "trace_root": exact_trace(mpmath.sqrt),
    "trace_exp": exact_trace(mpmath.exp),
    "log_det": exact_trace(mpmath.log),
    "entropy": exact_trace(lambda w: w * mpmath.log(w)),
    "entry_sin": exact_entry(mpmath.sin, 1),
    "entry_root": exact_entry(mpmath.sqrt, 0),
    "nuclear": exact_nuclear,
    "schatten": lambda x: np.sum(gram(x)[1] ** 2),
    "singular_cube": lambda x: (gram(x)[0] @ gram(x)[1])[0, 1],
}


def function(text: str, names: dict[str, Any]) -> Callable[[Any], Any]:
    made: Callable[[Any], Any] = eval(f"lambda x: {text}", dict(names))
    return made


def slopes(f: Callable[[Any], Any], i: int) -> list[float]:
    """Return one-sided derivatives by x[i] at the origin; infinite where quotients grow."""
    wide, near = one_sided(f, i), one_sided(f, i, digits=15)
    grows = [1e5 < 2 * abs(a) < abs(b) for a, b in zip(wide, near, strict=True)]
    return [math.copysign(math.inf, a) if g else a for a, g in zip(wide, grows, strict=True)]


def one_sided(
    f: Callable[[Any], Any], i: int, j: int | None = None, digits: int = 12
) -> list[float]:
    """Return difference quotients by x[i] (and x[j]) at the origin, to sides where f is real."""
    h = mpmath.mpf(10) ** -digits

    def at(*steps: tuple[int, Any]) -> Any:
        x = np.array([mpmath.mpf(0)] * 2)
        for index, step in steps:
            x[index] = x[index] + step
        return f(x)

    if j is None:
        found = [(at((i, s * h)) - at()) / (s * h) for s in (1, -1)]
    else:
        pairs = [(s * h, t * h * k) for s, t, k in itertools.product((1, -1), (1, -1), (1, 3))]
        found = [(at((i, s), (j, t)) - at((i, s)) - at((j, t)) + at()) / (s * t) for s, t in pairs]
    return [float(each) for each in found if not mpmath.isnan(each)]


def faults(
    text: str, value: float, gradient: Array, hessian: Array, dtype: str = "f8"
) -> Iterator[str]:
    """Yield what is finite and wrong; a value of NaN is wrong, too, but for quotients of zeros.

    A value may be off by what the formula loses in arithmetic of its precision.
    """
    rounding = 1.0 if dtype == "f8" else 1e6
    f = function(text, EXACT)
    with mpmath.workdps(50):
        exact = float(f(np.array([mpmath.mpf(0)] * 2)))
        firsts = [slopes(f, i) for i in range(2)]
        seconds = {(i, j): one_sided(f, i, j, 16) for i in range(2) for j in range(2)}
    with mpmath.workprec(53 if dtype == "f8" else 24):
        lost = abs(float(f(np.array([mpmath.mpf(0)] * 2))) - exact)
    slack = 1e-12 * rounding + (16 * lost if math.isfinite(lost) else 0)
    is_right = np.isclose(value, exact, 1e-12 * rounding, slack, equal_nan=True)
    overflows = abs(exact) > float(np.finfo(dtype).max)
    if not is_right and not overflows and not ("exprel" in text and math.isnan(value)):
        yield f"value {value}, not {exact}"
    for i, sides in enumerate(firsts):
        if not sides:
            continue
        slack = 1e-9 * rounding * (1 + max(map(abs, sides)))
        if np.isfinite(gradient[i]) and not (
            np.isfinite(sides).all() and min(sides) - slack < gradient[i] < max(sides) + slack
        ):
            yield f"d/dx{i} is {gradient[i]}, not {sides}"
    for (i, j), sides in seconds.items():
        got = hessian[i, j]
        if not sides:
            continue
        # At a kink of abs, the second derivative is that of both sides
        slack = 1e-8 * rounding
        is_kink = "abs" in text and min(sides) - slack <= got <= max(sides) + slack
        is_second_right = is_kink or bool(np.allclose(sides, got, rtol=slack, atol=slack))
        if np.isfinite(got) and not is_second_right:
            yield f"d2/dx{i}dx{j} is {got}, not {sides}"


def derivatives(texts: list[str], dtype: str = "f8") -> list[tuple[float, Array, Array]]:
    """Return value, gradient and Hessian of all at the origin, from one traced program."""
    functions = [function(text, NAMES) for text in texts]

    def all_of(x: Any) -> Any:
        return [(*rlx.value_and_grad(f)(x), rlx.hessian(f)(x)) for f in functions]

    found = rlx.jit(all_of, backend="reference")(np.zeros(2, dtype))
    return [(float(v), np.asarray(g), np.asarray(h)) for v, g, h in found]


def check(seed: int, count: int, dtype: str = "f8") -> None:
    """Raise if one of `count` compositions has a finite wrong derivative at the origin."""
    texts = compositions(seed, count)
    wrong = [
        f"{text}: {fault}"
        for text, found in zip(texts, derivatives(texts, dtype), strict=True)
        for fault in faults(text, *found, dtype)
    ]
    assert not wrong, "\n".join(wrong)
