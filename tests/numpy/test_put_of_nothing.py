"""`put` at no positions, and of no values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx.numpy as rnp


@pytest.mark.parametrize("mode", ["raise", "clip", "wrap"])
@pytest.mark.parametrize(
    ("a", "positions", "values"),
    [(np.arange(4.0), [], []), (np.arange(4.0), [1], []), (np.arange(4.0), [], 1.0), ([], [], [])],
)
def test_put_of_nothing_changes_nothing(a: Any, positions: Any, values: Any, mode: str) -> None:
    found = rnp.put(np.array(a), np.array(positions, int), np.array(values), mode)
    np.testing.assert_array_equal(found, a)
