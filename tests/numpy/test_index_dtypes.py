"""Updates at an index keep the dtype of the array, and lose nothing in silence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError

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
