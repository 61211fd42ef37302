"""Calls at the edges of what functions take: indices of any size, numbers for arrays, no axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.lax
import rlx.numpy as rnp
from rlx.errors import DTypeError, IndexOutOfRangeError, InputError, ShapeError
from rlx.ir.dtype import DType
from rlx.scipy import linalg, special, stats

X = np.arange(300.0, dtype=np.float32)
HUGE = 2**63 + 5


@pytest.mark.parametrize("index", [np.array([-1, -301, 299, 300]), np.array([-5, 7], np.int8)])
def test_take_with_mode_clip_is_numpys(index: Any) -> None:
    expected = np.take(X, index, mode="clip")
    assert np.array_equal(rnp.take(X, index, mode="clip"), expected)
    compiled = rlx.jit(lambda x, i: rnp.take(x, i, mode="clip"), backend="llvm")
    assert np.array_equal(compiled(X, index), expected)


def test_numbers_that_no_i64_holds_are_out_of_range_in_every_mode() -> None:
    x = rnp.asarray(X)
    assert x.at[HUGE].get(mode="clip") == X[-1]
    assert np.isnan(x.at[HUGE].get(mode="fill"))
    assert x.at[HUGE].get(mode="wrap") == X[HUGE % 300]
    assert np.array_equal(x.at[HUGE].set(7, mode="drop"), X)


@pytest.mark.parametrize("index", [300, np.array([0, 300]), np.array(-301)])
def test_an_index_out_of_range_of_an_array_has_the_typed_error(index: Any) -> None:
    x = rnp.asarray(X)
    with pytest.raises(IndexOutOfRangeError, match=r"out of range|must (lie|be) in"):
        x[index]


def test_segments_beyond_i64_are_the_last_for_mode_clip() -> None:
    ids = np.array([HUGE, 0, 2**64 - 1], np.uint64)
    found = rnp.segment_sum(np.array([1.0, 2.0, 4.0]), ids, 3, mode="clip")
    assert found.tolist() == [2, 0, 5]


def test_windows_beyond_i64_are_the_last_for_mode_clip() -> None:
    numbers = rlx.lax.GatherDimensionNumbers((1,), (), (0,))
    starts = np.array([[HUGE], [2**64 - 1], [0]], np.uint64)
    found = rlx.lax.gather(X, starts, numbers, (2,), mode="clip")
    assert found.tolist() == [[298, 299], [298, 299], [0, 1]]


def test_positions_that_pick_nothing_are_not_checked_as_in_numpy() -> None:
    x, nothing = X.reshape(100, 3), np.array([], int)
    assert rlx.jit(lambda x: x[nothing, 7])(x).shape == (0,)
    assert rnp.asarray(x)[nothing, 7].shape == (0,)
    traced = rlx.jit(lambda x, i: x[nothing, i])
    assert traced(x, np.array(7)).shape == (0,)


@pytest.mark.parametrize("index", [1, np.array(1), slice(1, 2)])
def test_what_is_added_at_an_index_leaves_negative_zeros_elsewhere(index: Any) -> None:
    x = np.array([-0.0, 1.0, -0.0], np.float32)
    for added in (rlx.jit(lambda x: x.at[index].add(0.0))(x), rnp.asarray(x).at[index].add(0.0)):
        assert np.array_equal(np.signbit(added), [True, False, True])


REFUSED: dict[str, Callable[[], Any]] = {
    "diag_indices_from a number": lambda: rnp.diag_indices_from(1.0),
    "diag_indices_from unequal extents": lambda: rnp.diag_indices_from(np.zeros((2, 3))),
    "tril_indices_from a vector": lambda: rnp.tril_indices_from(X),
    "triu_indices_from three axes": lambda: rnp.triu_indices_from(np.zeros((1, 2, 3))),
    "unwrap along no axis": lambda: rnp.unwrap(X, axis=4),
    "nonzero of a number": lambda: rnp.nonzero(np.array(True)),
    "where of a number": lambda: rnp.where(np.array(True)),
    "nonzero of a number, sized": lambda: rlx.jit(lambda x: rnp.nonzero(x, size=1))(np.array(1)),
    "histogramdd of points without axes": lambda: rnp.histogramdd(np.zeros((2, 0))),
    "sem of a number along an axis": lambda: stats.sem(np.float32(1)),
    "tridiagonal of a vector": lambda: rlx.lax.linalg.tridiagonal(X),
    "geqrf of a vector": lambda: rlx.lax.linalg.geqrf(X),
    "reduce_and of floats": lambda: rlx.lax.reduce_and(X, (0,)),
    "helmert of no rows": lambda: linalg.helmert(0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_is_refused_with_a_remedy(name: str) -> None:
    with pytest.raises((ShapeError, InputError, DTypeError)):
        REFUSED[name]()


@pytest.mark.parametrize("function", [rnp.log1p, rnp.expm1])
def test_functions_of_one_complex_number_are_those_of_an_array(function: Any) -> None:
    z = np.complex64(0.25 - 0.5j)
    assert function(z) == function(np.array([z]))[0]


def test_the_derivative_of_a_sort_has_rows_of_no_elements() -> None:
    n = rlx.Dim("n", min=0, max=5)
    program = rlx.jit(lambda x: rlx.jvp(rnp.sort, (x,), (x * 2,)))
    run = rlx.compile(program.graph(rlx.TensorType(DType.F32, (3, n))))
    for extent in (0, 1, 5):
        x = np.random.default_rng(extent).normal(size=(3, extent)).astype(np.float32)
        found, moved = run(x)
        assert np.array_equal(found, np.sort(x))
        assert np.array_equal(moved, np.sort(x) * 2)


@pytest.mark.parametrize("backend", ["reference", "llvm", "c"])
def test_segments_of_no_elements_check_no_index(backend: str) -> None:
    f = rlx.jit(lambda x, i: rnp.segment_sum(x, i, num_segments=2), backend=backend)
    found = f(np.zeros((3, 0), np.uint32), np.array([3, 2, -1], np.int32))
    assert np.asarray(found).shape == (2, 0)


def test_exp1_of_a_bool_is_that_of_a_float() -> None:
    found = rlx.jit(special.exp1)(np.array(True))
    np.testing.assert_allclose(found, special.exp1(np.float32(1)), rtol=1e-6)
