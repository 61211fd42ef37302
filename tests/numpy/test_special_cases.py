"""The special cases that the array API standard (2024.12) states for its elementwise functions.

A row is a function and what it gives for operands; zeros are compared with their signs. Cases that
the standard leaves to an implementation are not asked here; `docs/numerics.md` has some of them.
"""

from __future__ import annotations

import cmath
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

inf, nan, pi = np.inf, np.nan, np.pi
Rows = Sequence[tuple[float, ...]]

KEPT = ((0.0, 0.0), (-0.0, -0.0))
ENDLESS = ((inf, inf), (-inf, -inf))
ROUNDED = (*KEPT, *ENDLESS, (3.0, 3.0), (-7.0, -7.0))
NO_LOG = ((-1.5, nan), (-inf, nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf))
OUTSIDE = ((1.5, nan), (-1.5, nan), (inf, nan), (-inf, nan))

ONE: dict[str, Rows] = {
    "abs": ((-0.0, 0.0), (-inf, inf), (inf, inf), (-2.0, 2.0)),
    "acos": (*OUTSIDE, (1.0, 0.0)), "acosh": ((0.5, nan), (-inf, nan), (1.0, 0.0), (inf, inf)),
    "asin": (*OUTSIDE, *KEPT), "asinh": (*KEPT, *ENDLESS),
    "atan": (*KEPT, (inf, pi / 2), (-inf, -pi / 2)),
    "atanh": (*OUTSIDE, *KEPT, (1.0, inf), (-1.0, -inf)),
    "ceil": (*ROUNDED, (-0.5, -0.0), (0.5, 1.0)), "floor": (*ROUNDED, (-0.5, -1.0), (0.5, 0.0)),
    "trunc": (*ROUNDED, (-0.5, -0.0), (0.5, 0.0), (-2.5, -2.0)),
    "round": (*ROUNDED, (-0.5, -0.0), (0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-2.5, -2.0)),
    "cos": ((0.0, 1.0), (-0.0, 1.0), (inf, nan), (-inf, nan)),
    "cosh": ((0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, inf)),
    "exp": ((0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0)),
    "expm1": (*KEPT, (inf, inf), (-inf, -1.0)),
    "log": NO_LOG, "log2": NO_LOG, "log10": NO_LOG,
    "log1p": ((-1.5, nan), (-inf, nan), (-1.0, -inf), *KEPT, (inf, inf)),
    "negative": ((0.0, -0.0), (-0.0, 0.0), (inf, -inf)), "positive": (*KEPT, *ENDLESS),
    "reciprocal": ((0.0, inf), (-0.0, -inf), (inf, 0.0), (-inf, -0.0)),
    "sign": ((-3.0, -1.0), (0.0, 0.0), (-0.0, 0.0), (inf, 1.0), (-inf, -1.0)),
    "sin": (*KEPT, (inf, nan), (-inf, nan)), "tan": (*KEPT, (inf, nan), (-inf, nan)),
    "sinh": (*KEPT, *ENDLESS), "tanh": (*KEPT, (inf, 1.0), (-inf, -1.0)),
    "sqrt": ((-1.0, nan), (-inf, nan), *KEPT, (inf, inf)), "square": ((-inf, inf), (-0.0, 0.0)),
}  # fmt: skip
LOOKED_AT: dict[str, Rows] = {  # booleans
    "isfinite": ((nan, 0), (inf, 0), (-inf, 0), (-0.0, 1), (2.0, 1)),
    "isinf": ((nan, 0), (inf, 1), (-inf, 1), (0.0, 0)), "isnan": ((nan, 1), (inf, 0), (0.0, 0)),
    "signbit": ((0.0, 0), (-0.0, 1), (inf, 0), (-inf, 1), (-2.0, 1), (2.0, 0)),
}  # fmt: skip
LOOKED_AT |= {"signbit": (*LOOKED_AT["signbit"], (nan, 0), (-nan, 1))}

TWO: dict[str, Rows] = {
    "add": ((inf, -inf, nan), (-inf, inf, nan), (inf, inf, inf), (-inf, -inf, -inf), (inf, 2, inf),
            (2, -inf, -inf), (-0.0, -0.0, -0.0), (-0.0, 0.0, 0.0), (0.0, -0.0, 0.0), (0.0, 3, 3),
            (2, -2, 0.0)),
    "subtract": ((inf, inf, nan), (-inf, -inf, nan), (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0)),
    "atan2": ((1, 0.0, pi / 2), (1, -0.0, pi / 2), (0.0, 1, 0.0), (0.0, 0.0, 0.0), (0.0, -0.0, pi),
              (0.0, -1, pi), (-0.0, 1, -0.0), (-0.0, 0.0, -0.0), (-0.0, -0.0, -pi), (-0.0, -1, -pi),
              (-1, 0.0, -pi / 2), (-1, -0.0, -pi / 2), (2, inf, 0.0), (2, -inf, pi),
              (-2, inf, -0.0), (-2, -inf, -pi), (inf, 2, pi / 2), (-inf, 2, -pi / 2),
              (inf, inf, pi / 4), (inf, -inf, 3 * pi / 4), (-inf, inf, -pi / 4),
              (-inf, -inf, -3 * pi / 4)),
    "copysign": ((1, -0.0, -1), (2, 0.0, 2), (0.0, -1, -0.0), (inf, -2, -inf)),
    "divide": ((inf, inf, nan), (-inf, inf, nan), (0.0, -0.0, nan), (0.0, 0.0, nan), (0.0, 2, 0.0),
               (-0.0, 2, -0.0), (0.0, -2, -0.0), (-0.0, -2, 0.0), (2, 0.0, inf), (2, -0.0, -inf),
               (-2, 0.0, -inf), (-2, -0.0, inf), (inf, 2, inf), (inf, -2, -inf), (-inf, 2, -inf),
               (-inf, -2, inf), (inf, 0.0, inf), (inf, -0.0, -inf), (2, inf, 0.0), (2, -inf, -0.0),
               (-2, inf, -0.0), (-2, -inf, 0.0)),
    "floor_divide": ((inf, inf, nan), (0.0, 0.0, nan), (-0.0, 0.0, nan), (0.0, 2, 0.0),
                     (-0.0, 2, -0.0), (0.0, -2, -0.0), (-0.0, -2, 0.0), (2, 0.0, inf),
                     (2, -0.0, -inf), (-2, 0.0, -inf), (-2, -0.0, inf), (2, inf, 0.0),
                     (-2, -inf, 0.0), (7, 2, 3), (-7, 2, -4)),
    "remainder": ((inf, 2, nan), (-inf, inf, nan), (0.0, 0.0, nan), (0.0, -0.0, nan), (0.0, 2, 0.0),
                  (-0.0, 2, 0.0), (0.0, -2, -0.0), (-0.0, -2, -0.0), (2, 0.0, nan), (-2, -0.0, nan),
                  (inf, 0.0, nan), (2, inf, 2), (2, -inf, -inf), (-2, inf, inf), (-2, -inf, -2),
                  (6, 3, 0.0), (-6, 3, 0.0), (6, -3, -0.0)),
    "hypot": ((inf, nan, inf), (-inf, nan, inf), (nan, -inf, inf), (2, nan, nan), (nan, 2, nan),
              (inf, 2, inf), (2, -inf, inf), (3, -4, 5)),
    "logaddexp": ((inf, 2, inf), (2, inf, inf), (nan, 2, nan), (-inf, -inf, -inf), (-inf, 2, 2)),
    "maximum": ((inf, 2, inf), (nan, 2, nan), (2, nan, nan), (nan, nan, nan), (-inf, inf, inf)),
    "minimum": ((inf, 2, 2), (nan, 2, nan), (2, nan, nan), (nan, nan, nan), (-inf, inf, -inf)),
    "multiply": ((inf, 0.0, nan), (-0.0, inf, nan), (inf, -inf, -inf), (inf, 2, inf),
                 (-inf, 2, -inf), (-2, -inf, inf), (-0.0, 2, -0.0), (-0.0, -2, 0.0)),
    "nextafter": ((nan, 1, nan), (1, nan, nan), (2, 2, 2), (-0.0, 0.0, 0.0), (0.0, -0.0, -0.0),
                  (inf, inf, inf)),
    "pow": ((2, inf, inf), (-2, -inf, 0.0), (1, inf, 1), (1, nan, 1), (nan, 0.0, 1),
            (nan, -0.0, 1), (nan, 2, nan), (0.5, inf, 0.0), (-0.5, -inf, inf), (1, 2.5, 1),
            (inf, 2, inf), (inf, -2, 0.0), (-inf, 3, -inf), (-inf, 2, inf), (-inf, 0.5, inf),
            (-inf, -3, -0.0), (-inf, -2, 0.0), (0.0, 2, 0.0), (0.0, -2, inf), (-0.0, 3, -0.0),
            (-0.0, 2, 0.0), (-0.0, 0.5, 0.0), (-0.0, -3, -inf), (-0.0, -2, inf), (-0.0, -0.5, inf),
            (-2, 0.5, nan), (-2, 3, -8)),
    "equal": ((nan, nan, 0), (inf, inf, 1), (-0.0, 0.0, 1), (inf, -inf, 0), (2, nan, 0)),
    "not_equal": ((nan, nan, 1), (inf, inf, 0), (-0.0, 0.0, 0), (inf, -inf, 1)),
    **dict.fromkeys(("less", "less_equal", "greater", "greater_equal"),
                    ((nan, 1, 0), (1, nan, 0), (nan, nan, 0))),
}  # fmt: skip
ROUNDED_DOWN = {(2.0, -inf): (-1.0, -0.0), (-2.0, inf): (-1.0, -0.0),  # either one
                (inf, 2.0): (inf, nan), (-inf, -2.0): (inf, nan)}  # fmt: skip


def calls(name: str, *columns: Any) -> Iterator[Any]:
    """What a function gives at once, compiled and in the reference interpreter."""
    function = getattr(rnp, name)
    for call in (function, rlx.jit(function), rlx.jit(function, backend="reference")):
        yield np.asarray(call(*columns))


def same(found: Any, expected: Any, what: str) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=what)
    zeros = expected == 0
    np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]), what)


@pytest.mark.whole
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted({**ONE, **TWO}))
def test_special_cases(name: str, dtype: Any) -> None:
    spoiled: Rows = ((nan, nan),) if name in ONE else ()
    rows = [*{**ONE, **TWO}[name], *spoiled]
    *operands, expected = (np.array(column, dtype) for column in zip(*rows, strict=True))
    for found in calls(name, *operands):
        if found.dtype == bool:
            np.testing.assert_array_equal(found, expected == 1)
        else:
            same(found, expected, name)


@pytest.mark.parametrize("name", sorted(LOOKED_AT))
def test_what_is_asked_about_a_number(name: str) -> None:
    numbers, expected = (np.array(column) for column in zip(*LOOKED_AT[name], strict=True))
    for found in calls(name, numbers):
        np.testing.assert_array_equal(found, expected == 1)


def test_infinite_quotients_are_one_of_those_that_are_allowed() -> None:
    for operands, allowed in ROUNDED_DOWN.items():
        for found in calls("floor_divide", *(np.float64(x) for x in operands)):
            assert any(np.array_equal(found, each, equal_nan=True) for each in allowed), operands


def test_nan_spreads_through_clip_and_folds() -> None:
    x = np.array([nan, 1.0, 5.0, inf, -inf])
    np.testing.assert_array_equal(rnp.clip(x, 0.0, 2.0), [nan, 1, 2, 2, 0])
    np.testing.assert_array_equal(rnp.clip(x, nan, 2.0), [nan] * 5)
    for name in ("sum", "prod", "mean", "std", "var", "max", "min"):
        for found in calls(name, x):
            assert np.isnan(found), name


def test_folds_of_nothing() -> None:
    nothing = np.zeros((0, 2))
    for name, expected in (("sum", 0), ("prod", 1), ("mean", nan), ("std", nan), ("var", nan)):
        for found in calls(name, nothing):
            np.testing.assert_array_equal(found, expected, name)
    assert rnp.all(nothing)
    assert not rnp.any(nothing)
    assert np.isnan(rnp.std(np.ones(1), correction=1))


PARTS = (0.0, -0.0, 0.75, -1.0, 2.0, inf, -inf, nan)
PLANE = np.array([complex(re, im) for re in PARTS for im in PARTS])
COMPLEX = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "log", "log10",
           "sin", "sinh", "sqrt", "tan", "tanh")  # fmt: skip
OF_THE_STANDARD = {  # where NumPy keeps to an older text of C
    "acosh": {"nanj": complex(nan, pi / 2), "(-0+nanj)": complex(nan, pi / 2)},
    "tanh": {"nanj": complex(0.0, nan), "(-0+nanj)": complex(-0.0, nan)},
    "tan": {"(nan+0j)": complex(nan, 0.0), "(nan-0j)": complex(nan, -0.0)},
}


def by_python(name: str, z: complex) -> complex:
    try:
        return complex(getattr(cmath, name)(z))
    except (ValueError, OverflowError):  # Python's word for an infinity or a NaN
        with np.errstate(all="ignore"):
            return complex(getattr(np, name)(np.complex128(z)))


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_special_cases_are_those_of_c(name: str) -> None:
    """The standard's cases are those of Annex G of C, as Python and NumPy have them.

    Where a part is NaN or both parts are infinite, it leaves signs of zeros and infinities open.
    """
    own = OF_THE_STANDARD.get(name, {})
    expected = np.array([own.get(str(complex(z)), by_python(name, z)) for z in PLANE])
    is_open = np.isnan(expected) | np.isnan(PLANE) | (np.isinf(PLANE.real) & np.isinf(PLANE.imag))
    for found in calls(name, PLANE):
        for part in ("real", "imag"):
            mine, theirs = (np.array(getattr(x, part)) for x in (found, expected))
            for x in (mine, theirs):
                x[is_open & (np.isinf(x) | (x == 0))] = np.abs(
                    x[is_open & (np.isinf(x) | (x == 0))]
                )
            wrong = ~np.isclose(mine, theirs, rtol=1e-12, atol=1e-14, equal_nan=True)
            wrong |= (theirs == 0) & (np.signbit(mine) != np.signbit(theirs))
            rows = zip(PLANE[wrong], found[wrong], expected[wrong], strict=True)
            assert not wrong.any(), "\n".join(f"{z}: {a}, not {b}" for z, a, b in rows)


def test_the_sign_of_a_complex_number_is_its_direction() -> None:
    tiny, huge = 1e-310, 1.5e308
    z = [0, 3 + 4j, complex(inf, 2), complex(-inf, -2), complex(5, -inf), complex(tiny, 0),
         complex(huge, huge), complex(0, -huge), complex(nan, 1), complex(inf, nan)]  # fmt: skip
    half = np.sqrt(0.5)
    bad = complex(nan, nan)
    expected = [0, 0.6 + 0.8j, 1, -1, -1j, 1, half + half * 1j, -1j, bad, bad]
    for found in calls("sign", np.array(z, np.complex128)):
        np.testing.assert_allclose(found, expected, rtol=1e-14)
    slopes = rlx.jvp(rnp.sign, (np.array(3 + 4j),), (np.array(4 - 3j),))[1]
    np.testing.assert_allclose(slopes, (4 - 3j) / 5, rtol=1e-14)  # it only turns
