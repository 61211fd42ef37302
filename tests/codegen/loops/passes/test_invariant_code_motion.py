"""Loop-invariant code motion: what no iteration changes is computed before the loop."""

from __future__ import annotations

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.codegen.loops.passes.invariant_code_motion import invariant_code_motion
from tests.codegen.loops.passes.cases import after


@after(invariant_code_motion).gives("""
    let scale: f64 = x[0] * 2.0
    for i in 0 .. 2:
      let row: i64 = i * 4
      for j in 0 .. 4:
        y[row + j] = x[j] * scale
""")
def test_an_invariant_value_leaves_all_loops_that_do_not_change_it(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    with k.loop("i", 2) as i, k.loop("j", 4) as j:
        scale = k.let("scale", k.load(x, 0) * 2.0)
        row = k.let("row", i * 4)
        k.store(y, row + j, k.load(x, j) * scale)


@after(invariant_code_motion).changes_nothing()
def test_what_the_loop_stores_is_loaded_in_it(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    k.store(y, 0, 1.0)
    with k.loop("i", 4) as i:
        k.store(y, i + 1, k.let("first", k.load(y, 0)) + k.load(x, i))


@after(invariant_code_motion).changes_nothing()
def test_nothing_is_loaded_for_a_loop_that_may_have_no_iteration(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    count = k.let("count", k.load(x, 0).cast(Prim.I64))
    with k.loop("i", count) as i:
        k.store(y, i, k.let("late", k.load(x, 9)))


@after(invariant_code_motion).changes_nothing()
def test_what_a_branch_guards_stays_in_it(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    with k.loop("i", 4) as i, k.if_(k.load(x, i) > 0.0):
        k.store(y, i, k.let("guarded", k.load(x, 9)))
