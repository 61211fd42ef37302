"""Static single assignment: variables become values, and copies of them are gone."""

from __future__ import annotations

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import const
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.codegen.loops.passes.single_assignment import single_assignment
from tests.codegen.loops.passes.cases import after


@after(single_assignment).gives("""
    let a: f64 = x[0]
    y[0] = a
    let a_2: f64 = a * 2.0
    for i in 0 .. 3:
      y[i + 1] = a_2 + x[i]
""")
def test_a_variable_that_its_own_block_assigns_is_a_value_each_time(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    a = k.mutable("a", k.load(x, 0))
    k.store(y, 0, a)
    a.set(a * 2.0)
    with k.loop("i", 3) as i:
        k.store(y, i + 1, a + k.load(x, i))


@after(single_assignment).gives("let loaded: f64 = x[0]\ny[0] = 0.5 * loaded")
def test_literals_and_copies_are_read_where_they_are_used(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    half = k.mutable("half", const(0.0, Prim.F64))
    half.set(const(0.5, Prim.F64))
    loaded = k.let("loaded", k.load(x, 0))
    copy = k.let("copy", loaded)
    k.store(y, 0, half * copy)


@after(single_assignment).gives("""
    var total: f64 = 0.0
    for i in 0 .. 4:
      total = total + x[i]
    let before: f64 = total
    for j in 0 .. 4:
      total = total * x[j]
    y[0] = before + total
""")
def test_a_total_is_read_itself_behind_its_last_assignment_and_copied_before(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    total = k.mutable("total", const(0.0, Prim.F64))
    with k.loop("i", 4) as i:
        total.set(total + k.load(x, i))
    before = k.let("before", total)
    with k.loop("j", 4) as j:
        total.set(total * k.load(x, j))
    after = k.let("after", total)
    k.store(y, 0, before + after)


@after(single_assignment).gives("""
    let first: f64 = x[0] + 1.0
    var carry: f64 = first
    for step in 0 .. 3:
      carry = carry * first
    y[0] = carry
""")
def test_a_variable_of_a_loop_is_declared_where_it_gets_its_first_value(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    carry = k.mutable("carry", const(0.0, Prim.F64))
    first = k.let("first", k.load(x, 0) + 1.0)
    carry.set(first)
    with k.loop("step", 3):
        carry.set(carry * first)
    k.store(y, 0, carry)


@after(single_assignment).changes_nothing()
def test_what_a_branch_may_assign_stays_a_variable_with_its_first_value(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    value = k.mutable("value", const(0.0, Prim.F64))
    with k.if_(k.load(x, 0) > 0.0):
        value.set(const(1.0, Prim.F64))
    k.store(y, 0, value)


@after(single_assignment).gives("""
    for i in 0 .. 3:
      y[i] = 1.0
      let a: f64 = x[i]
      y[i + 8] = a
""")
def test_variables_of_a_loops_body_begin_anew_at_every_trip(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    with k.loop("i", 3) as i:
        a = k.mutable("a", const(1.0, Prim.F64))
        k.store(y, i, a)
        a.set(k.load(x, i))
        k.store(y, i + 8, a)


@after(single_assignment).gives("""
    let once: f64 = 0.0 + x[1]
    var total: f64 = 1.0
    for i in 0 .. 4:
      total = total * x[i]
    y[0] = total + once
""")
def test_a_variable_is_declared_with_what_is_assigned_to_it_first(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    once = k.mutable("once", const(0.0, Prim.F64))
    once.set(once + k.load(x, 1))
    total = k.mutable("total", const(1.0, Prim.F64))
    with k.loop("i", 4) as i:
        total.set(total * k.load(x, i))
    k.store(y, 0, total + once)
