"""Every primitive that JAX exports gives JAX's numbers through StableHLO."""

from __future__ import annotations

import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'rlx[jax]'")

from tests.jaxpr.primitives import all_uses  # noqa: E402  after JAX is known to be there
from tests.jaxpr.test_primitives import assert_same  # noqa: E402
from tests.stablehlo.exports import expected, results  # noqa: E402

USES = {use.name: use for use in all_uses()}


NOT_EXPORTED = ("pure_callback", "debug_callback", "io_callback", "debug_print")
"""Uses of Python's functions, which jax.export does not write."""


@pytest.mark.parametrize("name", [name for name in USES if not name.startswith(NOT_EXPORTED)])
def test_an_exported_primitive_gives_jaxs_numbers(name: str) -> None:
    use = USES[name]
    found = results(use.function, use.operands)
    assert_same(found, expected(use.function, use.operands), use.tolerance)
