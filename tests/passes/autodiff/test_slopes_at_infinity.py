"""Derivatives at infinity: those of branches that are not taken there must not be infinite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.jax import nn
from rlx.scipy import special

FLAT = {
    "ndtr": special.ndtr,
    "log_ndtr": lambda x: special.log_ndtr(rnp.abs(x)),
    "i0e": special.i0e,
    "i1e": special.i1e,
    "sign_of_sqrt": lambda x: rnp.sign(x) / rnp.sqrt(1 + rnp.abs(x)),
    "sparse_plus": lambda x: nn.sparse_plus(-rnp.abs(x)),
}


@pytest.mark.parametrize("name", FLAT)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_slopes_of_flat_functions_are_0_at_infinity(name: str, dtype: type) -> None:
    function: Callable[[Any], Any] = FLAT[name]
    ends: Any = np.array([-np.inf, np.inf, np.nan], dtype)
    ones: Any = np.ones(3, dtype)
    forward = rlx.jvp(function, (ends,), (ones,))[1]
    reverse = rlx.vjp(function, ends)[1](ones)[0]
    for slopes in (forward, reverse):
        np.testing.assert_array_equal(np.abs(slopes), np.array([0, 0, np.nan], dtype))
