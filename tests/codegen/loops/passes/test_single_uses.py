"""Stores take what was named for them alone."""

from __future__ import annotations

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Buffer
from rlx.codegen.loops.passes.single_uses import inline_stored_values
from tests.codegen.loops.passes.cases import after


@after(inline_stored_values).gives("""
    y[0] = x[0] * 2.0
    let b: f64 = x[1] * 2.0
    y[1] = b
    y[2] = b
""")
def test_a_value_read_by_the_store_behind_it_alone_loses_its_name(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    k.store(y, 0, k.let("a", k.load(x, 0) * 2.0))
    b = k.let("b", k.load(x, 1) * 2.0)
    k.store(y, 1, b)
    k.store(y, 2, b)
