"""`lax.reduce`: any associative function over axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax
from rlx.errors import DTypeError


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
