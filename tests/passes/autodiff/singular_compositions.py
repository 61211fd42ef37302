"""Compositions of functions, drawn, and their derivatives where parts of them are singular.

`python -m tests.passes.autodiff.singular_compositions --count 100000 --dtype f4` draws as many.
"""

from __future__ import annotations

import argparse
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.scipy.special import logsumexp

Array = np.ndarray[Any, Any]
Point = tuple[float, float]

# Singular at the origin
PARTS = [
    "norm(x)", "hypot(x[0], x[1])", "std(x)", "norm3(x)", "root(square(x[0]) + 2 * x[1] * x[1])",
    "abs(x[0])", "abs(x[1])", "norm(x - x[::-1])", "root(dot(x, x))",
    "root(maximum(dot(x, x), 0))", "norm4(x)",
]  # fmt: skip
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
FORMS = ["{0}", "{0}", "({0}) * ({1})", "({0}) + ({1})", "({0}) * (1 + x[0])", "({0}) * x[1]"]

# At the first all parts are singular, at the others some
POINTS: list[Point] = [(0, 0), (0, 0.5), (0.5, 0), (0.5, 0.5)]
FACTORS = [0.5, 0.75, 1.0, 1.25, 1.5, 2.0]
# How often a formula with factors is taken at the first point and at the others
_AT_POINTS = [12, 4, 4, 4]


@dataclass(frozen=True)
class Composition:
    """A formula of values `p` of parts at `x`, a vector of two, and of factors `c`.

    A column of `factors` belongs to each of the points.
    """

    formula: str
    parts: tuple[str, ...]
    points: list[Point]
    factors: Array

    @property
    def text(self) -> str:
        found = self.formula
        for i, part in enumerate(self.parts):
            found = found.replace(f"p[{i}]", part)
        return found


def compositions(seed: int, count: int) -> list[Composition]:
    """Draw `count` formulas, three in four with factors of the arguments of functions."""
    draw = np.random.default_rng(seed)

    def term(factors: list[str], i: int) -> str:
        inner = str(draw.choice(FUNCTIONS)).format(f"({factors[2 * i]}p[{i}])")
        is_nested = draw.random() < 0.3
        outer = str(draw.choice(FUNCTIONS)) if is_nested else "{}"
        return outer.format(f"({factors[2 * i + 1]}({inner}))") if is_nested else inner

    def one() -> Composition:
        form, is_scaled = str(draw.choice(FORMS)), draw.random() < 0.75
        factors = [f"c[{i}] * " if is_scaled else "" for i in range(4)]
        kinds = [SPECTRAL if draw.random() < 0.15 else PARTS for _ in range(2)]
        counts = _AT_POINTS if is_scaled else [1] * len(POINTS)
        points = [point for point, n in zip(POINTS, counts, strict=True) for _ in range(n)]
        return Composition(
            form.format(term(factors, 0), term(factors, 1)),
            tuple(str(draw.choice(kind)) for kind in kinds),
            points,
            draw.choice(FACTORS, (4, len(points))),
        )

    return [one() for _ in range(count)]


def symmetric_matrix(n: Any, x: Any) -> Any:
    """Return matrices of two eigenvalues that are 1 at the origin, one for each column of `x`."""
    rows = [n.stack([1 + x[0], x[1]], axis=-1), n.stack([x[1], 1 + 2 * x[1]], axis=-1)]
    return n.stack(rows, axis=-2)


def square_matrix(n: Any, x: Any) -> Any:
    """Return matrices of two singular values that are 1 at the origin."""
    rows = [n.stack([1 + x[0], 3 * x[1]], axis=-1), n.stack([x[1] - x[0], 1 + 0 * x[0]], axis=-1)]
    return n.stack(rows, axis=-2)


def by_eigenvalues(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: rnp.sum(f(rnp.linalg.eigvalsh(symmetric_matrix(rnp, x))), axis=-1)


def entry(f: Callable[[Any], Any], column: int) -> Callable[[Any], Any]:
    def of(x: Any) -> Any:
        w, v = rnp.linalg.eigh(symmetric_matrix(rnp, x))
        return ((v * f(w)[..., None, :]) @ rnp.swapaxes(v, -1, -2))[..., 0, column]

    return of


def singular_cube(x: Any) -> Any:
    u, s, vt = rnp.linalg.svd(square_matrix(rnp, x))
    return ((u * s[..., None, :] ** 3) @ vt)[..., 0, 1]


def dot(a: Any, b: Any) -> Any:
    return rnp.dot(a, b) if a.ndim == 1 else rnp.sum(a * b, axis=0)


_PLAIN = (
    *("abs", "arctan", "cos", "cosh", "exp", "expm1", "hypot", "log", "log1p", "maximum"),
    *("sin", "sinc", "square", "tanh"),
)
# Of a vector of two, or of each column of a matrix
NAMES: dict[str, Any] = {name: getattr(rnp, name) for name in _PLAIN} | {
    "dot": dot,
    "norm": lambda x: rnp.linalg.norm(x, axis=0),
    "norm3": lambda x: rnp.linalg.norm(x, ord=3, axis=0),
    "norm4": lambda x: rnp.linalg.norm(x, ord=4, axis=0),
    "std": lambda x: rnp.std(x, axis=0),
    "root": rnp.sqrt,
    "softplus": nn.softplus,
    "exprel": lambda x: rnp.expm1(x) / x,
    "lse": lambda a, b: logsumexp(rnp.stack([a, b]), axis=0),
    "trace_root": by_eigenvalues(rnp.sqrt),
    "trace_exp": by_eigenvalues(rnp.exp),
    "log_det": by_eigenvalues(rnp.log),
    "entropy": by_eigenvalues(lambda w: w * rnp.log(w)),
    "entry_sin": entry(rnp.sin, 1),
    "entry_root": entry(rnp.sqrt, 0),
    "nuclear": lambda x: rnp.linalg.norm(square_matrix(rnp, x), "nuc", axis=(-2, -1)),
    "schatten": lambda x: rnp.sum(rnp.linalg.svdvals(square_matrix(rnp, x)) ** 4, axis=-1) / 8,
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
    "schatten": lambda x: np.sum(gram(x)[1] ** 2) / 8,
    "singular_cube": lambda x: (gram(x)[0] @ gram(x)[1])[0, 1],
}


def function(text: str, names: dict[str, Any], of: str = "x") -> Callable[..., Any]:
    made: Callable[..., Any] = eval(f"lambda {of}: {text}", dict(names))
    return made


@functools.lru_cache(maxsize=1024)
def exact_function(text: str) -> Callable[..., Any]:
    """Return a formula of `x`, factors `c` and the values `p` of its parts, in many digits."""
    return function(text, EXACT, "x, c, p")


# Steps of 1e-16 from a point, and pairs of them along two axes: difference quotients need these
Step = tuple[int, int]
_SIDES = [(s, t) for s in (1, -1) for t in (1, -1)]
_FARTHER = [(s, 3 * t) for s, t in _SIDES]
_ALONG = [(0, 0), (1, 0), (-1, 0), (2, 0), (-2, 0)]
STEPS: list[Step] = [*_ALONG, *((0, m) for m in (1, -1, 2, -2, 3, -3)), *_SIDES, *_FARTHER]


@functools.cache
def near(point: Point) -> list[Array]:
    """Return the point and those at all steps from it."""
    h = mpmath.mpf(10) ** -16
    return [np.array([point[0] + m * h, point[1] + n * h]) for m, n in STEPS]


@functools.cache
def part_near(text: str, point: Point, bits: int) -> list[Any]:
    """Return the values of a part at the point, and at all steps if there are enough bits."""
    f = function(text, EXACT)
    with mpmath.workprec(bits):
        return [f(x) for x in (near(point) if bits == _BITS else near(point)[:1])]


_BITS = 169  # 50 digits


def values_near(made: Composition, index: int, bits: int = _BITS, off: int = 0) -> list[Any]:
    """Return values of the formula at a point and at steps from it, of parts `off` by so many ulp.

    With fewer bits than are needed for steps, the value at the point alone.
    """
    point, c = made.points[index], [mpmath.mpf(each) for each in made.factors[:, index]]
    f = exact_function(made.formula)
    parts = zip(*(part_near(part, point, bits) for part in made.parts), strict=True)
    with mpmath.workprec(bits):
        if bits == _BITS:
            return [f(x, c, p) for x, p in zip(near(point), parts, strict=True)]
        scale = 1 + off * mpmath.mpf(2) ** (1 - bits)
        return [f(near(point)[0], c, [each * scale for each in next(parts)])]


def slopes(values: dict[Step, Any], i: int) -> list[float]:
    """Return one-sided derivatives by x[i]; infinite where quotients grow."""

    def quotients(size: int) -> list[float]:
        steps = [(s * size * (1 - i), s * size * i) for s in (1, -1)]
        rises = [(values[step] - values[0, 0]) / sum(step) for step in steps]
        return _numbers([rise * mpmath.mpf(10) ** 16 for rise in rises])

    wide, close = quotients(2), quotients(1)
    grows = [1e5 < 1.2 * abs(a) < abs(b) for a, b in zip(wide, close, strict=True)]
    return [math.copysign(math.inf, a) if g else a for a, g in zip(close, grows, strict=True)]


def second_slopes(values: dict[Step, Any], i: int, j: int) -> list[float]:
    """Return second difference quotients by x[i] and x[j], to sides where the formula is real."""

    def at(first: int, second: int) -> Any:
        steps = [0, 0]
        steps[i] += first
        steps[j] += second
        return values[steps[0], steps[1]]

    pairs = _SIDES if i == j else [*_SIDES, *_FARTHER]
    rises = [(at(s, t) - at(s, 0) - at(0, t) + at(0, 0)) / (s * t) for s, t in pairs]
    return _numbers([rise * mpmath.mpf(10) ** 32 for rise in rises])


def _numbers(quotients: list[Any]) -> list[float]:
    return [float(each) for each in quotients if not mpmath.isnan(each)]


@dataclass(frozen=True)
class Found:
    """Value, gradient and Hessian of a composition at one of its points."""

    value: float
    gradient: Array
    hessian: Array


def faults(made: Composition, index: int, found: Found, dtype: str) -> Iterator[str]:
    """Yield what is finite and wrong; a value of NaN is wrong, too, but for quotients of zeros.

    A value may be off by what the formula loses in arithmetic of its precision.
    """
    rounding, bits = (1.0, 53) if dtype == "f8" else (1e6, 24)
    with mpmath.workdps(50):
        values = dict(zip(STEPS, values_near(made, index), strict=True))
        exact = float(values[0, 0])
        firsts = [slopes(values, i) for i in range(2)]
        seconds = {key: second_slopes(values, *key) for key in ((0, 0), (0, 1), (1, 1))}
    rounded = [values_near(made, index, bits, off)[0] for off in (-2, 0, 2)]
    lost = max(abs(float(each) - exact) for each in rounded)
    slack = 1e-12 * rounding + (16 * lost if math.isfinite(lost) else 0)
    value = found.value
    is_right = np.isclose(value, exact, 1e-12 * rounding, slack, equal_nan=True)
    # Parts of a formula may overflow, and quotients of zeros have no value
    is_excused = "exp" in made.text or "cosh" in made.text
    if not is_right and (math.isfinite(value) or not is_excused):
        yield f"value {value}, not {exact}"
    if lost > 1e-4 * (1 + abs(exact)):
        return  # arguments of cosines in the thousands: derivatives have no digits
    for i, sides in enumerate(firsts):
        slope, slack = (
            float(found.gradient[i]),
            1e-9 * rounding * (1 + max(map(abs, sides), default=0)),
        )
        is_between = all(map(math.isfinite, sides)) and (
            not sides or min(sides) - slack < slope < max(sides) + slack
        )
        if math.isfinite(slope) and not is_between:
            yield f"d/dx{i} is {slope}, not {sides}"
    slack = max(1e-7, 1e-8 * rounding)
    truncated = 1e-12 * abs(exact)  # what a third derivative adds to difference quotients
    for (i, j), sides in seconds.items():
        for got in {float(found.hessian[i, j]), float(found.hessian[j, i])}:
            if sides and math.isfinite(got) and not _is_second(got, sides, made, slack, truncated):
                yield f"d2/dx{i}dx{j} is {got}, not {sides}"


def _is_second(
    got: float, sides: list[float], made: Composition, slack: float, truncated: float
) -> bool:
    """True for the second derivative; at a kink of abs, one between those of both sides."""
    if "abs" in made.text and min(sides) - slack <= got <= max(sides) + slack:
        return True
    return all(abs(side - got) <= slack * (1 + abs(got)) + truncated for side in sides)


def is_missing(made: Composition, index: int, found: Found) -> bool:
    """True if a second derivative exists that is not finite here."""
    with mpmath.workdps(50):
        values = dict(zip(STEPS, values_near(made, index), strict=True))
        for i, j in ((0, 0), (0, 1), (1, 1)):
            sides = second_slopes(values, i, j)
            if len(sides) < 4 or np.ptp(sides) > 1e-8 * (1 + abs(sides[0])):
                return False
    return not np.isfinite(found.hessian).all()


def derivatives(drawn: list[Composition], dtype: str) -> list[list[Found]]:
    """Return value, gradient and Hessian of all at their points, from one traced program.

    It has a copy of `x` for each composition and a column for each point and direction, so that
    one derivative of the sum has all gradients, and one of that in the directions all Hessians.
    """
    factors = [np.repeat(made.factors, 2, axis=1).astype(dtype) for made in drawn]
    functions = [function(made.text, NAMES, "x, c") for made in drawn]
    points = [np.repeat(np.array(made.points, dtype).T, 2, axis=1) for made in drawn]
    directions = [np.tile(np.eye(2, dtype=dtype), len(made.points)) for made in drawn]

    def total(xs: list[Any]) -> Any:
        values = [f(x, c) for f, x, c in zip(functions, xs, factors, strict=True)]
        return sum(map(rnp.sum, values)), values

    def all_of(xs: list[Any], along: list[Any]) -> Any:
        return rlx.jvp(rlx.value_and_grad(total, has_aux=True), (xs,), (along,))

    found = rlx.jit(all_of, backend="reference")(points, directions)
    ((_, values), gradients), (_, moved) = found
    return [
        [
            Found(float(value[i]), np.array(gradient[:, i]), np.array(hessian[:, i : i + 2]))
            for i in range(0, value.size, 2)
        ]
        for value, gradient, hessian in zip(values, gradients, moved, strict=True)
    ]


def faults_of(seed: int, count: int, dtype: str) -> tuple[int, list[str]]:
    """Return how many compositions were drawn, each at each of its points, and their faults."""
    drawn = compositions(seed, count)
    found = derivatives(drawn, dtype)
    wrong = [
        f"{made.text} at {made.points[i]}, c = {made.factors[:, i]}: {fault}"
        for made, all_found in zip(drawn, found, strict=True)
        for i, each in enumerate(all_found)
        for fault in faults(made, i, each, dtype)
    ]
    return sum(map(len, found)), wrong


def check(seed: int, count: int, dtype: str = "f8") -> None:
    """Raise if one of `count` formulas has a finite wrong derivative at one of its points."""
    wrong = faults_of(seed, count, dtype)[1]
    assert not wrong, "\n".join(wrong)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="formulas at points")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--dtype", default="f8", choices=["f4", "f8"])
    options = parser.parse_args()
    done, seed, failed = 0, options.seed, 0
    while done < options.count:
        count, wrong = faults_of(seed, 40, options.dtype)
        done, seed, failed = done + count, seed + 1, failed + len(wrong)
        print("\n".join([*wrong, f"{done} drawn, {failed} faults"]), flush=True)


if __name__ == "__main__":
    main()
