"""`rlx.Array`: immutable, with NumPy's protocols."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy  # attaches operators and methods
from rlx.errors import MutationError
from rlx.runtime.arrays import WeakArray, frozen, plain, unshared
from rlx.runtime.eager_gateway import LOOK_EVERY
from rlx.runtime.gateway import find_gateway

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)
ARRAY = rlx.numpy.array(X)


def changes() -> dict[str, Callable[[Any], Any]]:
    def item(x: Any) -> None:
        x[0] = 1.0

    def shape(x: Any) -> None:
        x.shape = (6,)

    def out(x: Any) -> None:
        np.add(X, X, out=x)

    return {
        "item": item,
        "shape": shape,
        "out": out,
        "setflags": lambda x: x.setflags(write=True),
        "resize": lambda x: x.resize(9),
        "fill": lambda x: x.fill(0),
        "put": lambda x: x.put([0], [1]),
    }


@pytest.mark.parametrize("change", changes().values(), ids=changes())
def test_an_array_cannot_be_changed(change: Callable[[Any], Any]) -> None:
    x = frozen(X.copy())
    with pytest.raises(ValueError):  # noqa: PT011  NumPy's words or ours
        change(x)
    assert x.shape == X.shape
    assert np.array_equal(np.asarray(x), X)


def test_the_error_of_an_assignment_says_what_to_write() -> None:
    with pytest.raises(MutationError, match=r"x\.at\[index\]\.set"):
        frozen(X.copy())[0] = 1


def test_numpy_functions_see_a_plain_array_over_the_same_memory() -> None:
    x = frozen(X.copy())
    assert type(np.asarray(x)) is np.ndarray
    assert np.shares_memory(np.asarray(x), x)
    for made in (np.sin(x), np.concatenate([x, x]), np.where(x > 2, x, 0), np.array(x)):
        assert type(made) is np.ndarray
    assert np.array(x).flags.writeable
    assert type(plain({"a": [x, (x, 1)]})["a"][1][0]) is np.ndarray


@pytest.mark.parametrize("weak", [False, True])
def test_pickles_and_copies_are_arrays_of_the_same_kind(weak: bool) -> None:
    x = frozen(X.copy(), weak)
    copies = [pickle.loads(pickle.dumps(x, p)) for p in range(2, pickle.HIGHEST_PROTOCOL + 1)]
    for each in (*copies, copy.copy(x), copy.deepcopy(x)):
        assert type(each) is type(x)
        assert not each.flags.writeable
        assert np.array_equal(np.asarray(each), X)


def test_dlpack_shares_memory_both_ways() -> None:
    torch = pytest.importorskip("torch")
    x = frozen(X.copy())
    given = torch.from_dlpack(x)
    assert given.data_ptr() == x.__array_interface__["data"][0]
    assert not np.from_dlpack(x).flags.writeable
    back = rlx.numpy.from_dlpack(given)
    assert isinstance(back, rlx.Array)
    assert back.__array_interface__["data"][0] == given.data_ptr()


def test_texts_name_the_class_and_the_type() -> None:
    assert repr(frozen(np.arange(2))) == "Array([0, 1], dtype=int64)"
    assert repr(frozen(np.array(1.5), weak=True)) == "Array(1.5, dtype=float64, weak_type=True)"
    assert str(frozen(np.arange(2))) == "[0 1]"
    assert f"{frozen(np.array(2.5)):.2f}" == "2.50"


def test_numbers_are_had_from_arrays_of_one() -> None:
    x = frozen(np.array(3))
    assert (float(x), int(x), bool(x), [0, 1, 2, 3][x], x.item()) == (3.0, 3, True, 3, 3)
    assert x.block_until_ready() is x
    assert not x.weak_type
    assert frozen(np.array(3), weak=True).weak_type


def test_results_in_memory_of_others_are_copied() -> None:
    x, fixed = X.copy(), frozen(X.copy())
    view, own = unshared([x[0], X + 1], [x])
    assert not np.shares_memory(view, x)
    assert own.base is None
    (kept,) = unshared([np.asarray(fixed)], [fixed])
    assert np.shares_memory(kept, fixed)


def test_a_weak_array_stays_weak_in_its_views() -> None:
    x = frozen(X.copy(), weak=True)
    assert isinstance(x[0], WeakArray)
    assert isinstance(x.T, WeakArray)


def test_masked_arrays_take_it_for_an_array_of_numpy_s() -> None:
    """Plots are drawn from masked arrays."""
    x = rlx.jit(lambda x: x * 2)(np.array([1.0, np.nan, 3.0]))
    masked = np.ma.masked_invalid(x)
    assert type(masked) is np.ma.MaskedArray
    assert masked.mask.tolist() == [False, True, False]
    assert masked.max() == 6
    assert type(masked.data) is np.ndarray
    assert np.ma.ravel(x).shape == (3,)
    assert type(x.view(np.ma.MaskedArray)) is np.ma.MaskedArray
    assert not np.ma.asarray(x).data.flags.writeable


def calls_of(run: Callable[[], Any]) -> int:
    """Count the calls of functions, Python's and others, after some that fill caches and load C."""
    find_gateway("eager_gateway", wait=True)
    for _ in range(2 * LOOK_EVERY):
        run()
    count = 0

    def counted(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    ("run", "most"),
    [
        (lambda: rlx.numpy.array([1.0, 2.0, 3.0]), 40),
        (lambda: rlx.numpy.array(X), 40),
        (lambda: ARRAY + ARRAY, 80),
        (lambda: ARRAY * 2.0, 80),
    ],
    ids=["list", "array", "sum", "scaled"],
)
def test_arrays_and_their_sums_take_few_calls(run: Callable[[], Any], most: int) -> None:
    """Outside `jit`, where times are too short to test: hundreds of calls were 27 us and more."""
    assert calls_of(run) <= most
