"""Gathering, scattering and ranking."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.errors import IndexOutOfRangeError, ShapeError
from rlx.ir import ops
from tests.ir.reference.running import f32, run, run_all

_INDEX_TYPES = [np.int32, np.int64, np.float32]


@pytest.mark.parametrize("dtype", _INDEX_TYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_takes_along_any_axis(axis: int, dtype: type[np.generic]) -> None:
    table = np.random.default_rng(3).standard_normal((4, 5, 6))
    indices = np.array([[3, 0], [1, 1]], dtype)
    expected = np.take(table, indices.astype(np.int64), axis=axis)
    np.testing.assert_array_equal(run(ops.gather, table, indices, axis=axis), expected)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather_backward_is_the_transpose_of_gather(axis: int) -> None:
    rng = np.random.default_rng(4)
    table = rng.standard_normal((4, 5, 6))
    indices = rng.integers(0, 4, (2, 3))
    dy = rng.standard_normal(np.take(table, indices, axis=axis).shape)
    back = run(ops.gather_backward, dy, indices, axis=axis, size=table.shape[axis])
    forward = run(ops.gather, table, indices, axis=axis)
    np.testing.assert_allclose((back * table).sum(), (dy * forward).sum())


def test_scatter_add_covers_every_row_of_batched_ids() -> None:
    ids, updates = np.array([[0, 2], [2, 1]], np.int32), np.ones((2, 2, 3))
    result = run(ops.scatter_add, updates, ids, size=4)
    np.testing.assert_array_equal(result, np.array([1, 1, 2, 0])[:, None] * np.ones(3))


def test_f32_coded_indices_are_truncated_toward_zero() -> None:
    table = f32(10, 20, 30)
    np.testing.assert_array_equal(run(ops.gather, table, f32(1.9, -0.5)), [20, 10])


@pytest.mark.parametrize(
    "indices",
    [np.array([0, 3], np.int32), np.array([0, -1], np.int64), f32(0, np.nan), f32(0, 1e30)],
    ids=["beyond", "negative", "nan", "huge"],
)
def test_an_index_out_of_range_is_an_error_that_names_op_and_position(
    indices: NDArray[np.generic],
) -> None:
    message = r"at position \(1,\) is .*must be in \[0, 3\)"
    with pytest.raises(IndexOutOfRangeError, match="gather: index " + message):
        run(ops.gather, np.ones((3, 2)), indices)
    with pytest.raises(IndexOutOfRangeError, match="scatter_add: index " + message):
        run(ops.scatter_add, np.ones((2, 2)), indices, size=3)
    with pytest.raises(IndexOutOfRangeError, match="gather_backward: index " + message):
        run(ops.gather_backward, np.ones((2, 2)), indices, axis=0, size=3)


def test_topk_ranks_nan_above_infinity_and_ties_by_index() -> None:
    x = np.array([[1.0, np.nan, np.inf, 1.0, -np.inf, np.nan]])
    values, indices = run_all(ops.topk, x, k=5)
    np.testing.assert_array_equal(indices, [[1, 5, 2, 0, 3]])
    np.testing.assert_array_equal(values, [[np.nan, np.nan, np.inf, 1, 1]])


def test_topk_returns_each_index_once_even_for_minus_infinity() -> None:
    _, indices = run_all(ops.topk, np.full((1, 4), -np.inf), k=4)
    np.testing.assert_array_equal(indices, [[0, 1, 2, 3]])


def test_topk_of_the_least_integer_does_not_overflow() -> None:
    values, indices = run_all(ops.topk, np.array([-128, 127, 0], np.int8), k=3)
    np.testing.assert_array_equal(values, [127, 0, -128])
    np.testing.assert_array_equal(indices, [1, 2, 0])


def test_topk_agrees_with_jax_without_ties() -> None:
    jax = pytest.importorskip("jax")
    x = np.random.default_rng(6).standard_normal((3, 17)).astype(np.float32)
    values, indices = run_all(ops.topk, x, k=6)
    theirs, their_indices = jax.lax.top_k(x, 6)
    np.testing.assert_array_equal(values, theirs)
    np.testing.assert_array_equal(indices, their_indices)


def test_topk_refuses_more_than_there_are() -> None:
    with pytest.raises(ShapeError, match=r"k is 4; it must be in \[0, 3\]"):
        run_all(ops.topk, np.ones(3), k=4)


@pytest.mark.parametrize("starts", [(0, 0), (2, 3), (-5, 1), (100, 100)])
def test_dynamic_slices_clamp_their_start_as_jax_does(starts: tuple[int, int]) -> None:
    jax = pytest.importorskip("jax")
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    at = np.array(starts, np.int32)
    # A negative start counts from the end in JAX, which clamps after that; ours clamps at once.
    clamped = np.maximum(at, 0)
    expected = jax.lax.dynamic_slice(x, clamped, (2, 3))
    np.testing.assert_array_equal(run(ops.dynamic_slice, x, at, sizes=(2, 3)), expected)
    update = -np.ones((2, 3), np.float32)
    expected = jax.lax.dynamic_update_slice(x, update, clamped)
    np.testing.assert_array_equal(run(ops.dynamic_update_slice, x, update, at), expected)
