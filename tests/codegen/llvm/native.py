"""Calling one kernel through the LLVM backend, on NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.codegen.llvm.jit import LlvmBackend
from rlx.codegen.llvm.module import LlvmModule
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import Invoke, Kernel, Module, Prim
from rlx.target import detect_target

Array = NDArray[Any]
ORIGIN = 7
"""The node number that the entry gives to its one call."""


def module_of(kernel: Kernel, *, bounds: tuple[int, int] | None = None) -> Module:
    """Return a module whose entry `run(header, buffers..., scalars...)` invokes `kernel`."""
    entry = KernelBuilder("run")
    entry.argument("header", Prim.I64, writable=True)
    buffers = [
        entry.argument(f"buffer_{position}", buffer.prim, writable=buffer.writable)
        for position, buffer in enumerate(kernel.buffers)
    ]
    scalars = [entry.scalar(f"scalar_{scalar.name}", scalar.type.prim) for scalar in kernel.scalars]
    limits = None
    if bounds is not None:
        limits = (entry.let("first", bounds[0]), entry.let("last", bounds[1]))
    entry.invoke(
        kernel,
        [entry.address(buffer) for buffer in buffers],
        scalars,
        bounds=limits,
        origin=ORIGIN,
    )
    return Module("test", (), (*_callees(kernel), kernel), (entry.build(),))


def load(kernel: Kernel, *, bounds: tuple[int, int] | None = None) -> LlvmModule:
    return LlvmBackend().load(module_of(kernel, bounds=bounds), detect_target())


def call(
    native: LlvmModule, header: Array, arrays: Sequence[Array], scalars: Sequence[int] = ()
) -> int:
    """Call the entry `run`; returns its status."""
    types = [ctypes.c_void_p] * (1 + len(arrays)) + [ctypes.c_int64] * len(scalars)
    function = ctypes.CFUNCTYPE(ctypes.c_int, *types)(native.address("run"))
    return int(function(*(array.ctypes.data for array in (header, *arrays)), *scalars))


def run(
    kernel: Kernel,
    arrays: Sequence[Array],
    scalars: Sequence[int] = (),
    *,
    bounds: tuple[int, int] | None = None,
) -> None:
    """Compile and call `kernel`, which must not fail."""
    assert call(load(kernel, bounds=bounds), np.zeros(8, np.int64), arrays, scalars) == 0


def aligned(count: int, dtype: type[Any]) -> Array:
    """Return uninitialized elements on a 64-byte boundary."""
    size = count * np.dtype(dtype).itemsize
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype)


def same_bits(actual: Array, expected: Array) -> bool:
    """True for equal dtypes and equal bits; NaNs need only both be NaN."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    if actual.dtype.kind != "f":
        return bool(np.array_equal(actual, expected))
    unsigned = np.dtype(f"u{actual.dtype.itemsize}")
    equal = actual.view(unsigned) == np.ascontiguousarray(expected).view(unsigned)
    return bool(np.all(equal | (np.isnan(actual) & np.isnan(expected))))


def _callees(kernel: Kernel) -> list[Kernel]:
    return [statement.kernel for statement in kernel.body if isinstance(statement, Invoke)]


def number(value: E | None) -> E:
    """Return the result of an external call that has one."""
    assert value is not None
    return value
