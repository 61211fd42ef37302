"""Dead code elimination: what nothing observes goes, what is observed stays."""

from __future__ import annotations

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import const
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind, Prim, Status
from rlx.codegen.loops.passes.dead_code import dead_code
from tests.codegen.loops.passes.cases import after


@after(dead_code).gives("y[0] = x[1]")
def test_values_that_nothing_reads_go_with_what_only_they_read(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    first = k.let("first", k.load(x, 0) * 2.0)
    k.let("second", first + 1.0)
    k.store(y, 0, k.load(x, 1))


@after(dead_code).gives("y[0] = x[1]")
def test_a_variable_that_only_feeds_itself_goes_with_its_loop(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    total = k.mutable("total", const(0.0, Prim.F64))
    with k.loop("i", 8) as i:
        total.set(total + k.load(x, i))
    k.store(y, 0, k.load(x, 1))


@after(dead_code).gives("""
    for i in 0 .. 8:
      y[i] = x[i]
""")
def test_a_local_buffer_that_nothing_loads_goes_with_its_stores(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    scratch = k.local("scratch", Prim.F64, 8)
    with k.loop("i", 8) as i:
        k.store(scratch, i, k.load(x, i))
        k.store(y, i, k.load(x, i))


@after(dead_code).gives("""
    for i in 0 .. 8, simd:
      y[i] = x[i]
""")
def test_an_accumulator_that_nothing_reads_is_not_declared_any_more(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    total = k.mutable("total", const(0.0, Prim.F64))
    pairs = [(total, BinaryOp.ADD)]
    with k.loop("i", 8, kind=LoopKind.SIMD, accumulators=pairs) as i:
        total.set(total + k.load(x, i))
        k.store(y, i, k.load(x, i))


@after(dead_code).changes_nothing()
def test_what_fails_or_decides_stays(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    first = k.let("first", k.load(x, 0))
    with k.if_(first > 9.0):
        k.fail(Status.INDEX_OUT_OF_RANGE, 0)
    going = k.mutable("going", const(3, Prim.I64))
    with k.while_(going > 0):
        going.set(going - 1)
    k.store(y, 0, 1.0)
