"""Functions of the array API standard on drawn arrays: dtypes, shapes, keywords, special values.

What NumPy gives is what rlx gives, in shape, dtype and value, at once and compiled. What NumPy
refuses is not asked. A seed draws one call of each function; many run under the marker `slow`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp

Array = NDArray[Any]

INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
FLOATS, COMPLEX = ("f4", "f8"), ("c8", "c16")
REAL = INTEGERS + FLOATS
NUMBERS = REAL + COMPLEX
ALL = ("?", *NUMBERS)
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 7.0, 1e-3, 1e6)
ENDS = (np.inf, -np.inf, np.nan)
SMALL = tuple(range(-5, 6))


@dataclass
class Draw:
    """Draws arrays and keywords."""

    random: np.random.Generator

    def one(self, options: Sequence[Any]) -> Any:
        return options[int(self.random.integers(len(options)))]

    def shape(self) -> tuple[int, ...]:
        least = 0 if self.random.random() < 0.2 else 1
        rank = self.random.integers(0, 4)
        return tuple(int(extent) for extent in self.random.integers(least, 5, rank))

    def array(
        self, dtypes: Sequence[str], shape: tuple[int, ...] | None = None, *, ends: bool = True
    ) -> Array:
        dtype = np.dtype(self.one(dtypes))
        shape = self.shape() if shape is None else shape
        if dtype.kind == "b":
            return self.random.integers(0, 2, shape).astype(dtype)
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            pool = [limits.min, limits.max, limits.max // 2] if ends else []
            pool += [n for n in SMALL if n >= limits.min]
            return np.array([self.one(pool) for _ in range(int(np.prod(shape)))], dtype).reshape(
                shape
            )
        numbers = self._floats(shape, ends)
        if dtype.kind == "c":
            numbers = numbers + 1j * self.random.choice([0, 1, -1.5, 0.3], shape)
        return numbers.astype(dtype)

    def _floats(self, shape: tuple[int, ...], ends: bool) -> Array:
        chosen = self.random.choice([*SPECIAL, *(ENDS if ends else ())], shape)
        return np.where(self.random.random(shape) < 0.5, chosen, self.random.normal(size=shape))

    def axis(self, x: Array) -> int:
        return int(self.random.integers(-x.ndim, x.ndim))

    def axes(self, x: Array) -> Any:
        """None, one axis or several."""
        if x.ndim == 0 or self.random.random() < 0.3:
            return None
        if self.random.random() < 0.5:
            return self.axis(x)
        count = self.random.integers(1, x.ndim + 1)
        return tuple(int(a) for a in self.random.permutation(x.ndim)[:count])

    def flag(self) -> bool:
        return bool(self.random.random() < 0.5)


Case = tuple[list[Array], dict[str, Any]]


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


def matrices(*shapes: str) -> Callable[[Draw], Case]:
    """Arrays whose extents are named."""

    def draw(d: Draw) -> Case:
        extents = {name: int(d.random.integers(0, 4)) for shape in shapes for name in shape}
        first = d.array(NUMBERS, tuple(extents[n] for n in shapes[0]), ends=False)
        rest = [
            d.array([first.dtype.str], tuple(extents[n] for n in shape), ends=False)
            for shape in shapes[1:]
        ]
        return [first, *rest], {}

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


def check(name: str, seed: int) -> bool:
    """Compare one call; return whether NumPy has a result for it."""
    args, how = CALLS[name](Draw(np.random.default_rng([seed, *name.encode()])))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = getattr(np, name)(*args, **how)
        except Exception:  # whatever NumPy says
            return False
        calls = [getattr(rnp, name)(*args, **how)]
        if seed % 4 == 0:
            calls.append(rlx.jit(lambda *x: getattr(rnp, name)(*x, **how))(*args))
    for found in calls:
        agree(found, expected, f"{name}({args}, {how})")
    return True


def agree(found: Any, expected: Any, call: str) -> None:
    if isinstance(expected, tuple):
        assert len(found) == len(expected), call
        for one, other in zip(found, expected, strict=True):
            agree(one, other, call)
        return
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype), call
    tolerance = 1e-4 if expected.dtype in (np.float32, np.complex64) else 1e-10
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance / 100, err_msg=call)


@pytest.mark.parametrize("name", CALLS)
def test_a_drawn_call_is_numpys(name: str) -> None:
    assert sum(check(name, seed) for seed in range(6)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_many_drawn_calls_are_numpys(name: str) -> None:
    assert sum(check(name, seed) for seed in range(6, 106)) > 30
