"""Functions of the array API standard on drawn arrays: dtypes, shapes, keywords, special values.

What NumPy gives is what rlx gives, in shape, dtype and value, at once and compiled. What NumPy
refuses is not asked. A seed draws one call of each function; many run under the marker `slow`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.numpy.drawn import (
    ALL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    NUMBERS,
    REAL,
    Case,
    Draw,
    check,
    matrices,
)


def fold(
    dtypes: Sequence[str], *, ends: bool = True, several: bool = True
) -> Callable[[Draw], Case]:
    def draw(d: Draw) -> Case:
        x = d.array(dtypes, ends=ends)
        axis = d.axes(x) if several else (d.axis(x) if x.ndim and d.flag() else None)
        return [x], {"axis": axis, "keepdims": d.flag()}

    return draw


def elementwise(dtypes: Sequence[str]) -> Callable[[Draw], Case]:
    return lambda d: ([d.array(dtypes)], {})


def pair(dtypes: Sequence[str], second: Sequence[int] = ()) -> Callable[[Draw], Case]:
    """Two that broadcast, of one dtype or of one kind; the other one's entries may be given."""

    def draw(d: Draw) -> Case:
        x = d.array(dtypes)
        start = int(d.random.integers(0, x.ndim + 1))
        shape = tuple(d.one((1, extent)) for extent in x.shape[start:])
        kinds = [t for t in dtypes if np.dtype(t).kind == x.dtype.kind]
        y = d.array([x.dtype.str] if d.flag() else kinds, shape)
        if second:
            y = d.random.choice(second, shape).astype(y.dtype)
        return [x, y], {}

    return draw


def along(dtypes: Sequence[str], **how: Any) -> Callable[[Draw], Case]:
    def draw(d: Draw) -> Case:
        x = d.array(dtypes, (2, *d.shape()))
        return [x], {"axis": d.axis(x), **how}

    return draw


def running(d: Draw) -> Case:
    x = d.array(NUMBERS, ends=False)
    return [x], {"include_initial": d.flag(), **({"axis": d.axis(x)} if x.ndim > 1 else {})}


def spread(d: Draw) -> Case:
    x = d.array(FLOATS, ends=False)
    return [x], {"axis": d.axes(x), "ddof": d.one((0, 1, 0.5))}


def found_in(d: Draw) -> Case:
    x = np.sort(d.array(REAL, (int(d.random.integers(0, 9)),)))
    return [x, d.array([x.dtype.str])], {"side": d.one(("left", "right"))}


CALLS: dict[str, Callable[[Draw], Case]] = {
    **dict.fromkeys(("sum", "prod"), fold(ALL, ends=False)),
    **dict.fromkeys(("max", "min"), fold(REAL)),
    **dict.fromkeys(("argmax", "argmin"), fold(REAL, several=False)),
    **dict.fromkeys(("all", "any", "count_nonzero"), fold(ALL)),
    **dict.fromkeys(("std", "var"), spread),
    "mean": fold(FLOATS),
    **dict.fromkeys(("cumulative_sum", "cumulative_prod"), running),
    **dict.fromkeys(("sort", "argsort"), along(REAL, stable=True)),
    **dict.fromkeys(("diff", "flip", "unstack"), along(NUMBERS)),
    "roll": along(ALL, shift=3), "repeat": along(ALL, repeats=2), "searchsorted": found_in,
    **dict.fromkeys(("add", "subtract", "multiply"), pair(NUMBERS)),
    **dict.fromkeys(("equal", "not_equal", "logical_and", "logical_or", "logical_xor"), pair(ALL)),
    **dict.fromkeys(("less", "less_equal", "greater", "greater_equal"), pair(REAL)),
    **dict.fromkeys(("maximum", "minimum"), pair(REAL)), "divide": pair(FLOATS + COMPLEX),
    **dict.fromkeys(("hypot", "atan2", "copysign", "nextafter", "logaddexp"), pair(FLOATS)),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), pair(("?", *INTEGERS))),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), pair(INTEGERS, range(8))),
    **dict.fromkeys(("floor_divide", "remainder"), pair(REAL, (1, 2, 3, 5))),
    "power": pair(REAL, range(6)),
    **dict.fromkeys(("abs", "square", "conj", "real", "positive", "logical_not"),
                    elementwise(NUMBERS)),
    **dict.fromkeys(("isnan", "isinf", "isfinite", "round"), elementwise(NUMBERS)),
    **dict.fromkeys(("ceil", "floor", "trunc", "sign"), elementwise(REAL)),
    **dict.fromkeys(("sqrt", "exp", "log", "log1p", "expm1", "log2", "log10", "sin", "cos", "tan",
                     "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh",
                     "signbit", "reciprocal"), elementwise(FLOATS)),
    "negative": elementwise(("i1", "i2", "i4", "i8", *FLOATS, *COMPLEX)),
    "imag": elementwise(COMPLEX), "bitwise_invert": elementwise(("?", *INTEGERS)),
    "matmul": matrices("mk", "kn"), "vecdot": matrices("mk", "mk"), "kron": matrices("mk", "kn"),
    "matrix_transpose": matrices("mk"), "trace": matrices("mm"), "diagonal": matrices("mk"),
    **dict.fromkeys(("tril", "triu"), matrices("mk")), "outer": matrices("m", "k"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_drawn_call_is_numpys(name: str) -> None:
    assert sum(check(CALLS, name, seed) for seed in range(6)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_many_drawn_calls_are_numpys(name: str) -> None:
    assert sum(check(CALLS, name, seed) for seed in range(6, 106)) > 30
