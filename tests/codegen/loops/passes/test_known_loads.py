"""Operands that are one number everywhere: literals instead of arguments."""

from __future__ import annotations

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Buffer, Const, Prim, ValueType
from rlx.codegen.loops.passes.known_loads import known_loads
from tests.codegen.loops.passes.cases import after, kernel_of, text

TWO = {"x": Const(2.0, ValueType(Prim.F64))}


def test_loads_of_a_known_operand_are_literals_and_the_argument_goes() -> None:
    def write(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
        with k.loop("i", 8) as i:
            k.prefetch(x, i + 4)
            k.store(y, i, k.load(y, i) + k.load(x, i))

    kernel = known_loads(TWO)(kernel_of(write))
    assert [buffer.name for buffer in kernel.buffers] == ["y"]
    assert text(kernel) == "for i in 0 .. 8:\n  y[i] = y[i] + 2.0"


@after(known_loads({})).changes_nothing()
def test_a_kernel_of_which_nothing_is_known_stays(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    k.store(y, 0, k.load(x, 1))
