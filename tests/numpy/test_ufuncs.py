"""Folds and outer forms of functions of two arrays, and of any function by `lax.reduce`."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax
from rlx.errors import DTypeError, InputError, MutationError, RlxError, ShapeError
from rlx.numpy import ufuncs
from tests.numpy.one_by_one import OneByOne
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


SIGNED = sorted({"hypot", "gcd", "lcm", "add", "subtract", "multiply", "divide", "maximum", "fmin",
                 "copysign", "arctan2", "logaddexp", "logaddexp2", "heaviside", "bitwise_and",
                 "bitwise_or", "bitwise_xor", "logical_and", "logical_or",
                 "logical_xor"})  # fmt: skip
"""What is defined of negative numbers and zeros."""


def signed(name: str, shape: tuple[int, ...] = (3, 4, 2)) -> Any:
    """Draws on both sides of 0, which a third of them are."""
    random = np.random.default_rng([ALL.index(name)])
    x = random.integers(-6, 7, shape) * random.integers(0, 3, shape).clip(0, 1)
    return x if name in OF_INTEGERS else x / 4


def both(name: str) -> tuple[Any, Any]:
    return getattr(rnp, name), OneByOne(getattr(np, name))


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


@pytest.mark.parametrize("name", SIGNED)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # divisions by 0
def test_folds_of_any_sign_are_numpys_also_of_one_element_and_of_none(name: str) -> None:
    ours, theirs = both(name)
    x = signed(name)
    for rows in (x, x[:1], x[:2]):
        same(ours.reduce(rows), theirs.reduce(rows))
        same(ours.accumulate(rows), theirs.accumulate(rows))
        same(ours.reduce(rows, axis=()), theirs.reduce(rows, axis=()))
    same(ours.reduce(x[:0], axis=()), theirs.reduce(x[:0], axis=()))
    if name not in {"subtract", "divide", "arctan2", "copysign", "heaviside", "lcm"}:  # ordered
        same(ours.reduce(x[:0], axis=(1, 2)), theirs.reduce(x[:0], axis=(1, 2)))
    same(ours.reduce(x[0, 0, 0], axis=None), theirs.reduce(x[0, 0, 0], axis=None))
    if ours.identity is not None:
        mask = np.arange(24).reshape(3, 4, 2) % 5 > 1
        same(ours.reduce(x, where=mask), theirs.reduce(x, where=mask))
        same(ours.reduce(x[:1], initial=-3), theirs.reduce(x[:1], initial=-3))


@pytest.mark.parametrize("dtype", ["u1", "u8", "i1", "?"])
def test_the_identity_of_bitwise_and_has_all_bits_of_any_dtype(dtype: str) -> None:
    x = np.array([1, 0, 1], dtype)
    for rows, mask in ((x[:0], None), (x[2:], None), (x, np.array([True, False, False]))):
        more: dict[str, Any] = {} if mask is None else {"where": mask}
        same(rnp.bitwise_and.reduce(rows, **more), np.bitwise_and.reduce(rows, **more))


@pytest.mark.parametrize("value", [-2.0, 0.0, 3.0])
def test_a_single_element_has_slopes_on_both_sides_of_zero(value: float) -> None:
    def fold(x: Any) -> Any:
        return rnp.hypot.reduce(x)

    x = np.array([value])
    assert rlx.grad(fold)(x).tolist() == [np.sign(value)]
    np.testing.assert_array_equal(rlx.hessian(fold)(x), [[0.0 if value else np.nan]])


@pytest.mark.whole
@pytest.mark.parametrize("name", FOLDS)
def test_accumulations_are_along_one_axis(name: str) -> None:
    ours, theirs = both(name)
    x = np.ones((2, 2), "i8" if name in OF_INTEGERS else "f8")
    several: list[Any] = [None, (0, 1), ()]
    for axis in several:
        with pytest.raises(ValueError, match="does not allow multiple axes"):
            theirs.accumulate(x, axis)
        with pytest.raises(ShapeError, match=f"{name}.accumulate: axis is"):
            ours.accumulate(x, axis)
    single: list[Any] = [None, (0,), (-1,)]
    for axis in single:
        same(ours.accumulate(x[0], axis), theirs.accumulate(x[0], axis))


@pytest.mark.whole
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


@pytest.mark.slow
@pytest.mark.whole
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


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "subtract"])
def test_values_are_put_in_where_a_mask_is_true(name: str) -> None:
    ours, theirs = both(name)
    x, mask = np.arange(6.0).reshape(3, 2), np.array([True, False, True])
    for index, y in ((mask, 5.0), (mask, np.ones((2, 2))), ((mask, 1), 7.0), (x > 2, np.arange(3))):
        expected = x.copy()
        theirs.at(expected, index, y)
        same(ours.at(x, index, y, inplace=False), expected)
    with pytest.raises(RlxError, match="known while tracing"):
        rlx.jit(lambda x, mask: ours.at(x, mask, 5.0, inplace=False))(x, mask)
    with pytest.raises(ShapeError, match="a mask has shape"):
        ours.at(x, np.array([True]), 5.0, inplace=False)


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


@pytest.mark.parametrize("dimensions", [(0,), (1,), (0, 2), (2, 0), ()])
def test_sums_and_maxima_over_axes(dimensions: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).standard_normal((5, 3, 7))
    found = lax.reduce(x, 2.0, lambda a, b: a + b, dimensions)
    np.testing.assert_allclose(found, 2 + x.sum(dimensions), rtol=1e-12)
    found = lax.reduce(x, -np.inf, rnp.maximum, dimensions)
    np.testing.assert_array_equal(found, x.max(dimensions) if dimensions else x)


def test_nothing_gives_the_initial_value_and_slopes_pass() -> None:
    found = lax.reduce(np.zeros((0, 2), np.float32), 3, lambda a, b: a * b, (0,))
    np.testing.assert_array_equal(found, np.array([3, 3], np.float32))
    x = np.array([2.0, 3.0, 5.0])
    slope = rlx.grad(lambda x: lax.reduce(x, 1.0, lambda a, b: a * b, (0,)))(x)
    np.testing.assert_allclose(slope, [15, 10, 6])


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", "i1", "i4", "?"])
def test_integers_are_summed_in_the_widest_of_their_kind_as_in_numpy(dtype: str) -> None:
    x = np.array([2**63, 2**63 - 7] if dtype == "u8" else [1, 1]).astype(dtype)
    for name in ("sum", "prod", "cumulative_sum", "cumulative_prod", "nansum"):
        with np.errstate(over="ignore"):
            expected = getattr(np, name)(x)
        found = getattr(rnp, name)(x)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_a_mean_of_long_integers_is_a_double() -> None:
    assert {rnp.mean(np.arange(3, dtype=d)).dtype for d in ("u8", "i8")} == {np.dtype(np.float64)}


@pytest.mark.parametrize("name", ["max", "min", "sum", "prod", "nanmax", "nanmin", "nansum"])
@pytest.mark.parametrize(
    ("dtype", "initial"),
    [("i4", 2.5), ("i4", np.float32(-1.5)), ("i4", np.array(1.5)), ("f4", 2),
     ("f4", np.float64(0.1)), ("?", 2), ("?", 0.5), ("i4", True),
     ("u1", np.int64(3)), ("f8", np.float32(0.1))],
)  # fmt: skip
def test_an_initial_value_takes_the_dtype_of_the_elements(
    name: str, dtype: str, initial: Any
) -> None:
    x = np.array([[0, 1], [1, 1]]).astype(dtype)
    fold = getattr(rnp, name)
    expected = getattr(np, name)(x, axis=0, initial=initial)
    for found in (
        fold(x, 0, initial=initial),
        rlx.jit(lambda x: fold(x, 0, initial=initial))(x),
        rlx.jit(lambda x, start: fold(x, 0, initial=start))(x, initial),
    ):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_a_mask_leaves_the_initial_value_in_the_dtype_of_the_elements() -> None:
    x, mask = np.array([[4, 5], [6, 7]]), np.array([[True, False], [True, False]])
    for name in ("max", "min", "nanmax", "nanmin"):
        expected = getattr(np, name)(x, 0, initial=2.5, where=mask)
        found = getattr(rnp, name)(x, 0, initial=2.5, where=mask)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    holes = np.array([math.nan, 3.0, math.nan])
    assert rnp.nanmax(holes, initial=2) == np.nanmax(holes, initial=2) == 3
    assert rnp.nanmin(holes[:1], initial=2) == np.nanmin(holes[:1], initial=2) == 2


@pytest.mark.parametrize(
    ("initial", "message"), [(2 + 1j, "complex"), (math.nan, "initial is nan")]
)
def test_an_initial_value_that_the_elements_cannot_be_is_a_typed_error(
    initial: Any, message: str
) -> None:
    for fold in (rnp.max, rnp.min, rnp.sum, rnp.prod):
        with pytest.raises(DTypeError, match=message):
            fold(np.array([1, 2]), initial=initial)
