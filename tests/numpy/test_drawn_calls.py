"""Functions of the array API standard on drawn arrays: dtypes, shapes, keywords, special values.

What NumPy gives is what rlx gives, in shape, dtype and value, at once and compiled. What NumPy
refuses is not asked. A seed draws one call of each function; many run under the marker `slow`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError, InputError, MutationError, RlxError, ShapeError
from tests.numpy import test_array_api, test_drawn_calls, test_drawn_matrices, test_drawn_shapes
from tests.numpy.drawn import (
    ALL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    NUMBERS,
    REAL,
    Case,
    Draw,
    agree,
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


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_drawn_calls_are_numpys(name: str) -> None:
    assert sum(check(CALLS, name, seed) for seed in range(106)) > 30


BITS = ("?", *INTEGERS)
OPERATORS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("add", "sub", "mul"), NUMBERS), "truediv": (*FLOATS, "c8", "c16"),
    "floordiv": REAL, "mod": REAL, "pow": FLOATS, "matmul": NUMBERS,
    **dict.fromkeys(("and_", "or_", "xor"), BITS),
    **dict.fromkeys(("lshift", "rshift"), INTEGERS),
    **dict.fromkeys(("lt", "le", "gt", "ge"), REAL), **dict.fromkeys(("eq", "ne"), ALL),
}  # fmt: skip
UNARY = {"neg": ("i1", "i4", "i8", *FLOATS, "c8"), "pos": NUMBERS, "invert": BITS, "abs": NUMBERS}
CHANGING = {"add": "iadd", "sub": "isub", "mul": "imul", "truediv": "itruediv", "pow": "ipow",
            "floordiv": "ifloordiv", "mod": "imod", "and_": "iand", "or_": "ior", "xor": "ixor",
            "lshift": "ilshift", "rshift": "irshift", "matmul": "imatmul"}  # fmt: skip


def operands(d: Draw, name: str) -> list[Any]:
    dtypes = OPERATORS[name]
    if name == "matmul":
        dtype = d.one(dtypes)
        return [d.array([dtype], (3, 3), ends=False) for _ in "xy"]
    x = d.array(dtypes)
    y: Any = d.array([x.dtype.str], tuple(d.one((1, n)) for n in x.shape))
    if name in ("floordiv", "mod"):
        y = d.random.choice((1, 2, 3, 5), y.shape).astype(x.dtype)
    if name in ("lshift", "rshift"):
        y = d.random.choice(range(8), y.shape).astype(x.dtype)
    if d.flag():  # a number of the array's kind, which leaves its dtype as it is
        y = {"b": True, "i": 2, "u": 3, "f": 2.5, "c": 2 - 1j}[x.dtype.kind]
    return [x, y]


def compared(function: Callable[..., Any], args: list[Any], seed: int) -> None:
    with np.errstate(all="ignore"):
        expected = function(*args)
    arrays = [x for x in args if isinstance(x, np.ndarray)]
    numbers = args[len(arrays) :]
    found = [function(*(rnp.asarray(x) for x in arrays), *numbers)]
    if seed % 3 == 0:
        found.append(rlx.jit(lambda *x: function(*x, *numbers))(*arrays))
    if numbers and function is not operator.pow:  # the number before the array
        other = np.ones(2, arrays[0].dtype) if function in DIVIDING else arrays[0]
        with np.errstate(all="ignore"):
            expected_ = function(numbers[0], other)
        agree(function(numbers[0], rnp.asarray(other)), expected_, f"{function}, number first")
    for each in found:
        agree(each, expected, f"{function}({args})")


DIVIDING = (operator.floordiv, operator.mod, operator.lshift, operator.rshift)


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_numpys(name: str) -> None:
    for seed in range(12):
        d = Draw(np.random.default_rng([seed, *name.encode()]))
        compared(getattr(operator, name), operands(d, name), seed)


@pytest.mark.parametrize("name", UNARY)
def test_an_operator_of_one_array_is_numpys(name: str) -> None:
    for seed in range(8):
        d = Draw(np.random.default_rng([seed, *name.encode()]))
        compared(getattr(operator, name), [d.array(UNARY[name])], seed)


@pytest.mark.parametrize("name", CHANGING)
def test_in_place_operators_bind_the_name_anew(name: str) -> None:
    d = Draw(np.random.default_rng([9, *name.encode()]))
    x, y = operands(d, name)
    kept = rnp.asarray(x)
    with np.errstate(all="ignore"):
        expected = getattr(operator, name)(x, y)
    agree(getattr(operator, CHANGING[name])(kept, y), expected, name)
    np.testing.assert_array_equal(kept, x)  # what others hold does not change


@pytest.mark.parametrize("index", [
    0, -1, (1, 2), slice(None), slice(2, None, -1), slice(-2, 9), (..., 1), (slice(1, 3), None),
    (None, ..., 0), (slice(3, 1), 0), (slice(None, None, 2), slice(None, None, -2)), (), ...,
])  # fmt: skip
def test_indexing_is_numpys(index: Any) -> None:
    x = np.arange(20.0).reshape(4, 5)
    agree(rnp.asarray(x)[index], x[index], str(index))
    agree(rlx.jit(lambda x: x[index])(x), x[index], str(index))


def test_masks_and_arrays_of_integers_index() -> None:
    x = np.arange(20.0).reshape(4, 5)
    rows = np.array([3, 0, -1])
    mask = x % 3 == 0
    for index in (mask, mask[:, 0], rows, (rows, rows), (slice(1, 3), rows)):
        agree(rnp.asarray(x)[index], x[index], str(index))


def test_attributes_of_an_array() -> None:
    x = rnp.asarray(np.arange(6, dtype=np.float32).reshape(1, 2, 3))
    assert (x.dtype, x.shape, x.ndim, x.size) == (np.float32, (1, 2, 3), 3, 6)
    assert x.mT.shape == (1, 3, 2)
    assert rnp.asarray(x[0]).T.shape == (3, 2)
    assert x.device == rnp.__array_namespace_info__().default_device()
    assert x.to_device("cpu") is x
    assert rlx.jit(lambda x: x.to_device(x.device) + 1)(x)[0, 0, 0] == 1
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2024.12") is rnp
    assert x.__dlpack_device__()[0] == 1
    np.testing.assert_array_equal(np.from_dlpack(x), x)


def test_an_array_of_one_element_is_a_number_of_python() -> None:
    assert (bool(rnp.asarray(2)), int(rnp.asarray(-3.5)), float(rnp.asarray(1))) == (True, -3, 1.0)
    assert complex(rnp.asarray(1 + 2j)) == 1 + 2j
    assert [10, 20, 30][rnp.asarray(1, "int8")] == 20
    with pytest.raises(TypeError):
        operator.index(rnp.asarray(1.0))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(rnp.ones(2))


X = np.ones((2, 3), np.float32)


def _any(x: Any) -> Any:
    return rnp.asarray(x)


REFUSED: dict[str, tuple[type[RlxError], Callable[[], Any]]] = {
    "an element is set": (MutationError, lambda: operator.setitem(_any(X), 0, 1)),
    "shapes do not broadcast": (ShapeError, lambda: rnp.add(X, np.ones(4, np.float32))),
    "shapes do not multiply": (ShapeError, lambda: rnp.matmul(X, X)),
    "bits of floats": (DTypeError, lambda: rnp.bitwise_and(X, X)),
    "another device": (InputError, lambda: rnp.asarray(X).to_device("gpu")),
    "an order of complex numbers": (DTypeError, lambda: rnp.less(X * 1j, X * 1j)),
    "an axis that is not there": (RlxError, lambda: rnp.sum(X, axis=2)),
    "a count that does not fit": (ShapeError, lambda: rnp.reshape(X, (4, 2))),
    "parts of unequal extent": (ShapeError, lambda: rnp.concat([X, np.ones((2, 2))], axis=0)),
    "an axis of several is squeezed": (ShapeError, lambda: rnp.squeeze(X, axis=0)),
    "no square matrix": (ShapeError, lambda: rnp.linalg.inv(X)),
    "a triangle of no square matrix": (ShapeError, lambda: rnp.linalg.cholesky(X)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_is_a_typed_error_that_says_what_helps(what: str) -> None:
    error, call = REFUSED[what]
    with pytest.raises(error):
        call()


def test_every_function_of_the_standard_is_drawn() -> None:
    drawn = {*test_drawn_calls.CALLS, *test_drawn_shapes.CALLS, *test_drawn_matrices.CALLS}
    standard = {*test_array_api.FUNCTIONS, *(f"linalg.{n}" for n in test_array_api.LINALG)}
    standard |= {f"fft.{name}" for name in test_array_api.FFT}
    assert len(standard) == 172  # 171, and the one that describes the namespace
    assert standard - drawn == {"__array_namespace_info__"}
