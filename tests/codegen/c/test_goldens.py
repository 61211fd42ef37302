"""What the C looks like: one idea per golden file, compiled and reviewed as code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlx.codegen.c.emit import emit_kernel, emit_module
from rlx.codegen.loops.builder import KernelBuilder, function
from rlx.codegen.loops.expr import E, call, const, fma, maximum, select
from rlx.codegen.loops.nodes import (
    BinaryOp,
    Kernel,
    LoopKind,
    Module,
    Prim,
    Status,
    ValueType,
    Var,
)
from tests.codegen.c.native import COMPILERS, compile_strictly

Golden = Callable[[str, str], None]


def elementwise() -> Kernel:
    k = KernelBuilder("scale_shift_2x3")
    x = k.argument("x", Prim.F32)
    y = k.argument("y", Prim.F32, writable=True)
    with k.loop("i", 6, kind=LoopKind.SIMD) as i:
        k.store(y, i, k.load(x, i) * 2.0 + 0.1)
    return k.build(["mul, add -> %4", "at model.py:12 in scale"])


def row_sums() -> Kernel:
    k = KernelBuilder("reduce_sum_2x3")
    x = k.argument("x", Prim.F32)
    y = k.argument("y", Prim.F32, writable=True)
    with k.loop("row", 2, kind=LoopKind.PARALLEL) as row:
        total = k.mutable("total", const(0.0, Prim.F32))
        with k.loop("column", 3, kind=LoopKind.SIMD, accumulators=[(total, BinaryOp.ADD)]) as c:
            total.set(total + k.load(x, row * 3 + c))
        k.store(y, row, maximum(total, 0.0))
    return k.build(["reduce_sum, relu -> %2"])


def gather() -> Kernel:
    k = KernelBuilder("gather_4")
    table = k.argument("table", Prim.F32)
    indices = k.argument("indices", Prim.I64)
    y = k.argument("y", Prim.F32, writable=True)
    n = k.scalar("n")
    with k.loop("i", n) as i:
        at = k.let("at", k.load(indices, i))
        with k.if_((at < 0) | (at >= 4)):
            k.fail(Status.INDEX_OUT_OF_RANGE, i)
        with k.loop("j", 3) as j:
            k.store(y, i * 3 + j, k.load(table, at * 3 + j))
    return k.build(["gather axis 0 -> %5"])


def integers() -> Kernel:
    """Data wraps through helpers, indices print plainly."""
    k = KernelBuilder("hash_6")
    x = k.argument("x", Prim.I32)
    y = k.argument("y", Prim.I32, writable=True)
    with k.loop("i", 3) as i:
        value = k.let("value", k.load(x, i * 2 + 1) * 31 + 7)
        k.store(y, i, value ^ (value >> 16))
    return k.build()


def vectors() -> Kernel:
    k = KernelBuilder("tile_16")
    x = k.argument("x", Prim.F32)
    y = k.argument("y", Prim.F32, writable=True, may_alias=True)
    v = k.let("v", k.load(x, 0, 16))
    scaled = k.let("scaled", fma(v, v, const(1.0, Prim.F32, 16)))
    k.store(y, 16, select(v > 0.5, scaled, v * 2.0))
    k.store(y, 0, scaled.fold(BinaryOp.ADD))
    return k.build()


KERNELS = (elementwise(), row_sums(), gather(), integers(), vectors())


@pytest.mark.parametrize("kernel", KERNELS, ids=[kernel.name for kernel in KERNELS])
def test_kernel_reads_as_its_golden(kernel: Kernel, golden: Golden) -> None:
    golden(f"{kernel.name}.c", emit_kernel(kernel) + "\n")


def demo_module() -> Module:
    """A math function, a kernel that can fail, and an entry that calls both kernels."""
    x = Var("x", ValueType(Prim.F32))
    soft_sign = function("soft_sign", "x / (1 + |x|)", [x], E(x) / (abs(E(x)) + 1.0))
    k = KernelBuilder("soft_sign_6")
    source = k.argument("x", Prim.F32)
    target = k.argument("y", Prim.F32, writable=True)
    with k.loop("i", 6, kind=LoopKind.SIMD) as i:
        k.store(target, i, call(soft_sign, k.load(source, i)))
    kernel, failing = k.build(["soft_sign -> %1"]), gather()
    entry = KernelBuilder("demo_run")
    arena = entry.argument("arena", Prim.U8, writable=True, may_alias=True)
    n = entry.scalar("n")
    floats = [entry.address(arena, at, prim=Prim.F32) for at in (64, 128)]
    indices = entry.address(arena, 192, prim=Prim.I64)
    result = entry.address(arena, 256, prim=Prim.F32, writable=True)
    middle = entry.address(arena, 128, prim=Prim.F32, writable=True)
    entry.invoke(kernel, [floats[0], middle])
    entry.invoke(failing, [floats[1], indices, result], [n], origin=5)
    return Module("demo", (soft_sign,), (kernel, failing), (entry.build(["demo: run"]),))


def test_module_reads_as_its_golden(golden: Golden) -> None:
    golden("module.c", emit_module(demo_module()))


@pytest.mark.parametrize("compiler", COMPILERS)
def test_goldens_compile_without_a_warning(compiler: str, tmp_path: Path) -> None:
    for text in _units():
        compile_strictly(compiler, text, tmp_path)


def _units() -> Iterator[str]:
    """Yield a unit for each kernel, called by an exported entry so that it counts as used."""
    yield emit_module(demo_module())
    for kernel in KERNELS:
        entry = KernelBuilder("run")
        arguments = [
            entry.argument(buffer.name, buffer.prim, writable=buffer.writable, may_alias=True)
            for buffer in kernel.buffers
        ]
        scalars = [entry.scalar(scalar.name) for scalar in kernel.scalars]
        addresses = [entry.address(b, writable=b.writable) for b in arguments]
        entry.invoke(kernel, addresses, scalars)
        yield emit_module(Module("unit", (), (kernel,), (entry.build(),)))
