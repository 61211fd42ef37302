"""Full unrolling: short loops become their iterations, with literals for their variables."""

from __future__ import annotations

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim
from rlx.codegen.loops.passes.unroll import MOST_STATEMENTS, unroll_short_loops
from tests.codegen.loops.passes.cases import after, kernel_of, text


@after(unroll_short_loops).gives("""
    for i in 0 .. 4:
      let value_2: f64 = x[i * 2]
      y[i] = value_2 + value_2
      let value_3: f64 = x[i * 2 + 1]
      y[i + 4] = value_3 + value_3
""")
def test_an_unroll_loop_is_its_iterations_and_indices_fold(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    with k.loop("i", 4) as i, k.loop("c", 2, kind=LoopKind.UNROLL) as c:
        value = k.let("value", k.load(x, i * 2 + c))
        k.store(y, c * 4 + i, value + value)


@after(unroll_short_loops).gives("""
    local scratch_2: f64[2]
    scratch_2[0] = x[0]
    scratch_2[1] = x[1]
    y[0] = scratch_2[0] + scratch_2[1]
    local scratch_3: f64[2]
    scratch_3[0] = x[2]
    scratch_3[1] = x[3]
    y[1] = scratch_3[0] + scratch_3[1]
""")
def test_nested_loops_and_their_local_buffers_are_copied_apart(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    with k.loop("a", 2, kind=LoopKind.UNROLL) as a:
        scratch = k.local("scratch", Prim.F64, 2)
        with k.loop("b", 2, kind=LoopKind.UNROLL) as b:
            k.store(scratch, b, k.load(x, a * 2 + b))
        k.store(y, a, k.load(scratch, 0) + k.load(scratch, 1))


@after(unroll_short_loops).changes_nothing()
def test_serial_loops_and_long_ones_stay(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    with k.loop("i", 2) as i:
        k.store(y, i, k.load(x, i))
    with k.loop("j", MOST_STATEMENTS + 1, kind=LoopKind.UNROLL) as j:
        k.store(y, j, k.load(x, j))


def test_text_of_a_kernel_without_such_loops_is_the_same_object() -> None:
    kernel = kernel_of(lambda k, x, y: k.store(y, 0, k.load(x, 0)))
    assert unroll_short_loops(kernel) is kernel
    assert text(kernel) == "y[0] = x[0]"
