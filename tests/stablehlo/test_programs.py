"""Programs of libraries on top of JAX, exported, give JAX's numbers."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'rlx[jax]'")

from tests.jaxpr.programs import PROGRAMS, missing  # noqa: E402  after JAX is known to be there
from tests.stablehlo.exports import expected, results  # noqa: E402

WITH_CALLBACKS = ("diffrax_gradient", "lineax_conjugate_gradients", "optimistix_newton")
"""Their checks call Python, which jax.export does not write."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in WITH_CALLBACKS])
def test_an_exported_program_of_a_library_gives_jaxs_numbers(name: str) -> None:
    if lacking := missing(name):
        pytest.skip(f"not installed: {', '.join(lacking)}")
    function, operands = PROGRAMS[name]()
    pairs = zip(results(function, operands), expected(function, operands), strict=True)
    for mine, theirs in pairs:
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, 3e-4, 3e-4)
