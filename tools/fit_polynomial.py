"""Fit the polynomials of the math library: minimax by Remez exchange, in high precision.

    python tools/fit_polynomial.py > rlx/codegen/loops/math/coefficients.py

Needs mpmath. Every fit names a function, the powers that are free, an interval and a weight:
the error times the weight is leveled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np

mp.mp.dps = 60
Real = mp.mpf


@dataclass(frozen=True)
class Fit:
    """`function(x)` as a polynomial of `terms` coefficients in x over [low, high]."""

    name: str
    function: Callable[[Real], Real]
    low: float
    high: float
    terms: dict[str, int]
    weight: Callable[[Real], Real] = lambda _: mp.mpf(1)


def remez(
    function: Callable[[Real], Real],
    powers: list[int],
    low: Real,
    high: Real,
    weight: Callable[[Real], Real],
) -> tuple[list[Real], Real]:
    """Return the coefficients of `powers` and the largest weighted error."""
    count = len(powers) + 1
    nodes = [
        (low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / (count - 1)) for i in range(count)
    ]
    grid = [low + (high - low) * (1 - mp.cos(mp.pi * i / 800)) / 2 for i in range(801)]
    values = [(x, function(x), weight(x)) for x in grid]
    coefficients: list[Real] = []
    level = mp.mpf(0)
    for _ in range(12):
        system = mp.matrix(count, count)
        right = mp.matrix(count, 1)
        for row, x in enumerate(nodes):
            for column, power in enumerate(powers):
                system[row, column] = x**power
            system[row, count - 1] = (-1) ** row / weight(x)
            right[row] = function(x)
        solution = mp.lu_solve(system, right)
        coefficients = list(solution[: count - 1])
        errors = [
            (x, w * (y - mp.fsum(c * x**p for c, p in zip(coefficients, powers, strict=True))))
            for x, y, w in values
        ]
        level = max(abs(error) for _, error in errors)
        extremes = alternating_extremes(errors)
        if len(extremes) < count:
            break
        while len(extremes) > count:
            extremes.pop(0 if abs(extremes[0][1]) < abs(extremes[-1][1]) else -1)
        nodes = [x for x, _ in extremes]
    return coefficients, level


def alternating_extremes(errors: list[tuple[Real, Real]]) -> list[tuple[Real, Real]]:
    """The largest error of each run of one sign."""
    extremes: list[tuple[Real, Real]] = []
    for point in errors:
        if extremes and (extremes[-1][1] > 0) == (point[1] > 0):
            if abs(point[1]) > abs(extremes[-1][1]):
                extremes[-1] = point
        else:
            extremes.append(point)
    return extremes


def rounded(value: Real, prim: str) -> Real:
    return mp.mpf(float(np.float32(float(value)) if prim == "f32" else float(value)))


def fit(spec: Fit, prim: str) -> tuple[list[Real], Real]:
    low, high = mp.mpf(spec.low), mp.mpf(spec.high)
    powers = list(range(spec.terms[prim]))
    coefficients, level = remez(spec.function, powers, low, high, spec.weight)
    return [rounded(c, prim) for c in coefficients], level


def odd(function: Callable[[Real], Real]) -> Callable[[Real], Real]:
    """`(f(x) - x) / x**3` as a function of y = x**2."""

    def tail(y: Real) -> Real:
        with mp.workdps(120):
            x = mp.sqrt(y) if y > mp.mpf(10) ** -30 else mp.mpf(10) ** -15
            return (function(x) - x) / x**3

    return tail


def near_zero(function: Callable[[Real], Real]) -> Callable[[Real], Real]:
    """Avoid 0/0 at the origin."""

    def shifted(x: Real) -> Real:
        with mp.workdps(140):
            return function(x if abs(x) > mp.mpf(10) ** -30 else mp.mpf(10) ** -30)

    return shifted


def log_erfc(t: Real) -> Real:
    return mp.log(mp.erfc(t + ERF_CENTER))


def erfc_scaled(low_center: float) -> Callable[[Real], Real]:
    """`(1 + 2 z) exp(z**2) erfc(z)` by t = (z - c) / (z + c), which maps [0, inf) to [-1, 1)."""

    def scaled(t: Real) -> Real:
        z = low_center * (1 + t) / (1 - t)
        return (1 + 2 * z) * mp.exp(z * z) * mp.erfc(z)

    return scaled


def between(center: float, z: float) -> float:
    return (z - center) / (z + center)


ERF_CENTER = mp.mpf(1)
LN2 = mp.log(2)
SQRT2 = mp.sqrt(2)
PI4 = mp.pi / 4 + mp.mpf("0.0001")
S_MAX = (SQRT2 - 1) / (SQRT2 + 1)

FITS = [
    Fit(
        "EXP",
        near_zero(lambda r: (mp.exp(r) - 1 - r) / r**2),
        -LN2,
        LN2,
        {"f32": 6, "f64": 12},
        lambda r: (r**2 + 0.05) / mp.exp(r),
    ),
    Fit(
        "EXP2",
        near_zero(lambda r: (mp.power(2, r) - 1) / r),
        -0.5,
        0.5,
        {"f32": 6, "f64": 11},
        lambda r: (abs(r) + 0.1) / mp.power(2, r),
    ),
    Fit(
        "EXPM1",
        near_zero(lambda r: (mp.exp(r) - 1 - r) / r**2),
        -LN2 / 2,
        LN2 / 2,
        {"f32": 5, "f64": 10},
        lambda r: abs(r) + 0.05,
    ),
    Fit(
        "LOG_F32",
        near_zero(lambda f: (mp.log(1 + f) - f + f**2 / 2) / f**3),
        1 / SQRT2 - 1,
        SQRT2 - 1,
        {"f32": 8},
        lambda f: f**2 + 0.02,
    ),
    Fit(
        "LOG_F64",
        near_zero(lambda y: (mp.atanh(mp.sqrt(y)) / mp.sqrt(y) - 1) * 2 / y),
        0,
        S_MAX**2,
        {"f64": 7},
    ),
    Fit("TANH", odd(mp.tanh), 0, 0.625**2, {"f32": 5, "f64": 11}),
    Fit("SINH", odd(mp.sinh), 0, 1, {"f32": 4, "f64": 7}),
    Fit("ATANH", odd(mp.atanh), 0, 0.25, {"f32": 6, "f64": 13}),
    Fit("ASINH", odd(mp.asinh), 0, 0.25, {"f32": 7, "f64": 13}),
    Fit(
        "ERF_SMALL",
        near_zero(lambda y: mp.erf(mp.sqrt(y)) / mp.sqrt(y) - 1),
        0,
        1,
        {"f32": 7, "f64": 13},
    ),
    Fit(
        "ERFC_LOG",
        log_erfc,
        1 - ERF_CENTER,
        mp.mpf("3.95") - ERF_CENTER,
        {"f32": 7},
        lambda t: mp.erfc(t + ERF_CENTER),
    ),
    Fit(
        "ERFC_LOG",
        log_erfc,
        1 - ERF_CENTER,
        mp.mpf(6) - ERF_CENTER,
        {"f64": 20},
        lambda t: mp.erfc(t + ERF_CENTER),
    ),
    Fit(
        "ERFC_SCALED",
        erfc_scaled(2.0),
        -1.0,
        between(2.0, 10.2),
        {"f32": 11},
        lambda t: 1 / erfc_scaled(2.0)(t),
    ),
    Fit(
        "ERFC_SCALED",
        erfc_scaled(3.75),
        -1.0,
        between(3.75, 27.5),
        {"f64": 24},
        lambda t: 1 / erfc_scaled(3.75)(t),
    ),
    Fit("SIN", odd(mp.sin), 0, PI4**2, {"f32": 3, "f64": 6}),
    Fit(
        "COS",
        near_zero(lambda y: (mp.cos(mp.sqrt(y)) - 1 + y / 2) / y**2),
        0,
        PI4**2,
        {"f32": 3, "f64": 6},
        lambda y: y + 0.1,
    ),
    Fit("TAN", odd(mp.tan), 0, PI4**2, {"f32": 7, "f64": 15}),
    Fit("ASIN", odd(mp.asin), 0, 0.25, {"f32": 5, "f64": 12}),
    Fit("ATAN", odd(mp.atan), 0, 1, {"f32": 9, "f64": 20}),
    Fit(
        "POW_LOG2",
        near_zero(lambda y: mp.atanh(mp.sqrt(y)) / mp.sqrt(y) * 2 / LN2),
        0,
        S_MAX**2,
        {"f64": 6},
    ),
    Fit(
        "POW_EXP2",
        near_zero(lambda r: (mp.power(2, r) - 1) / r),
        -0.5,
        0.5,
        {"f64": 7},
        lambda r: abs(r) + 0.1,
    ),
    Fit(
        "POW_LOG",
        near_zero(lambda y: (mp.atanh(mp.sqrt(y)) / mp.sqrt(y) - 1 - y / 3) / y**2),
        0,
        S_MAX**2,
        {"f64": 8},
    ),
]

HEADER = '''"""Coefficients of the math library, lowest power first, by `tools/fit_polynomial.py`.

The number above each is its largest weighted error, as a power of two.
"""

from rlx.codegen.loops.nodes import Prim

Coefficients = dict[Prim, tuple[float, ...]]
'''


def main() -> None:
    print(HEADER)
    tables: dict[str, list[str]] = {}
    for spec in FITS:
        for prim in spec.terms:
            coefficients, level = fit(spec, prim)
            lines = [f"    # 2**{float(mp.log(level, 2)):.1f}", f"    Prim.{prim.upper()}: ("]
            lines += [f"        {float(c)!r}," for c in coefficients]
            tables.setdefault(spec.name, []).append("\n".join([*lines, "    ),"]))
    for name, entries in tables.items():
        print(f"{name}: Coefficients = {{\n" + "\n".join(entries) + "\n}")


if __name__ == "__main__":
    main()
