"""What tests of passes share: a kernel to build, its text, and runs before and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class after:  # noqa: N801  read as a decorator
    """A pass; what it makes of a kernel that a decorated function writes is a test."""

    kernel_pass: KernelPass

    def gives(self, expected: str) -> Callable[[Write], Callable[[], None]]:
        """Make a test that the pass makes `expected` of the kernel."""
        return lambda write: _test(write, lambda: check(self.kernel_pass, write, expected))

    def changes_nothing(self, *, may_alias: bool = False) -> Callable[[Write], Callable[[], None]]:
        """Make a test that the pass leaves the kernel alone."""
        return lambda write: _test(
            write, lambda: unchanged(self.kernel_pass, write, may_alias=may_alias)
        )


def _test(write: Write, run: Callable[[], None]) -> Callable[[], None]:
    """Return `run` with the name of the function that writes a kernel."""
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(run, name, getattr(write, name))
    return run


def results(kernel: Kernel) -> np.ndarray:
    """Return what a kernel writes for some arguments."""
    random = np.random.default_rng(3)
    buffers = {
        buffer.name: random.standard_normal(ELEMENTS).astype(numpy_dtype(buffer.prim))
        for buffer in kernel.buffers
    }
    run_kernel(kernel, buffers)
    return buffers["y"]
