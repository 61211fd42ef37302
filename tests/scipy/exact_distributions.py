"""Ten distributions of fifty digits, and errors of our functions of them in ulp.

`python -m tests.scipy.exact_distributions` prints the table of `docs/numerics.md`: the largest
error of each function over drawn arguments and shapes. Arguments have shares that are uniform, or
whose logarithms are, from the least normal float to 1/2, of either side. A quantile's error is that
of its share, over the density.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mpmath
import numpy as np
import scipy.stats

import rlx
from rlx.scipy import stats
from tests.scipy import integrals_of_densities

Array = np.ndarray[Any, Any]
Both = tuple[Any, Any]
DIGITS = 50
FUNCTIONS = ("cdf", "sf", "logcdf", "logsf", "ppf", "isf")
DTYPES = ("f4", "f8")
_LARGE = 300
"""Numbers above which series of mpmath are long, and integrals are used."""


def norm(x: Any) -> Both:
    """Return the shares below and above `x`; so do the other functions here."""
    return mpmath.ncdf(x), mpmath.ncdf(-x)


def truncnorm(x: Any, a: Any, b: Any) -> Both:
    def share(low: Any, high: Any) -> Any:
        if low > 0:
            return mpmath.ncdf(-low) - mpmath.ncdf(-high)
        return mpmath.ncdf(high) - mpmath.ncdf(low)

    with mpmath.workdps(2 * DIGITS):
        return share(a, x) / share(a, b), share(x, b) / share(a, b)


def expon(x: Any) -> Both:
    return -mpmath.expm1(-x), mpmath.exp(-x)


def laplace(x: Any) -> Both:
    tail = mpmath.exp(-abs(x)) / 2
    return (tail, 1 - tail) if x < 0 else (1 - tail, tail)


def logistic(x: Any) -> Both:
    return 1 / (1 + mpmath.exp(-x)), 1 / (1 + mpmath.exp(x))


def gamma(x: Any, a: Any) -> Both:
    if max(a, x) > _LARGE:
        return integrals_of_densities.gamma_shares(a, x)
    if x > a:
        high = mpmath.gammainc(a, x, mpmath.inf, regularized=True)
        return 1 - high, high
    low = mpmath.gammainc(a, 0, x, regularized=True)
    return low, 1 - low


def beta(x: Any, a: Any, b: Any) -> Both:
    if min(a, b) > 2 and a + b > _LARGE:
        return integrals_of_densities.beta_shares(a, b, x)
    if x > a / (a + b):
        high = mpmath.betainc(b, a, 0, 1 - x, regularized=True)
        return 1 - high, high
    low = mpmath.betainc(a, b, 0, x, regularized=True)
    return low, 1 - low


def t(x: Any, df: Any) -> Both:
    tail = beta(df / (df + x * x), df / 2, mpmath.mpf(0.5))[0] / 2
    return (tail, 1 - tail) if x < 0 else (1 - tail, tail)


def poisson(k: Any, mu: Any) -> Both:
    return gamma(mu, k + 1)[::-1]


def binom(k: Any, n: Any, p: Any) -> Both:
    return beta(p, k + 1, n - k)[::-1] if k < n else (mpmath.mpf(1), mpmath.mpf(0))


def log_density_of_t(x: Any, df: Any) -> Any:
    size = mpmath.loggamma((df + 1) / 2) - mpmath.loggamma(df / 2) - mpmath.log(mpmath.pi * df) / 2
    return size - (df + 1) / 2 * mpmath.log1p(x * x / df)


def log_density_of_beta(x: Any, a: Any, b: Any) -> Any:
    size = mpmath.loggamma(a + b) - mpmath.loggamma(a) - mpmath.loggamma(b)
    return size + (a - 1) * mpmath.log(x) + (b - 1) * mpmath.log1p(-x)


def truncnorm_density(x: Any, a: Any, b: Any) -> Any:
    with mpmath.workdps(2 * DIGITS):
        low, high = (-b, -a) if a > 0 else (a, b)
        return mpmath.npdf(x) / (mpmath.ncdf(high) - mpmath.ncdf(low))


class Family(NamedTuple):
    """A distribution: exact shares, its density unless it is discrete, and intervals of shapes.

    Logarithms of shapes are uniform in their intervals.
    """

    shares: Callable[..., Both]
    density: Callable[..., Any] | None
    shapes: tuple[tuple[float, float], ...] = ()


FAMILIES = {
    "norm": Family(norm, mpmath.npdf),
    "truncnorm": Family(truncnorm, truncnorm_density, ((0.1, 30), (0.1, 30))),
    "t": Family(t, lambda x, n: mpmath.exp(log_density_of_t(x, n)), ((0.5, 1e8),)),
    "gamma": Family(
        gamma, lambda x, a: mpmath.exp((a - 1) * mpmath.log(x) - x - mpmath.loggamma(a)),
        ((0.01, 1e8),),
    ),
    "beta": Family(
        beta, lambda *x: mpmath.exp(log_density_of_beta(*x)), ((0.01, 1e5), (0.01, 1e5))
    ),
    "expon": Family(expon, lambda x: mpmath.exp(-x)),
    "laplace": Family(laplace, lambda x: mpmath.exp(-abs(x)) / 2),
    "logistic": Family(logistic, lambda x: 1 / (2 + mpmath.exp(x) + mpmath.exp(-x))),
    "poisson": Family(poisson, None, ((0.01, 1e8),)),
    "binom": Family(binom, None, ((1, 1e6), (1e-4, 1))),
}  # fmt: skip


def drawn_shapes(draw: np.random.Generator, name: str, count: int) -> list[Array]:
    """Draw shapes; of the truncated normal the interval, of the binomial a whole number."""
    intervals = FAMILIES[name].shapes
    shapes = [np.exp(draw.uniform(np.log(low), np.log(high), count)) for low, high in intervals]
    if name == "truncnorm":
        ends = [draw.choice([-1.0, 1.0], count) * each for each in shapes]
        return [np.minimum(*ends), np.maximum(*ends)]
    if name == "binom":
        p = np.where(draw.random(count) < 0.5, shapes[1], 1 - shapes[1])
        return [np.floor(shapes[0]), np.clip(p, 1e-6, 1 - 1e-6)]
    return shapes


def drawn(name: str, dtype: str, count: int) -> tuple[list[Array], Array]:
    """Return arguments with shapes, and probabilities for quantiles of the same shapes."""
    draw = np.random.default_rng(sum(map(ord, name + dtype)))
    shapes = [x.astype(dtype) for x in drawn_shapes(draw, name, count)]
    least = np.log(np.finfo(dtype).tiny)
    logs = draw.uniform(least, np.log(0.5), count)
    share = np.where(draw.random(count) < 0.5, np.exp(logs), draw.uniform(1e-3, 0.5, count))
    rest = 1 - np.maximum(share, np.finfo(dtype).eps)
    q = np.where(draw.random(count) < 0.3, rest, share).astype(dtype)
    family = getattr(scipy.stats, name)
    wide = [x.astype("f8") for x in shapes]
    with np.errstate(all="ignore"):
        sides = family.ppf(share, *wide), family.isf(share, *wide)
        x = np.where(draw.random(count) < 0.5, *sides).astype(dtype)
    return [x, *shapes], q


def logarithm(share: Any, rest: Any) -> Any:
    return mpmath.log1p(-rest) if share > 0.5 else mpmath.log(share)


def ulp(exact: Any, dtype: Any) -> Any:
    return mpmath.mpf(float(np.spacing(np.abs(dtype.type(float(exact))))))


def is_normal(exact: Any, dtype: Any) -> bool:
    return bool(np.finfo(dtype).tiny < abs(exact) < np.finfo(dtype).max)


def errors_of_shares(name: str, row: Sequence[Any], found: Sequence[Any]) -> list[float]:
    """Return the errors of the four functions in ulp, of those that are normal numbers."""
    low, high = FAMILIES[name].shares(*(mpmath.mpf(float(x)) for x in row))
    if not 0 < low < 1:
        return []  # the argument was rounded to an end
    exact = (low, high, logarithm(low, high), logarithm(high, low))
    return [
        float(abs(mpmath.mpf(float(got)) - want) / ulp(want, got.dtype))
        if is_normal(want, got.dtype) else 0.0
        for got, want in zip(found, exact, strict=True)
    ]  # fmt: skip


def error_of_quantile(name: str, q: Any, x: Any, shapes: list[Any], *, upper: bool) -> float:
    """Return the error in ulp; that of a count is infinite unless it is right."""
    family = FAMILIES[name]
    if np.isnan(x):
        return np.inf
    end = np.copysign(np.finfo(x.dtype).max, x) if np.isinf(x) else x
    share, at, *given = (mpmath.mpf(float(each)) for each in (q, end, *shapes))
    if np.isinf(x):  # right if no float has the share
        beyond = family.shares(at, *given)[int(x > 0)]
        return 0.0 if beyond >= (share if upper == (x > 0) else 1 - share) else np.inf
    if family.density is None:
        half = max(0, round(float(np.spacing(x)) / 2))  # what the rounding of a count takes off
        counts = range(int(at) - half, int(at) + half + 1)
        is_right = any(is_least(family, share, k, given, upper=upper) for k in counts)
        return 0.0 if is_right else np.inf
    if not is_normal(at, x.dtype) or at in (0, 1):
        return 0.0
    excess = family.shares(at, *given)[upper] - share
    return float(abs(excess / family.density(at, *given)) / ulp(x, x.dtype))


def is_least(family: Family, share: Any, k: Any, shapes: list[Any], *, upper: bool) -> bool:
    def enough(k: Any) -> bool:
        if k < 0:
            return False
        found = family.shares(k, *shapes)
        return bool(found[1] <= share if upper else found[0] >= share)

    return enough(k) and not enough(k - 1)


def worst(name: str, dtype: str, count: int, **options: Any) -> dict[str, tuple[float, Any]]:
    """Return for each function the largest error, and where that is."""
    rows, q = drawn(name, dtype, count)
    family, shapes = getattr(stats, name), rows[1:]
    found: dict[str, tuple[float, Any]] = dict.fromkeys(FUNCTIONS, (0.0, None))

    def note(function: str, error: float, where: Any) -> None:
        if not error <= found[function][0]:
            found[function] = error, tuple(map(float, where))

    def all_of(q: Any, x: Any, *shapes: Any) -> list[Any]:
        given = {"ppf": q, "isf": q}
        return [getattr(family, f)(given.get(f, x), *shapes) for f in FUNCTIONS]

    results = [np.asarray(x) for x in rlx.jit(all_of, **options)(q, *rows)]
    with mpmath.workdps(DIGITS):
        for row, values in zip(
            zip(*rows, strict=True), zip(*results[:4], strict=True), strict=True
        ):
            if all(map(np.isfinite, row)) and not (name == "beta" and row[0] in (0, 1)):
                errors = errors_of_shares(name, row, values)
                for function, error in zip(FUNCTIONS, errors, strict=False):
                    note(function, error, row)
        for function, inverse in zip(FUNCTIONS[4:], results[4:], strict=True):
            for share, x, *given in zip(q, inverse, *shapes, strict=True):
                error = error_of_quantile(name, share, x, given, upper=function == "isf")
                note(function, error, (share, x, *given))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(FAMILIES))
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--backend", default="llvm")
    parser.add_argument("--where", action="store_true")
    arguments = parser.parse_args()
    for each in arguments.names:
        for kind in DTYPES:
            table = worst(each, kind, arguments.count, backend=arguments.backend)
            print(each, kind, *(f"{f} {table[f][0]:.3g}" for f in FUNCTIONS), flush=True)
            if arguments.where:
                print(*(f"    {f} {table[f][1]}" for f in FUNCTIONS if table[f][0] > 4), sep="\n")
