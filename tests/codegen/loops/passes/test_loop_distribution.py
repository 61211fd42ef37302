"""Loop distribution: strided accesses leave a loop for loops of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import Block, Buffer, For, Kernel, LoopKind, Prim
from rlx.codegen.loops.passes.loop_distribution import distributed
from rlx.codegen.loops.passes.names import Names
from tests.codegen.loops.passes.cases import Write, check, kernel_of, text, unchanged


def distribute(kernel: Kernel) -> Kernel:
    """Distribute every loop at the top of a kernel that can be."""
    names, body, changed = Names(kernel), list[Block](), False
    for statement in kernel.body:
        parts = distributed(statement, names) if isinstance(statement, For) else None
        body.append((statement,) if parts is None else (*parts[0], parts[1], *parts[2]))
        changed = changed or parts is not None
    return replace(kernel, body=sum(body, ())) if changed else kernel


def over(iterations: int, body: Callable[[KernelBuilder, Buffer, Buffer, E], None]) -> Write:
    def write(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
        with k.loop("i", iterations, kind=LoopKind.SIMD) as i:
            body(k, x, y, i)

    return write


def squares(k: KernelBuilder, x: Buffer, y: Buffer, i: E) -> None:
    value = k.let("value", k.load(x, i * 3))
    k.store(y, i * 2 + 1, value * k.load(x, i * 3) + k.load(x, i))


def test_strided_elements_are_read_before_and_written_after() -> None:
    check(
        distribute,
        over(4, squares),
        """
        local x_row: f64[4]
        local y_row: f64[4]
        for i_2 in 0 .. 4, simd:
          x_row[i_2] = x[i_2 * 3]
        for i in 0 .. 4, simd:
          let value: f64 = x_row[i]
          y_row[i] = value * x_row[i] + x[i]
        for i_3 in 0 .. 4, simd:
          y[i_3 * 2 + 1] = y_row[i_3]
        """,
    )


def test_many_iterations_stay_together() -> None:
    unchanged(distribute, over(65, squares))


def test_what_a_loop_reads_and_writes_stays_in_its_order() -> None:
    def moved(k: KernelBuilder, x: Buffer, y: Buffer, i: E) -> None:
        k.store(y, i * 2, k.load(y, i * 2 + 1) + k.load(x, i))

    unchanged(distribute, over(4, moved))


def test_an_index_that_the_loop_computes_stays_in_it() -> None:
    def indexed(k: KernelBuilder, x: Buffer, y: Buffer, i: E) -> None:
        at = k.let("at", i * 3)
        k.store(y, i, k.load(x, at))

    unchanged(distribute, over(4, indexed))


def test_a_place_that_the_loop_writes_is_read_in_its_order() -> None:
    def indirect(k: KernelBuilder, x: Buffer, y: Buffer, i: E) -> None:
        k.store(y, i, k.load(x, k.load(y, i * 2).cast(Prim.I64)))

    def elsewhere(k: KernelBuilder, x: Buffer, y: Buffer, i: E) -> None:
        k.store(y, i, k.load(x, k.load(x, i * 2).cast(Prim.I64)))

    unchanged(distribute, over(4, indirect))
    assert "x_row" in text(distribute(kernel_of(over(4, elsewhere))))


def test_memory_that_may_be_anothers_stays_in_its_order() -> None:
    unchanged(distribute, over(4, squares), may_alias=True)
