"""Folds and outer forms of functions of two arrays: values are NumPy's, dtypes JAX's."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError, MutationError, RlxError, ShapeError
from rlx.numpy import ufuncs
from tests.numpy.test_edges import same

ALL = sorted(name for name, f in vars(ufuncs).items() if hasattr(f, "outer"))
FOLDS = [name for name in ALL if hasattr(getattr(rnp, name), "reduce")]
OF_INTEGERS = {"bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm", "left_shift",
               "right_shift"}  # fmt: skip
OF_BOTH = {"add", "multiply", "subtract", "maximum", "minimum", "logical_and", "logical_or",
           "logical_xor", "floor_divide", "remainder"}  # fmt: skip
CASES = [(name, "i8") for name in FOLDS if name in OF_INTEGERS | OF_BOTH]
CASES += [(name, "f8") for name in FOLDS if name not in OF_INTEGERS]


def drawn(name: str, dtype: str, shape: tuple[int, ...] = (3, 4, 2)) -> Any:
    random = np.random.default_rng([ALL.index(name), len(dtype)])
    if dtype == "i8":
        return random.integers(1, 5, shape)
    return np.round(random.uniform(0.3, 2.5, shape), 3)


def both(name: str) -> tuple[Any, Any]:
    return getattr(rnp, name), getattr(np, name)


@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.parametrize("jitted", [False, True])
def test_folds_are_numpys(name: str, dtype: str, jitted: bool) -> None:
    ours, theirs = both(name)
    x = drawn(name, dtype)
    for axis in (0, 1, -1):
        for keepdims in (False, True):
            fold = functools.partial(ours.reduce, axis=axis, keepdims=keepdims)
            same((rlx.jit(fold) if jitted else fold)(x), theirs.reduce(x, axis, keepdims=keepdims))
        run = functools.partial(ours.accumulate, axis=axis)
        same((rlx.jit(run) if jitted else run)(x), theirs.accumulate(x, axis))
    same(ours.reduce(x[:, 0, 0]), theirs.reduce(x[:, 0, 0]))
    same(ours.reduce(x[:1]), theirs.reduce(x[:1]))
    same(ours.accumulate(x[:1]), theirs.accumulate(x[:1]))


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_folds_begin_with_what_is_given_and_leave_out_what_is_masked(name: str, dtype: str) -> None:
    ours, theirs = both(name)
    x = drawn(name, dtype)
    mask = np.arange(24).reshape(3, 4, 2) % 3 > 0
    same(ours.reduce(x, initial=2), theirs.reduce(x, initial=2))
    same(ours.reduce(x, 1, initial=2, where=mask), theirs.reduce(x, 1, initial=2, where=mask))
    same(ours.reduce(x[:0], initial=2), theirs.reduce(x[:0], initial=2))
    if ours.identity is None:
        with pytest.raises(InputError, match="identity"):
            ours.reduce(x, where=mask)
        with pytest.raises(ShapeError):
            ours.reduce(x[:0])
    else:
        assert ours.identity == theirs.identity
        same(ours.reduce(x, where=mask), theirs.reduce(x, where=mask))
        same(ours.reduce(x[:0]), theirs.reduce(x[:0]))


@pytest.mark.parametrize(
    "name", ["add", "multiply", "maximum", "logical_xor", "hypot", "logaddexp"]
)
def test_several_axes_fold_as_one(name: str) -> None:
    ours, theirs = both(name)
    x = drawn(name, "f8")
    same(ours.reduce(x, (0, 2)), theirs.reduce(x, (0, 2)))
    same(ours.reduce(x, (2, 0), keepdims=True), theirs.reduce(x, (2, 0), keepdims=True))
    same(ours.reduce(x, None), theirs.reduce(x, None))


@pytest.mark.parametrize("name", ALL)
def test_outer_pairs_all_elements(name: str) -> None:
    ours, theirs = both(name)
    dtype = "i8" if name in OF_INTEGERS else "f8"
    for shapes in [((3,), (4,)), ((2, 3), (2,)), ((), (3,)), ((2,), ()), ((0,), (2,))]:
        x, y = (drawn(name, dtype, shape) for shape in shapes)
        found = ours.outer(x, y)
        assert found.shape == shapes[0] + shapes[1]
        same(found, theirs.outer(x, y))
        same(rlx.jit(ours.outer)(x, y), theirs.outer(x, y))


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_values_are_put_in_one_after_the_other(name: str, dtype: str) -> None:
    if name in {"logical_and", "logical_or", "logical_xor"}:
        dtype = "?"
    if dtype == "i8" and name in {"divide", "float_power"}:
        return
    ours, theirs = both(name)
    x = drawn(name, dtype if dtype != "?" else "i8", (6,)).astype(dtype)
    y = drawn(name, dtype if dtype != "?" else "i8", (4,)).astype(dtype)
    places = np.array([1, 4, 1, 5])
    expected = x.copy()
    theirs.at(expected, places, y)
    same(ours.at(x, places, y, inplace=False), expected)
    same(rlx.jit(lambda x, i, y: ours.at(x, i, y, inplace=False))(x, places, y), expected)


def test_dtypes_are_those_that_are_asked_for() -> None:
    x = np.arange(1, 7, dtype=np.int8).reshape(2, 3)
    assert rnp.add.reduce(x).dtype == np.add.reduce(x).dtype == np.int64
    assert rnp.add.reduce(x, dtype=np.float32).dtype == np.float32
    assert rnp.maximum.reduce(x).dtype == np.int8
    assert rnp.maximum.accumulate(x, dtype=np.float64).dtype == np.float64
    assert rnp.subtract.reduce(x, dtype=np.float32).dtype == np.float32
    same(rnp.divide.reduce(x, 1), np.divide.reduce(x.astype(float), 1))
    assert rnp.logical_and.reduce(x).dtype == np.bool_


def test_folds_have_derivatives_and_are_mapped() -> None:
    x = drawn("hypot", "f8", (5, 3))
    slopes = rlx.grad(lambda x: rnp.hypot.reduce(x, None))(x)
    np.testing.assert_allclose(slopes, x / np.sqrt((x * x).sum()), rtol=1e-12)
    mapped = rlx.vmap(rnp.subtract.accumulate)(x)
    np.testing.assert_allclose(mapped, np.subtract.accumulate(x, 1), rtol=1e-12)


def test_arrays_are_values() -> None:
    x = np.ones(3)
    with pytest.raises(MutationError, match="inplace=False"):
        rnp.add.at(x, 0, 1.0)
    for call in (rnp.add.reduce, rnp.add.accumulate):
        with pytest.raises(MutationError, match="out="):
            call(x, out=x)


def test_a_wrong_axis_names_the_method() -> None:
    with pytest.raises(RlxError, match="axis") as caught:
        rnp.subtract.reduce(np.ones(3), axis=1)
    assert "subtract.reduce" in str(caught.value)
