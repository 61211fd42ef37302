"""Statistics of integers that f32 does not hold: computed in f64, rounded once, in every way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
import rlx.scipy.special as special

INTEGERS: dict[str, Any] = {
    "near both ends of i32": np.array([2**31 - 1, 2**31 - 2, -(2**31), -(2**31) + 44], np.int32),
    "near the end of u32": np.array([2**32 - 1, 2**32 - 3, 2**32 - 8], np.uint32),
    "bytes, whose sum is none": np.arange(256, dtype=np.uint8),
    "i64": np.array([2**40 + 1, 2**40 + 5, -(2**41)], np.int64),
}
STATISTICS = ["mean", "average", "var", "std", "median", "nanmean", "nanvar"]


def ways(f: Callable[..., Any]) -> list[Callable[..., Any]]:
    return [f, *(rlx.jit(f, backend=backend) for backend in ("c", "llvm", "reference"))]


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("which", INTEGERS)
def test_no_digit_of_integers_is_lost_on_the_way(name: str, which: str) -> None:
    x = INTEGERS[which]
    expected = getattr(np, name)(x)
    for run in ways(getattr(rnp, name)):
        found = run(x)
        assert found.dtype == (np.float64 if x.dtype.itemsize == 8 else np.float32)
        np.testing.assert_allclose(found, expected, rtol=2e-7 if found.dtype == "f4" else 1e-15)


def test_quantiles_of_large_integers_are_between_them() -> None:
    x = np.array([2**30, 2**30 + 64, -(2**30)], np.int32)
    for run in ways(lambda x: rnp.quantile(x, np.array([0.25, 0.5, 0.75]))):
        np.testing.assert_array_equal(run(x), np.quantile(x.astype("f8"), [0.25, 0.5, 0.75]))


def test_a_mean_along_an_axis_and_of_chosen_elements() -> None:
    x = np.stack([INTEGERS["near both ends of i32"]] * 2)
    chosen = np.array([True, True, True, False])
    for run in ways(lambda x: (rnp.mean(x, axis=0), rnp.mean(x, axis=1, where=chosen))):
        found = run(x)
        np.testing.assert_array_equal(found[0], x[0].astype(np.float32))
        np.testing.assert_array_equal(found[1], np.mean(x[:, :3], 1).astype(np.float32))


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "hyp2f1"])
def test_functions_with_rules_take_integers(name: str) -> None:
    scipy = pytest.importorskip("scipy.special")
    x = [np.array([1, 2, 3], np.int32), np.array([2, 3, 1], np.int32)]
    if name == "hyp2f1":
        x += [np.array([2, 3, 5], np.int32), np.array([0, -1, -2], np.int32)]
    for run in ways(getattr(special, name)):
        found = run(*x)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, getattr(scipy, name)(*x), rtol=2e-6)


ZEROS = [[-0.0, 0.0, -0.0, 1, -0.0], [0.0, -0.0, 0.0, -1, -0.0], [np.nan, 0, -0.0], [2, -0.0, 0.0]]


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_extrema_keep_the_first_zero(name: str, dtype: str, reverse: bool) -> None:
    function = getattr(rlx.lax, name)
    for numbers in ZEROS:
        x = np.array(numbers, dtype)
        order = list(x[::-1] if reverse else x)
        expected = [order[0]]
        for each in order[1:]:
            best = expected[-1]
            better = each > best if name == "cummax" else each < best
            expected.append(each if better or (np.isnan(each) and not np.isnan(best)) else best)
        wanted = np.array(expected[::-1] if reverse else expected, dtype)
        for run in ways(lambda x: function(x, reverse=reverse)):
            found = np.asarray(run(x))
            np.testing.assert_array_equal(found, wanted)
            number = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(wanted[number]))


@pytest.mark.parametrize("dtype", ["i4", "u1", "i8", "u8"])
def test_a_shift_may_be_traced(dtype: str) -> None:
    x = np.arange(10.0).reshape(2, 5)
    for shift in (0, 2, 7, -1, -12) if dtype[0] == "i" else (0, 2, 255):
        for axis in (None, 1, 0):
            for run in ways(lambda x, s, axis=axis: rnp.roll(x, s, axis)):
                found = run(x, np.array(shift, dtype))
                np.testing.assert_array_equal(found, np.roll(x, shift, axis))
    shifts = np.array([1, 3], dtype)
    found = rlx.jit(lambda x, s: rnp.roll(x, s, (0, 1)))(x, shifts)
    np.testing.assert_array_equal(found, np.roll(x, (1, 3), (0, 1)))
    rows = rlx.vmap(rnp.roll)(x, shifts)
    np.testing.assert_array_equal(rows, [np.roll(x[0], 1), np.roll(x[1], 3)])


def test_a_gradient_through_a_traced_shift_is_shifted_back() -> None:
    weights = np.arange(4.0)
    slope = rlx.jit(rlx.grad(lambda x, s: rnp.sum(rnp.roll(x, s) * weights)))(np.ones(4), 1)
    np.testing.assert_array_equal(slope, np.roll(weights, -1))


def test_a_shift_that_is_no_integer_is_an_error() -> None:
    with pytest.raises(rlx.errors.DTypeError, match="shift has dtype f64"):
        rlx.jit(rnp.roll)(np.ones(3), np.float64(1))
