"""Sums inside of softmax and its kin stay exact to a few roundings in rows of any length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import nn

ROUNDING = 2.0**-23
SHAPES: tuple[tuple[tuple[int, ...], int], ...] = (
    ((131073,), 0),
    ((2, 40000), 1),
    ((40000, 20), 0),
    ((3, 20000, 2), 1),
)


def reference(x: Any, axis: int) -> tuple[Any, Any]:
    """Return softmax and its logarithm in f64."""
    shifted = x.astype(np.float64) - x.max(axis, keepdims=True)
    weights = np.exp(shifted)
    total = weights.sum(axis, keepdims=True)
    return weights / total, shifted - np.log(total)


FUNCTIONS: dict[str, Callable[..., Any]] = {"softmax": nn.softmax, "log_softmax": nn.log_softmax}


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("number", range(2), ids=list(FUNCTIONS))
def test_long_rows_lose_a_few_roundings_only(
    number: int, shape: tuple[int, ...], axis: int, backend: str
) -> None:
    """Equal terms, added up one by one, all round the same way: 84 roundings in 131,073 terms."""
    function = list(FUNCTIONS.values())[number]
    x = (np.random.default_rng(0).standard_normal(shape) * 0.01).astype(np.float32)
    expected = reference(x, axis)[number]
    found = rlx.jit(lambda x: function(x, axis=axis), backend=backend)(x)
    assert np.max(np.abs(np.asarray(found) / expected - 1)) < 5 * ROUNDING
