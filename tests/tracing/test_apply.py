"""Calls outside of any trace: traced once per kind of call, and evaluated with the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx.numpy as rnp
from rlx.errors import IndexOutOfRangeError, MutationError, ShapeError
from rlx.tracing import apply

X = np.arange(6.0).reshape(2, 3)


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions that were traced."""
    found: list[str] = []
    run = apply._run

    def counted(body: Any, *rest: Any) -> Any:
        found.append(body.__name__)
        return run(body, *rest)

    monkeypatch.setattr(apply, "_known", {})
    monkeypatch.setattr(apply, "_run", counted)
    return found


def test_a_call_of_a_known_kind_is_not_traced_again(traces: list[str]) -> None:
    for number in range(4):
        np.testing.assert_array_equal(np.asarray(rnp.add(X, number + X)), number + 2 * X)
        total = np.asarray(rnp.sum(number * X, axis=1))
        np.testing.assert_array_equal(total, (number * X).sum(1))
    assert traces == ["add", "sum"]


def test_values_types_and_shapes_that_a_trace_sees_are_distinguished(traces: list[str]) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: rnp.add(X, 1), lambda: rnp.add(X, 1.0), lambda: rnp.add(X, True),
        lambda: rnp.add(X, 2), lambda: rnp.add(X[0], 1), lambda: rnp.add(X.astype("f4"), 1),
        lambda: rnp.add(X, np.float32(1)), lambda: rnp.add(1, X),
    ]  # fmt: skip
    for _ in range(2):
        results = [call() for call in calls]
    assert len(traces) == len(calls)
    assert [str(result.dtype) for result in results[5:7]] == ["float32", "float64"]


def test_zeros_of_both_signs_and_nan_are_distinguished(traces: list[str]) -> None:
    for _ in range(2):
        assert np.signbit(rnp.multiply(np.zeros(2), -0.0)).all()
        assert not np.signbit(rnp.multiply(np.zeros(2), 0.0)).any()
        assert np.isnan(rnp.multiply(X, float("nan"))).all()
    assert len(traces) == 3


@pytest.mark.parametrize("dtype", ["f2", "f4", "i1", "u4", "?"])
def test_results_are_the_same_the_second_time(dtype: str) -> None:
    x = X.astype(dtype)
    calls: list[Callable[[], Any]] = [
        lambda: rnp.multiply(x, x), lambda: rnp.sin(x), lambda: rnp.sum(x, axis=0),
        lambda: rnp.where(x == x, x, 0), lambda: rnp.ravel(x), lambda: rnp.zeros((2, 2), x.dtype),
        lambda: rnp.tril(x), lambda: rnp.mean(x), lambda: rnp.expm1(x),
        lambda: rnp.array_split(x, 2), lambda: rnp.shape(x), lambda: rnp.eye(3),
    ]  # fmt: skip
    for call in calls:
        first, second = call(), call()
        np.testing.assert_array_equal(first, second, strict=not isinstance(first, (list, tuple)))
        assert type(first) is type(second)


def test_what_is_kept_is_not_given_away() -> None:
    kept = [rnp.eye(3) for _ in range(3)]
    with pytest.raises(MutationError):
        kept[1].setflags(write=True)
    with pytest.raises(MutationError):
        kept[1].flags.writeable = True
    assert (rnp.eye(3) == np.eye(3)).all()


def test_faults_of_known_calls_name_the_line_of_the_call() -> None:
    index = np.array([0, 1])
    rnp.take(X, index, 0)
    with pytest.raises(IndexOutOfRangeError) as caught:
        rnp.take(X, index + 7, 0)  # this line
    assert caught.value.source is not None
    assert caught.value.source.function.startswith("test_faults_of_known_calls")
    rnp.reshape(X, (3, 2))
    with pytest.raises(ShapeError) as misshapen:
        rnp.reshape(X, (4, 2))
    assert misshapen.value.source is not None
    assert misshapen.value.source.line > caught.value.source.line
    assert misshapen.value.source.function.startswith("test_faults_of_known_calls")


def test_lists_of_numbers_become_arrays_without_a_trace(traces: list[str]) -> None:
    for items in ([1.0, 2.0], [[1, 2], [3, 4]], [True], [[1, 2.5]]):
        found = np.asarray(rnp.array(items))
        np.testing.assert_array_equal(found, np.array(items), strict=True)
    assert traces == []
    with pytest.raises(ShapeError, match="array: the lists do not form an array"):
        rnp.array([[1, 2], [3]])


@pytest.mark.parametrize("order", [1, -1])
def test_arrays_by_name_are_replayed_as_they_were_traced(order: int) -> None:
    """The second and third calls replay the first; names come in any order."""
    x, low, high = (np.array(v) for v in ([-1.0, 0.5, 3.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]))
    a, b = np.array([5.0, 7.0]), np.array([1.0, 2.0])
    bounds: dict[str, Any] = dict([("min", low), ("max", high)][::order])
    pair: dict[str, Any] = dict([("b", a), ("a", b)][::order])
    for _ in range(3):
        np.testing.assert_array_equal(rnp.clip(x, **bounds), np.clip(x, low, high))
        np.testing.assert_array_equal(rnp.tensordot(**pair, axes=0), np.tensordot(b, a, 0))
