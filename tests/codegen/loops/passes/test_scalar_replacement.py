"""Scalar replacement: stored elements are read from variables, small buffers are variables."""

from __future__ import annotations

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.codegen.loops.passes.scalar_replacement import forward_stores, promote_buffers
from tests.codegen.loops.passes.cases import after


@after(forward_stores).gives("""
    local scratch: f64[8]
    for i in 0 .. 4:
      let scratch_value: f64 = x[i] * 2.0
      scratch[i * 2] = scratch_value
      let scratch_value_2: f64 = x[i] * 3.0
      scratch[i * 2 + 1] = scratch_value_2
      y[i] = scratch_value + 1.0
""")
def test_a_load_behind_a_store_of_its_element_is_the_stored_value(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    scratch = k.local("scratch", Prim.F64, 8)
    with k.loop("i", 4) as i:
        k.store(scratch, i * 2, k.load(x, i) * 2.0)
        k.store(scratch, i * 2 + 1, k.load(x, i) * 3.0)
        k.store(y, i, k.load(scratch, i + i) + 1.0)


@after(forward_stores).gives("""
    let a: f64 = x[1]
    y[0] = a
    y[1] = a * 2.0
""")
def test_a_second_load_is_the_first(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    k.store(y, 0, k.let("a", k.load(x, 1)))
    k.store(y, 1, k.load(x, 1) * 2.0)


@after(forward_stores).changes_nothing()
def test_a_store_to_an_unknown_element_makes_all_unknown(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    at = k.let("at", k.load(x, 0).cast(Prim.I64) & 7)
    k.let("a", k.load(y, 1))
    k.store(y, at, 5.0)
    k.store(y, 2, k.load(y, 1))


@after(forward_stores).changes_nothing(may_alias=True)
def test_arguments_that_may_be_one_array_are_not_distinguished(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    k.let("a", k.load(x, 1))
    k.store(y, 0, 5.0)
    k.store(y, 2, k.load(x, 1))


@after(forward_stores).changes_nothing()
def test_what_a_loop_stores_is_unknown_in_it_and_behind_it(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    k.store(y, 0, k.let("a", k.load(x, 1)))
    with k.loop("i", 4) as i:
        k.store(y, i + 8, k.load(y, 0))
        k.store(y, i, k.load(x, i))
    k.store(y, 20, k.load(y, 0))


@after(forward_stores).changes_nothing()
def test_what_a_branch_stores_is_unknown_behind_it(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    k.store(y, 0, k.let("a", k.load(x, 1)))
    with k.if_(k.load(x, 2) > 0.0):
        k.store(y, 0, 3.0)
    k.store(y, 1, k.load(y, 0))


@after(promote_buffers).gives("""
    var pair0: f64 = 0.0
    var pair1: f64 = 0.0
    pair0 = x[0]
    pair1 = x[1]
    for step in 0 .. 3:
      pair0 = pair0 * pair1
    y[0] = pair0
""")
def test_a_buffer_with_literal_indices_is_variables(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    pair = k.local("pair", Prim.F64, 2)
    k.store(pair, 0, k.load(x, 0))
    k.store(pair, 1, k.load(x, 1))
    with k.loop("step", 3):
        k.store(pair, 0, k.load(pair, 0) * k.load(pair, 1))
    k.store(y, 0, k.load(pair, 0))


@after(promote_buffers).changes_nothing()
def test_a_buffer_with_a_moving_index_stays(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    scratch = k.local("scratch", Prim.F64, 4)
    with k.loop("i", 4) as i:
        k.store(scratch, i, k.load(x, i))
    k.store(y, 0, k.load(scratch, 2))
