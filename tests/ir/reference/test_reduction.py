"""Reductions, running sums and the softmax family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.errors import DTypeError
from rlx.ir import ops
from tests.ir.reference.running import f64, run


@pytest.mark.parametrize("axes", [(), (0,), (-1,), (0, 2), (2, 0, 1), (1, -2)])
def test_sums_over_any_set_of_axes_agree_with_numpy(axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 4))
    folded = tuple({axis % 3 for axis in axes})
    np.testing.assert_allclose(run(ops.reduce_sum, x, axes=axes), x.sum(axis=folded))
    np.testing.assert_allclose(
        run(ops.reduce_max, x, axes=axes, keepdims=True), x.max(axis=folded, keepdims=True)
    )


def test_folds_of_nothing_give_their_start_values() -> None:
    nothing = np.zeros((2, 0))
    start = {
        ops.reduce_sum: 0,
        ops.reduce_prod: 1,
        ops.reduce_mean: np.nan,
        ops.reduce_max: -np.inf,
        ops.reduce_min: np.inf,
    }
    for op, value in start.items():
        np.testing.assert_array_equal(run(op, nothing, axes=(1,)), [value, value], err_msg=op.name)
    none = np.zeros((1, 0), np.int8)
    assert run(ops.reduce_max, none, axes=(1,)) == -128
    assert run(ops.reduce_min, none, axes=(1,)) == 127


def test_a_nan_is_both_the_largest_and_the_smallest_element() -> None:
    x = f64(1, np.nan, np.inf)
    assert np.isnan(run(ops.reduce_max, x, axes=(0,)))
    assert np.isnan(run(ops.reduce_min, x, axes=(0,)))
    assert run(ops.argmax, x, axis=0) == 1
    assert run(ops.argmin, x, axis=0) == 1


def test_integer_sums_wrap_in_their_own_width() -> None:
    assert run(ops.reduce_sum, np.full(3, 100, np.int8), axes=(0,)) == np.int8(44)
    with pytest.raises(DTypeError, match="reduce_mean"):
        run(ops.reduce_mean, np.ones(3, np.int32), axes=(0,))


def test_cumsum_has_known_values() -> None:
    x = np.array([[1.0, 2, 3, 4], [10, 20, 30, 40]])
    np.testing.assert_array_equal(run(ops.cumsum, x, axis=1), [[1, 3, 6, 10], [10, 30, 60, 100]])
    np.testing.assert_array_equal(
        run(ops.cumsum, x, axis=1, exclusive=True), [[0, 1, 3, 6], [0, 10, 30, 60]]
    )
    np.testing.assert_array_equal(
        run(ops.cumsum, x, axis=1, exclusive=True, reverse=True), [[9, 7, 4, 0], [90, 70, 40, 0]]
    )
    np.testing.assert_array_equal(run(ops.cumsum, x, axis=0), [[1, 2, 3, 4], [11, 22, 33, 44]])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_and_its_logarithm_agree_with_scipy_on_any_axis(axis: int) -> None:
    special = pytest.importorskip("scipy.special")
    x = np.random.default_rng(2).standard_normal((3, 4, 5)) * 30
    np.testing.assert_allclose(run(ops.softmax, x, axis=axis), special.softmax(x, axis=axis))
    np.testing.assert_allclose(
        run(ops.log_softmax, x, axis=axis), special.log_softmax(x, axis=axis), atol=1e-13
    )
    np.testing.assert_allclose(
        run(ops.logsumexp, x, axes=(axis,)), special.logsumexp(x, axis=axis), atol=1e-13
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_softmax_of_a_slice_with_nan_or_infinity_is_nan(bad: float) -> None:
    x = np.array([[1, bad], [1, 2]])
    result = run(ops.softmax, x, axis=1)
    assert np.isnan(result[0]).all()
    assert np.isfinite(result[1]).all()
    assert np.isnan(run(ops.softmax, np.full(3, -np.inf), axis=0)).all()


def test_logsumexp_of_infinities_is_no_nan() -> None:
    x = np.array([[-np.inf, -np.inf], [np.inf, 0], [-np.inf, 3]])
    np.testing.assert_allclose(run(ops.logsumexp, x, axes=(1,)), [-np.inf, np.inf, 3])


@pytest.mark.parametrize("op", [ops.softmax, ops.log_softmax])
def test_softmax_of_an_empty_axis_is_empty(op: Any) -> None:
    assert run(op, np.zeros((2, 0)), axis=1).shape == (2, 0)
