"""Sums whose order the code states."""

from __future__ import annotations

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import const, maximum
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind, Prim
from rlx.codegen.loops.passes.order_sums import order_sums
from tests.codegen.loops.passes.cases import check, unchanged


def total(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    total = k.mutable("total", const(0.0, Prim.F64))
    sums = [(total, BinaryOp.ADD)]
    with k.loop("i", 5, kind=LoopKind.SIMD, accumulators=sums) as i:
        total.set(total + k.load(x, i))
    k.store(y, 0, total)


def test_without_vectors_a_sum_adds_one_element_after_the_other() -> None:
    check(
        order_sums(0),
        total,
        """
        var total: f64 = 0.0
        for i in 0 .. 5:
          total = total + x[i]
        y[0] = total
        """,
    )


def test_with_vectors_a_sum_is_one_of_vectors_as_wide_as_the_register() -> None:
    check(
        order_sums(16),
        total,
        """
        var total: f64 = 0.0
        var total.x2: f64x2 = splat2(-0.0)
        for i in 0 .. 4 step 2:
          total.x2 = total.x2 + x[i; 2]
        total = fold_add(total.x2) + total
        total = total + x[4]
        y[0] = total
        """,
    )


def test_loops_without_sums_and_sums_of_integers_are_left_to_the_compiler() -> None:
    def double(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
        with k.loop("i", 5, kind=LoopKind.SIMD) as i:
            k.store(y, i, k.load(x, i) * 2.0)

    def largest(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
        top = k.mutable("top", const(0, Prim.I64))
        with k.loop("i", 5, kind=LoopKind.SIMD, accumulators=[(top, BinaryOp.MAX)]) as i:
            top.set(maximum(top, k.load(x, i).cast(Prim.I64)))
        k.store(y, 0, top.cast(Prim.F64))

    for write in (double, largest):
        unchanged(order_sums(16), write)
