"""Simplification by what integers can be: loops, remainders and clamps."""

from __future__ import annotations

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, maximum, minimum, select
from rlx.codegen.loops.nodes import BinaryOp, Buffer, For, If, LoopKind, Prim, ValueType, Var
from rlx.codegen.loops.passes.ranges import ANY, Ranges
from rlx.codegen.loops.passes.simplify import simplify
from tests.codegen.loops.passes.cases import after

N = E(Var("n", ValueType(Prim.I64)))


@after(simplify).gives("y[0] = x[1]")
def test_loops_of_one_trip_are_their_bodies_and_loops_of_none_are_gone(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    i = Var("i", ValueType(Prim.I64))
    inner = KernelBuilder("inner")
    inner.store(y, E(i) * 2, inner.load(x, E(i) + 1))
    body = inner.build().body
    zero, four = (const(value, Prim.I64).node for value in (0, 4))
    k.emit(For(i, zero, four, 4, LoopKind.SERIAL, body))
    with k.loop("j", 4, start=4) as j:
        k.store(y, j, k.load(x, j))


@after(simplify).gives("""
    for row in 0 .. 8:
      for i in 0 .. 4:
        y[row % 4] = x[row]
""")
def test_remainders_and_quotients_of_what_is_small_are_known(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    with k.loop("row", 8) as row, k.loop("i", 4) as i:
        batch = k.let("batch", row / 8)
        k.store(y, row % 4 % 8 + (i + 4) / 8, k.load(x, batch * 3 + row % 8))


@after(simplify).gives("""
    y[0] = select(x[0] > 0.0, 1.0, 0.5)
    y[1] = select((x[1] > 0.0) & False, 1.0, 0.5)
""")
def test_comparisons_of_literals_are_known(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    half = const(0.5, Prim.F64)
    k.store(y, 0, select((k.load(x, 0) > 0.0) & (half >= 0.0) & (half <= 1.0), 1.0, half))
    k.store(y, 1, select((k.load(x, 1) > 0.0) & (half > 1.0), 1.0, half))


@after(simplify).changes_nothing()
def test_remainders_that_matter_stay(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    with k.loop("row", 9) as row:
        k.store(y, row % 8, k.load(x, row / 8))
        k.store(y, (8 - row) % 4, k.load(x, (row + 3) % 11))


@after(simplify).gives("""
    let extent: i64 = i64(x[0]) % 2 + 5
    for row in 0 .. 8:
      y[row % extent] = 1.0
""")
def test_a_remainder_of_one_divisor_is_taken_once(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    extent = k.let("extent", k.load(x, 0).cast(Prim.I64) % 2 + 5)
    with k.loop("row", 8) as row:
        k.store(y, row % extent % extent, 1.0)


@after(simplify).gives("""
    var count: i64 = 0
    for i in 0 .. 4:
      let before: i64 = count
      count = count + 2
      y[before] = x[count]
""")
def test_a_copy_of_a_variable_keeps_its_value_when_another_is_assigned(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    """Also where it is seen to be a copy by what integers can be."""
    count = k.mutable("count", const(0, Prim.I64))
    with k.loop("i", 4) as i:
        before = k.let("before", count + i / 4)
        count.set(count + 2)
        k.store(y, before, k.load(x, count))


@after(simplify).gives("""
    var total: f64 = 0.0
    for i in 0 .. 4, simd, accumulates add total:
    y[0] = total
""")
def test_an_accumulator_stays_a_variable_when_nothing_is_added_to_it(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    total = k.mutable("total", const(0.0, Prim.F64))
    with (
        k.loop("i", 4, kind=LoopKind.SIMD, accumulators=[(total, BinaryOp.ADD)]) as i,
        k.loop("j", 0) as j,
    ):
        total.set(total + k.load(x, i + j))
    k.store(y, 0, total)


@after(simplify).gives("y[0] = x[0]")
def test_a_branch_that_is_known_is_taken(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    condition = const(False, Prim.BOOL)
    k.emit(If(condition.node, ()))
    k.store(y, 0, k.load(x, 0))


def test_ranges_give_up_where_arithmetic_might_wrap() -> None:
    ranges = Ranges()
    n = Var("n", ValueType(Prim.I64))
    assert ranges.of(n) == ANY
    ranges.note(n, (0, 2**62))
    assert ranges.of((N + 5).node) == (5, 2**62 + 5)
    assert ranges.of((N * 4).node) == ANY
    assert ranges.of((N % 6 - N / 2**60).node) == (-4, 5)
    assert ranges.of(E(n).node) == (0, 2**62)


@after(simplify).gives("""
    for block in 0 .. 4:
      for p in 0 .. 8 step 4:
        let first: i64 = block * 4
        for i in 0 .. 4:
          y[first + i] = x[first + 3 + (p - 4) + 4]
""")
def test_clamps_that_never_bind_are_gone(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    with k.loop("block", 4) as block, k.loop("p", 8, step=4) as p:
        first = k.let("first", block * 4)
        count = k.let("count", minimum(16 - first, 4))
        with k.loop("i", count) as i:
            k.store(y, first + i, k.load(x, minimum(first + 3, 15) + maximum(p - 4, -4) + 4))


@after(simplify).changes_nothing()
def test_clamps_that_bind_stay(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    with k.loop("i", 5) as i:
        k.store(y, minimum(i, 3), k.load(x, maximum(i - 1, 0)))
