"""What tests of passes share: a kernel to build, its text, and runs before and after."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import numpy as np

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.evaluate import numpy_dtype
from rlx.codegen.loops.interpreter import run_kernel
from rlx.codegen.loops.nodes import Buffer, Kernel, Prim
from rlx.codegen.loops.passes.pipeline import KernelPass
from rlx.codegen.loops.printer import format_kernel
from rlx.codegen.loops.verify import verify_kernel

ELEMENTS = 64
"""Of every argument."""

Write = Callable[[KernelBuilder, Buffer, Buffer], None]
"""Writes a kernel that reads `x` and writes `y`."""


def kernel_of(write: Write, *, may_alias: bool = False) -> Kernel:
    k = KernelBuilder("kernel")
    x = k.argument("x", Prim.F64, may_alias=may_alias)
    y = k.argument("y", Prim.F64, writable=True, may_alias=may_alias)
    write(k, x, y)
    return k.build()


def text(kernel: Kernel) -> str:
    """Return the lines of a kernel's body."""
    return dedent("\n".join(format_kernel(kernel).splitlines()[1:])).strip()


def check(kernel_pass: KernelPass, write: Write, expected: str) -> None:
    """Assert that a pass makes `expected` of a kernel, and that it computes what it did."""
    before = kernel_of(write)
    after = kernel_pass(before)
    verify_kernel(after)
    assert text(after) == dedent(expected).strip()
    np.testing.assert_array_equal(results(after), results(before))


def unchanged(kernel_pass: KernelPass, write: Write, *, may_alias: bool = False) -> None:
    """Assert that a pass leaves a kernel alone."""
    kernel = kernel_of(write, may_alias=may_alias)
    assert text(kernel_pass(kernel)) == text(kernel)


def results(kernel: Kernel) -> np.ndarray:
    """Return what a kernel writes for some arguments."""
    random = np.random.default_rng(3)
    buffers = {
        buffer.name: random.standard_normal(ELEMENTS).astype(numpy_dtype(buffer.prim))
        for buffer in kernel.buffers
    }
    run_kernel(kernel, buffers)
    return buffers["y"]
