"""The array object of the array API standard: its operators on drawn arrays, and its methods.

Results are NumPy's, at once and compiled; with numbers of Python, too. And every function of the
standard has a row in one of the tables of drawn calls.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError, InputError, MutationError, RlxError, ShapeError
from tests.numpy import test_array_api, test_drawn_calls, test_drawn_matrices, test_drawn_shapes
from tests.numpy.drawn import ALL, FLOATS, INTEGERS, NUMBERS, REAL, Draw, agree

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
