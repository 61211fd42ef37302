"""Common subexpression elimination: one variable per value, as long as memory stays the same."""

from __future__ import annotations

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.codegen.loops.passes.common_subexpressions import common_subexpressions
from tests.codegen.loops.passes.cases import after


@after(common_subexpressions).gives("""
    let first: f64 = x[0] * 2.0
    for i in 0 .. 4:
      y[i] = first + first
""")
def test_equal_values_have_one_variable_in_nested_blocks_too(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    first = k.let("first", k.load(x, 0) * 2.0)
    with k.loop("i", 4) as i:
        again = k.let("again", k.load(x, 0) * 2.0)
        k.store(y, i, first + again)


@after(common_subexpressions).gives("""
    let one: f64 = x[0]
    let a: f64 = one + 1.0
    y[0] = a * a
""")
def test_what_follows_from_equal_values_is_equal(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    one, two = k.let("one", k.load(x, 0)), k.let("two", k.load(x, 0))
    k.store(y, 0, k.let("a", one + 1.0) * k.let("b", two + 1.0))


@after(common_subexpressions).changes_nothing()
def test_a_store_separates_loads(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    first = k.let("first", k.load(y, 0) + k.load(x, 0))
    k.store(y, 0, first + 1.0)
    k.store(y, 1, k.let("second", k.load(y, 0) + k.load(x, 0)))


@after(common_subexpressions).changes_nothing(may_alias=True)
def test_a_store_to_what_may_be_the_same_memory_separates_loads(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    first = k.let("first", k.load(x, 0))
    k.store(y, 0, first + 1.0)
    k.store(y, 1, k.let("second", k.load(x, 0)))


@after(common_subexpressions).changes_nothing()
def test_a_value_of_an_inner_block_is_not_available_after_it(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    with k.loop("i", 4) as i:
        k.store(y, i, k.let("inner", k.load(x, 0) * 2.0))
    k.store(y, 5, k.let("outer", k.load(x, 0) * 2.0))


@after(common_subexpressions).changes_nothing()
def test_values_of_a_variable_that_changes_stay_apart(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    total = k.mutable("total", k.load(x, 0))
    k.store(y, 0, k.let("before", total * 2.0))
    total.set(total + 1.0)
    k.store(y, 1, k.let("after", total * 2.0))
    k.local("scratch", Prim.F64, 2)


@after(common_subexpressions).changes_nothing()
def test_zeros_of_two_signs_are_two_values(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    up, down = k.let("up", k.load(x, 0) * 0.0), k.let("down", k.load(x, 0) * -0.0)
    k.store(y, 0, up)
    k.store(y, 1, down)
