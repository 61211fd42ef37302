"""`x.at[i]` with arrays of indices: order, dtype, known while tracing or not, no positions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError, IndexOutOfRangeError, ShapeError
from rlx.tracing import apply

RANDOM = np.random.default_rng(5)
X = RANDOM.standard_normal((5, 4))
ROWS = np.array([0, 2, 2, 4, 0])
COLUMNS = np.array([3, 1, 1, 0, 3])

INDICES: dict[str, tuple[Any, ...]] = {
    "rows": (ROWS,),
    "negative rows": (ROWS - 5,),
    "elements": (ROWS, COLUMNS),
    "columns": (slice(None), COLUMNS),
    "a number and columns": (2, COLUMNS),
    "parts of rows": (ROWS, slice(1, 3)),
    "one row": (np.array([3]),),
    "no rows": (np.zeros(0, np.int64),),
}

CHANGES: dict[str, Callable[[float, float], float]] = {
    "set": lambda _, v: v,
    "add": lambda x, v: x + v,
    "multiply": lambda x, v: x * v,
    "divide": lambda x, v: x / v,
    "min": min,
    "max": max,
}


def in_turn(x: Any, index: Any, values: Any, change: Callable[[float, float], float]) -> Any:
    """What a loop over the picked elements does."""
    flat = x.ravel().copy()
    places = np.arange(x.size).reshape(x.shape)[index]
    for place, value in zip(places.ravel(), values.ravel(), strict=True):
        flat[place] = change(flat[place], value)
    return flat.reshape(x.shape)


def values_for(index: Any) -> Any:
    return 1.5 + RANDOM.random(X[index].shape)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", INDICES)
def test_updates_are_what_a_loop_does(name: str, change: str) -> None:
    index = INDICES[name]
    values = values_for(index)
    expected = in_turn(X, index, values, CHANGES[change])
    known = rlx.jit(lambda x, v: getattr(x.at[index], change)(v))(X, values)
    arrays = tuple(item for item in index if isinstance(item, np.ndarray))

    def at_run_time(x: Any, v: Any, *arrays: Any) -> Any:
        given = iter(arrays)
        traced = tuple(next(given) if isinstance(i, np.ndarray) else i for i in index)
        return getattr(x.at[traced], change)(v)

    np.testing.assert_allclose(known, expected, rtol=1e-14)
    np.testing.assert_allclose(at_run_time(rnp.asarray(X), values, *arrays), expected, rtol=1e-14)
    np.testing.assert_allclose(rlx.jit(at_run_time)(X, values, *arrays), expected, rtol=1e-14)


def test_a_function_is_applied_as_often_as_an_index_repeats() -> None:
    changed = rlx.jit(lambda x, i: x.at[i].apply(lambda e: 2 * e + 1))(X[0], np.array([1, 1, 3]))
    np.testing.assert_allclose(changed, [X[0, 0], 4 * X[0, 1] + 3, X[0, 2], 2 * X[0, 3] + 1])


def test_integers_divided_at_an_index_are_floats() -> None:
    x = np.array([7, 8, 9], np.int32)
    mask = np.array([False, True, False])

    def update(x: Any, mask: Any) -> Any:
        return (
            x.at[1].divide(16),
            x.at[np.array([1, 1])].divide(np.float32(2.5)),
            x.at[mask].divide(3),
        )

    for found in (rlx.jit(update)(x, mask), update(rnp.asarray(x), rnp.asarray(mask))):
        assert [each.dtype for each in found] == [np.float32] * 3
        np.testing.assert_allclose(found[0], [7, 0.5, 9])
        np.testing.assert_allclose(found[1], [7, 1.28, 9], rtol=1e-6)
        np.testing.assert_allclose(found[2], [7, 8 / 3, 9], rtol=1e-6)


def test_a_function_whose_fractions_the_array_cannot_hold_is_refused() -> None:
    with pytest.raises(DTypeError, match="which cannot hold them"):
        rlx.jit(lambda x: x.at[1].apply(lambda element: element / 2))(np.arange(3))


def test_powers_keep_the_dtype_of_the_array() -> None:
    x = np.array([2, 3, 4], np.int32)
    changed = rlx.jit(lambda x, i: x.at[i].power(np.array([2, 1, 2])))(x, np.array([0, 2, 0]))
    assert changed.dtype == np.int32
    np.testing.assert_array_equal(changed, [16, 3, 4])


@pytest.mark.parametrize("change", ["set", "add", "multiply", "divide"])
def test_gradients_agree_with_differences(change: str) -> None:
    values = values_for((ROWS,))

    def loss(x: Any, v: Any, i: Any) -> Any:
        return rnp.sum(rnp.sin(getattr(x.at[i], change)(v)))

    def plain(x: Any, v: Any) -> float:
        return float(np.sin(in_turn(x, (ROWS,), v, CHANGES[change])).sum())

    dx, dv = rlx.jit(rlx.grad(loss, argnums=(0, 1)))(X, values, ROWS)
    step_x, step_v = RANDOM.standard_normal(X.shape), RANDOM.standard_normal(values.shape)
    h = 1e-6
    forth = plain(X + h * step_x, values + h * step_v)
    back = plain(X - h * step_x, values - h * step_v)
    found = (dx * step_x).sum() + (dv * step_v).sum()
    np.testing.assert_allclose(found, (forth - back) / (2 * h), rtol=1e-7, atol=1e-8)


def test_a_batch_has_an_index_each() -> None:
    index = np.array([[0, 0, 1], [3, 1, 3]])
    values = 1.5 + RANDOM.random((2, 3))
    changed = rlx.jit(rlx.vmap(lambda x, i, v: x.at[i].multiply(v)))(X[:2], index, values)
    expected = [in_turn(X[n], index[n], values[n], CHANGES["multiply"]) for n in range(2)]
    np.testing.assert_allclose(changed, expected, rtol=1e-14)


def test_an_index_out_of_range_is_an_error() -> None:
    with pytest.raises(IndexOutOfRangeError):
        rlx.jit(lambda x, i: x.at[i].multiply(2.0))(X, np.array([0, 5]))


def test_outside_jit_no_update_is_made_element_by_element() -> None:
    """Each is a few operations on whole arrays, whatever the number of indices."""
    x, index = rnp.zeros(50), np.arange(40) % 7
    for change in ("set", "add", "multiply", "min", "max"):
        with counted_nodes() as nodes:
            getattr(x.at[index], change)(2.5)
        assert "scan" not in nodes, change


def test_outside_jit_integers_change_as_inside() -> None:
    x, index = rnp.asarray(np.array([3, 4, 5], np.int32)), np.array([0, 0, 2])
    for change, value in (("max", 9), ("set", 2), ("multiply", 3)):
        inside = rlx.jit(lambda x, i, c=change, v=value: getattr(x.at[i], c)(v))(x, index)
        outside = getattr(x.at[index], change)(value)
        assert outside.dtype == inside.dtype
        np.testing.assert_array_equal(outside, inside)

    def halve(x: Any, index: Any) -> Any:
        return x.at[index].multiply(0.5)

    for refused in (rlx.jit(halve), halve):
        with pytest.raises(DTypeError, match="f64 for an array of dtype i32"):
            refused(x, index)


@contextlib.contextmanager
def counted_nodes() -> Iterator[set[str]]:
    """The names of the ops of graphs that are traced meanwhile."""
    found: set[str] = set()
    evaluate = vars(apply)["evaluate"]

    def watched(graph: Any, feeds: Any) -> Any:
        found.update(node.op.name for node in graph.nodes)
        return evaluate(graph, feeds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "evaluate", watched)
        patch.setattr(apply, "_known", {})
        yield found


@pytest.mark.parametrize("mask", [np.array([True, False]), np.ones((5, 2), bool)])
def test_a_mask_of_another_shape_than_the_array_is_refused(mask: Any) -> None:
    x = np.ones((5, 3), np.float32)

    def update(x: Any) -> Any:
        return x.at[mask].set(0)

    for way in (update, rlx.jit(update)):
        with pytest.raises(ShapeError, match="a mask has shape"):
            way(rnp.asarray(x))


@pytest.mark.parametrize("mode", ["raise", "clip", "wrap"])
@pytest.mark.parametrize(
    ("a", "positions", "values"),
    [(np.arange(4.0), [], []), (np.arange(4.0), [1], []), (np.arange(4.0), [], 1.0), ([], [], [])],
)
def test_put_of_nothing_changes_nothing(a: Any, positions: Any, values: Any, mode: str) -> None:
    found = rnp.put(np.array(a), np.array(positions, int), np.array(values), mode)
    np.testing.assert_array_equal(found, a)


WHOLE = np.arange(4)


@pytest.mark.parametrize("change", ["set", "add", "subtract", "multiply", "power", "min", "max"])
@pytest.mark.parametrize("traced", [True, False])
def test_fractions_for_integers_are_refused(change: str, traced: bool) -> None:
    def update(x: Any) -> Any:
        return getattr(x.at[1], change)(0.5)

    with pytest.raises(DTypeError, match="f64 for an array of dtype i64"):
        rlx.jit(update)(WHOLE) if traced else update(rnp.asarray(WHOLE))


def test_fractions_for_integers_at_a_mask_are_refused() -> None:
    with pytest.raises(DTypeError, match="which cannot hold them"):
        rlx.jit(lambda x: x.at[x > 2].set(0.5))(WHOLE)


def test_imaginary_parts_for_real_numbers_are_refused() -> None:
    with pytest.raises(DTypeError, match="c128 for an array of dtype f64"):
        rnp.zeros(3).at[0].set(1j)


def test_what_the_array_holds_is_converted() -> None:
    np.testing.assert_array_equal(rnp.asarray(WHOLE).at[0].add(np.int8(3)), [3, 1, 2, 3])
    assert rnp.zeros(3, "f4").at[1].set(np.float64(0.25)).dtype == np.float32
    np.testing.assert_array_equal(rnp.zeros(2).at[0].set(True), [1.0, 0.0])
