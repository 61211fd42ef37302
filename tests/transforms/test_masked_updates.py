"""`x.at[mask]` with a mask that is known at run time only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import ShapeError

X = np.array([[-2.0, 0.5, 3.0], [1.0, -1.5, 0.25]])

CHANGES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "set": (lambda at: at.set(7), lambda x: np.full_like(x, 7)),
    "add": (lambda at: at.add(0.5), lambda x: x + 0.5),
    "multiply": (lambda at: at.multiply(2.0), lambda x: x * 2),
    "divide": (lambda at: at.divide(4.0), lambda x: x / 4),
    "power": (lambda at: at.power(2), lambda x: x**2),
    "min": (lambda at: at.min(-1.75), lambda x: np.minimum(x, -1.75)),
    "max": (lambda at: at.max(-1.75), lambda x: np.maximum(x, -1.75)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_elements_under_a_mask_change(name: str) -> None:
    change, expected = CHANGES[name]
    changed = rlx.jit(lambda x: change(x.at[x < 0]))(X)
    np.testing.assert_array_equal(changed, np.where(X < 0, expected(X), X))


def test_a_mask_of_rows_changes_whole_rows() -> None:
    changed = rlx.jit(lambda x: x.at[x[:, 0] > 0].set(0.0))(X)
    np.testing.assert_array_equal(changed, [X[0], [0, 0, 0]])


def test_the_gradient_passes_where_the_mask_is_false() -> None:
    slope = rlx.jit(rlx.grad(lambda x: (x.at[x < 0].set(3.0) ** 2).sum()))(X)
    np.testing.assert_array_equal(slope, np.where(X < 0, 0.0, 2 * X))


def test_a_mask_of_another_shape_is_an_error() -> None:
    with pytest.raises(ShapeError, match="a mask has shape"):
        rlx.jit(lambda x: x.at[x[0] > 0].set(0.0))(X)


def test_many_values_for_a_mask_are_an_error_that_names_where() -> None:
    with pytest.raises(ShapeError, match="where"):
        rlx.jit(lambda x: x.at[x > 0].set(x))(X)
