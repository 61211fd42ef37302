"""Functions of scalars are called where straight-line code has many copies, else inlined."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.codegen.llvm.emit import emit_module
from rlx.codegen.llvm.machine import Machine
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.interpreter import run_kernel
from rlx.codegen.loops.nodes import Kernel, LoopKind, Prim
from rlx.codegen.loops.scalar import scalar_function
from tests.codegen.llvm.native import module_of, run, same_bits

_MACHINE = Machine("x86_64-unknown-linux-gnu", "x86-64", "", 16)


def _sines(count: int) -> Kernel:
    k = KernelBuilder("sines")
    x, y = k.argument("x", Prim.F32), k.argument("y", Prim.F32, writable=True)
    for position in range(count):
        k.store(y, position, scalar_function("sin")(k.load(x, position)))
    return k.build()


def _loop_of_sines(kind: LoopKind, count: int = 20) -> Kernel:
    k = KernelBuilder("sines")
    x, y = k.argument("x", Prim.F32), k.argument("y", Prim.F32, writable=True)
    with k.loop("i", 6, kind=kind) as i:
        for part in range(count):
            at = i * count + part
            k.store(y, at, scalar_function("sin")(k.load(x, at)))
    return k.build()


def _calls(kernel: Kernel) -> int:
    return emit_module(module_of(kernel), _MACHINE).text.count(") noinline\n")


def test_many_calls_in_straight_line_code_are_not_inlined() -> None:
    assert _calls(_sines(20)) == 20


def test_few_calls_are_inlined() -> None:
    assert _calls(_sines(4)) == 0


@pytest.mark.parametrize("kind", [LoopKind.SERIAL, LoopKind.SIMD, LoopKind.PARALLEL])
def test_calls_in_loops_are_inlined(kind: LoopKind) -> None:
    assert _calls(_loop_of_sines(kind)) == 0


@pytest.mark.parametrize("kind", [LoopKind.SERIAL, LoopKind.SIMD])
def test_very_many_calls_in_a_loop_are_not_inlined(kind: LoopKind) -> None:
    assert _calls(_loop_of_sines(kind, 50)) >= 50


def test_called_functions_give_the_bits_of_the_interpreter() -> None:
    kernel = _sines(20)
    x = np.random.default_rng(0).normal(0, 100, 20).astype(np.float32)
    actual, expected = np.zeros(20, np.float32), np.zeros(20, np.float32)
    run(kernel, [x, actual])
    run_kernel(kernel, {"x": x, "y": expected})
    assert same_bits(actual, expected)
