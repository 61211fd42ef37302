"""Loops that round floats to bytes are written in vectors, with the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.codegen.c.byte_loops import explicit_byte_loops
from rlx.codegen.c.emit import emit_module
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import call
from rlx.codegen.loops.interpreter import run_kernel
from rlx.codegen.loops.math.integers import to_integer
from rlx.codegen.loops.nodes import Kernel, LoopKind, Module, Prim
from rlx.codegen.loops.verify import verify_kernel

DTYPES = {Prim.U8: np.uint8, Prim.I8: np.int8}


def rounding(length: int, prim: Prim, kind: LoopKind = LoopKind.SIMD) -> Kernel:
    k = KernelBuilder("to_bytes")
    x, y = k.argument("x", Prim.F32), k.argument("y", prim, writable=True)
    with k.loop("i", length, kind=kind) as i:
        k.store(y, i, call(to_integer(Prim.F32, prim, away=False), k.load(x, i) * 3.0))
    return k.build()


@pytest.mark.parametrize("prim", DTYPES)
@pytest.mark.parametrize("length", [8, 11, 64])
def test_rounding_loops_are_spelled_out_and_give_the_same_bytes(prim: Prim, length: int) -> None:
    kernel = rounding(length, prim)
    spelled = explicit_byte_loops(64)(kernel)
    verify_kernel(spelled)
    lanes = 16 if length == 64 else 8
    assert f"f32_to_{prim}_cut_x{lanes}(" in emit_module(Module("m", (), (spelled,), ()))
    x = np.linspace(-60, 120, length).astype(np.float32)
    x[0] = np.nan
    found, expected = (np.zeros(length, DTYPES[prim]) for _ in range(2))
    run_kernel(spelled, {"x": x, "y": found})
    run_kernel(kernel, {"x": x, "y": expected})
    np.testing.assert_array_equal(found, expected)


def test_other_loops_stay_as_they_are() -> None:
    serial = rounding(8, Prim.U8, LoopKind.SERIAL)
    assert explicit_byte_loops(64)(serial) is serial
    k = KernelBuilder("copy")
    x, y = k.argument("x", Prim.U8), k.argument("y", Prim.U8, writable=True)
    with k.loop("i", 8, kind=LoopKind.SIMD) as i:
        k.store(y, i, k.load(x, i))
    copy = k.build()
    assert explicit_byte_loops(64)(copy) is copy


@pytest.mark.parametrize(("source", "steps"), [(Prim.U8, 2), (Prim.I8, 2), (Prim.I16, 1)])
def test_vectors_become_wider_in_steps(source: Prim, steps: int) -> None:
    """GCC 12 takes lanes one by one where they become four times as wide."""
    k = KernelBuilder("wider")
    x, y = k.argument("x", source), k.argument("y", Prim.F32, writable=True)
    k.store(y, 0, k.load(x, 0, 16).cast(Prim.F32))
    text = emit_module(Module("m", (), (k.build(),), ()))
    body = text[text.index("wider(") :]
    assert body.count("__builtin_convertvector(") == steps
    assert body.count("i16x16)") == steps - 1
