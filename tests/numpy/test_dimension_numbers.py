"""Gathers, scatters and folded windows are XLA's, as JAX gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx import lax

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

X = np.arange(60.0).reshape(3, 4, 5)
GATHERS: dict[str, tuple[Any, tuple[Any, ...], tuple[int, ...]]] = {
    "rows": (np.array([[2], [0], [5]]), ((1, 2), (0,), (0,)), (1, 4, 5)),
    "elements": (np.array([[0, 1, 2], [2, 3, 4]]), ((), (0, 1, 2), (0, 1, 2)), (1, 1, 1)),
    "slices": (np.array([[1, 3], [0, 0], [2, -1]]), ((0, 2), (1,), (1, 2)), (2, 1, 2)),
    "windows in front": (np.array([[[0, 1]], [[1, 2]]]), ((0, 1, 2), (), (2, 1)), (3, 2, 2)),
    "batches": (np.array([[1], [2], [0]]), ((1,), (1,), (1,), (0,), (0,)), (1, 1, 5)),
}


@pytest.mark.parametrize("mode", [None, "clip", "fill"])
@pytest.mark.parametrize("name", GATHERS)
def test_gathers_are_jaxs(name: str, mode: str | None) -> None:
    starts, numbers, sizes = GATHERS[name]
    expected = jax.lax.gather(X, starts, jax.lax.GatherDimensionNumbers(*numbers), sizes, mode=mode)

    def gathered(x: Any, i: Any) -> Any:
        return lax.gather(x, i, lax.GatherDimensionNumbers(*numbers), sizes, mode=mode)

    np.testing.assert_array_equal(gathered(X, starts), expected)
    np.testing.assert_array_equal(rlx.jit(gathered)(X, starts), expected)


SCATTERS: dict[str, tuple[Any, tuple[int, ...], tuple[Any, ...]]] = {
    "rows": (np.array([[2], [0], [5]]), (3, 4, 5), ((1, 2), (0,), (0,))),
    "repeated": (np.array([[1], [1]]), (2, 4, 5), ((1, 2), (0,), (0,))),
    "windows": (np.array([[1, 3], [0, 0], [2, 4]]), (2, 3, 2), ((0, 2), (1,), (1, 2))),
}


@pytest.mark.parametrize("kind", ["scatter", "scatter_add", "scatter_mul", "scatter_min",
                                  "scatter_max"])  # fmt: skip
@pytest.mark.parametrize("name", SCATTERS)
def test_scatters_are_jaxs(name: str, kind: str) -> None:
    places, shape, numbers = SCATTERS[name]
    updates = np.arange(float(np.prod(shape))).reshape(shape) - 20
    of_jax = jax.lax.ScatterDimensionNumbers(*numbers)
    expected = getattr(jax.lax, kind)(X, places, updates, of_jax)
    found = getattr(lax, kind)(X, places, updates, lax.ScatterDimensionNumbers(*numbers))
    if (name, kind) == ("repeated", "scatter"):  # which of the windows stays is not said
        assert np.array_equal(found[1], updates[1])
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-15)


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("name", SCATTERS)
def test_functions_of_windows_are_jaxs(name: str, unique: bool) -> None:
    places, shape, numbers = SCATTERS[name]
    if name == "repeated" and unique:
        places = places + np.array([[0], [1]])
    options: Any = {"update_shape": shape, "unique_indices": unique}
    expected = jax.lax.scatter_apply(
        X, places, jax.lax.tanh, jax.lax.ScatterDimensionNumbers(*numbers), **options
    )
    rows = lax.ScatterDimensionNumbers(*numbers)
    found = lax.scatter_apply(X, places, lax.tanh, rows, **options)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize(
    "options",
    [
        ((1, 2, 2), (1, 2, 2), "VALID"),
        ((2, 3, 2), (1, 2, 1), "SAME"),
        ((1, 2, 3), (1, 1, 2), [(0, 0), (1, 2), (0, 1)]),
        ((1, 2, 2), (1, 1, 1), "VALID", None, (1, 2, 3)),
        ((1, 3, 2), (1, 1, 2), "VALID", (1, 2, 1)),
    ],
)
def test_folded_windows_are_jaxs(options: tuple[Any, ...]) -> None:
    for start, ours, theirs in (
        (-np.inf, lax.max, jax.lax.max),
        (np.inf, lax.min, jax.lax.min),
        (0.0, lax.add, jax.lax.add),
    ):
        expected = jax.lax.reduce_window(X, start, theirs, *options)
        found = lax.reduce_window(X, start, ours, *options)
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_windows_that_are_summed_have_a_gradient() -> None:
    def total(x: Any) -> Any:
        return lax.reduce_window(x * x, 0.0, lax.add, (1, 2, 2), (1, 1, 1), "SAME").sum()

    def total_of_jax(x: Any) -> Any:
        windows = jax.lax.reduce_window(x * x, 0.0, jax.lax.add, (1, 2, 2), (1, 1, 1), "SAME")
        return windows.sum()

    np.testing.assert_allclose(rlx.grad(total)(X), jax.grad(total_of_jax)(X), rtol=1e-13)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_counts_of_bits_have_the_dtype_of_what_is_counted(dtype: str) -> None:
    x = np.array([0, 1, 7, 127], dtype)
    found, expected = lax.population_count(x), jax.lax.population_count(x)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype
