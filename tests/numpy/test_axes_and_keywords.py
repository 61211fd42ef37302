"""Keywords that ask for another dtype or form, and axes and bounds that are not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax
from rlx.errors import RlxError

X = np.arange(6.0).reshape(2, 3)
C = X + 1j * X[::-1]
N = np.where(X == 1, np.nan, X)
BYTES = np.full(300, 200, np.uint8)
COUNTS = np.array([1, 2])
SQUARE = np.array([[1, 2], [3, 4]])

CALLS: dict[str, Callable[[Any], Any]] = {
    "an angle in degrees": lambda np: np.angle(C, deg=True),
    "a mean of integers": lambda np: np.mean(-X, 1, dtype="int8"),
    "a sum of bools": lambda np: np.sum(X, 0, dtype=bool),
    "a product of bools": lambda np: np.prod(X, 0, dtype=bool),
    "a variance of complex numbers": lambda np: np.nanvar(C),
    "a variance of some": lambda np: np.nanvar(N, 0, keepdims=True, where=X != 2),
    "a deviation in a dtype": lambda np: np.nanstd(N, 1, "float32", ddof=1),
    "a step between integers": lambda np: np.linspace(0, 1, 50, dtype=int, retstep=True)[1],
    "open indices": lambda np: np.indices((2, 3), "uint8", sparse=True)[1],
    "a power of integers": lambda np: np.linalg.matrix_power(SQUARE, 5),
    "a power of bools": lambda np: np.linalg.matrix_power(SQUARE % 2 > 0, 3),
    "no power of bools": lambda np: np.linalg.matrix_power(SQUARE % 2 > 0, 0),
    "repeats in an array": lambda np: np.repeat(X, COUNTS, 0),
    "one number of repeats in an array": lambda np: np.repeat(X, COUNTS[:1], axis=1),
    "places in an array": lambda np: np.split(X, COUNTS, axis=1)[1],
    "columns at places": lambda np: np.hsplit(X, COUNTS)[2],
    "an inverse of integers": lambda np: np.linalg.matrix_power(SQUARE, -1),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_keywords_are_numpys(name: str) -> None:
    expected = CALLS[name](np)
    found = CALLS[name](rnp)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(rlx.jit(lambda: CALLS[name](rnp))(), expected, rtol=1e-6)


OTHERS: dict[str, tuple[Callable[[], Any], Any]] = {
    "a mean whose sum is more than its dtype holds": (
        lambda: rnp.mean(BYTES, dtype="uint8"), np.uint8(200)),
    "integers as they are": (lambda: rnp.sum(BYTES[:3], promote_integers=False), np.uint8(88)),
    "bools that are filled up": (
        lambda: rnp.extract(X[0] > 1, X[0] > 0, size=2), np.array([True, False])),
    "nothing but what is filled in": (
        lambda: rnp.compress(X[0] > 9, X[0], size=2, fill_value=np.array([7, 8])),
        np.array([7.0, 8])),
    "places that are not there": (
        lambda: rnp.flatnonzero(X[0] > 9, size=2, fill_value=np.int32(4)), np.array([4, 4])),
    "what two dtypes share": (
        lambda: rnp.intersect1d(np.array([2]), X[0], size=1), np.array([2.0])),
    "an order in bytes": (
        lambda: rnp.argsort(-X[0], dtype="uint8"), np.array([2, 1, 0], "uint8")),
    "windows of the lower side": (
        lambda: lax.reduce_window(X[0], 0.0, lax.add, (2,), padding="SAME_LOWER"),
        np.array([0.0, 1, 3])),
    "the block of a number": (lambda: lax.dynamic_slice(X[1, 2], (), ()), np.array(5.0)),
    "windows side by side": (lambda: lax.reduce_window(X[0], 0.0, lax.add, (2,)),
                             np.array([1.0, 3])),
    "halves with Python numbers": (
        lambda: lax.round(np.array([0.49999997, 8388609, -2.5, -0.3], "float32")),
        np.array([0, 8388609, -3, 0], "float32")),
    "the sign of a zero": (
        lambda: rnp.signbit(lax.round(np.array([-0.3, 0.3], "float32"))), np.array([True, False])),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_keywords_are_jaxs(name: str) -> None:
    call, expected = OTHERS[name]
    np.testing.assert_array_equal(call(), expected)
    assert call().dtype == expected.dtype


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "two names of one": (lambda: rnp.var(X, ddof=1, correction=1), "ddof is 1 and correction is 1"),
    "two cutoffs": (lambda: rnp.linalg.pinv(X, rtol=1, rcond=1), "rcond is 1 and rtol is 1"),
    "lost parts": (lambda: rnp.var(C, dtype="float32"), "imaginary parts would be lost"),
    "a new axis twice": (lambda: rnp.expand_dims(X, (0, 0)), "names an axis twice"),
    "a block that sticks out": (lambda: lax.slice(X, (0, 0), (2, 5)), "of shape"),
    "a block from the end": (lambda: lax.slice(X, (0, -1), (2, 3)), "of shape"),
    "a slice of no axis": (lambda: lax.slice_in_dim(X, 0, 1, axis=3), "axis 3 is out of range"),
    "swapped axes": (lambda: lax.broadcast_in_dim(X, (3, 2), (1, 0)), "in ascending order"),
    "padding of some axes": (lambda: lax.pad(X, 0.0, [(1, 1, 0)]), "padding_config is"),
    "a block of no axis": (lambda: lax.dynamic_slice_in_dim(X, 0, 1, 2), "axis 2 is out of range"),
    "running along no axis": (lambda: lax.cumlogsumexp(X, 2), "axis 2 is out of range"),
    "a spectrum of a number": (lambda: rnp.fft.fft(3.0), "axis -1 is out of range"),
    "a half of no axis": (lambda: rnp.fft.rfftn(3.0), "along no axis"),
    "more lengths than axes": (lambda: rnp.fft.fftn(X[0], (2, 3)), "the array has 1"),
    "more keys than arrays": (lambda: lax.sort(X, num_keys=2), "num_keys is 2, of 1"),
    "an index that is none": (lambda: lax.argmax(X, 0, "float32"), "index_dtype is float32"),
    "three cases of a bool": (lambda: lax.select_n(X > 1, X, X, X), "3 cases"),
    "less than nothing": (lambda: lax.pad(X, 0.0, [(-1, -2, 0), (0, 0, 0)]), "cut off no more"),
    "a slice that sticks out": (lambda: lax.slice_in_dim(X, 0, 9), "of an axis of 2"),
    "windows of a padding": (
        lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), padding="FULL"), "padding is 'FULL'"),
    "numbers joined": (lambda: rnp.concatenate([np.float32(1)]), "axis 0 is out of range"),
    "a place outside": (lambda: rnp.partition(X, 9), "kth is 9"),
    "a power of no square": (lambda: rnp.linalg.matrix_power(X, 0), "not square"),
    "what integers cannot hold": (
        lambda: rnp.compress(COUNTS > 9, COUNTS, size=1, fill_value=np.nan), "nan does not fit"),
    "factors of a vector": (lambda: rnp.linalg.svd(X[0]), "a matrix has two axes"),
}  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_is_refused(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(RlxError, match=message):
        call()


def test_several_arrays_get_axes_each() -> None:
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        several = getattr(rnp, name)(1.5, np.ones(3), np.ones((2, 1, 2)))
        expected = getattr(np, name)(1.5, np.ones(3), np.ones((2, 1, 2)))
        assert [x.shape for x in several] == [x.shape for x in expected]
        assert getattr(rnp, name)() == []


def test_put_along_axis_leaves_out_positions_outside() -> None:
    x, places = np.zeros((2, 3)), np.array([[1], [7]])
    found = rnp.put_along_axis(x, places, 5.0, 1, mode="drop")
    np.testing.assert_array_equal(found, [[0, 5, 0], [0, 0, 0]])
    with pytest.raises(IndexError):
        rnp.put_along_axis(x, places, 5.0, 1)


def test_distinct_elements_may_be_asked_for_in_any_order() -> None:
    np.testing.assert_array_equal(rnp.unique(np.array([3, 1, 3]), sorted=False), [1, 3])
