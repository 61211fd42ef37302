"""Programs of libraries on top of JAX give JAX's numbers."""

from __future__ import annotations

import numpy as np
import pytest

import rlx

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'rlx[jax]'")

import tests.jaxpr.plain_programs  # noqa: E402, F401  registers programs of JAX alone
from tests.jaxpr.programs import PROGRAMS, missing  # noqa: E402  after JAX is known to be there


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_a_library_gives_jaxs_numbers(name: str) -> None:
    if lacking := missing(name):
        pytest.skip(f"not installed: {', '.join(lacking)}")
    function, args = PROGRAMS[name]()
    found = rlx.from_jax(function)(*args)
    expected = jax.jit(function)(*args)
    assert jax.tree_util.tree_structure(found) == jax.tree_util.tree_structure(expected)
    pairs = zip(jax.tree_util.tree_leaves(found), jax.tree_util.tree_leaves(expected), strict=True)
    for mine, theirs in pairs:
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, 2e-4, 2e-4)
