"""Every node kind of the loop language: LLVM's results are the interpreter's, bit for bit.

All samples are compiled as one module, with an entry for each.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from rlx.codegen.llvm.jit import LlvmBackend
from rlx.codegen.llvm.module import LlvmModule
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Invoke, Kernel, Module, Prim
from rlx.codegen.loops.visit import walk
from rlx.target import detect_target
from tests.codegen.llvm.native import ORIGIN, Array, aligned
from tests.codegen.loops.samples import SAMPLES, Sample, assert_same, run_sample


@pytest.fixture(scope="module")
def native() -> LlvmModule:
    entries = tuple(_entry(sample) for sample in SAMPLES)
    kernels: dict[str, Kernel] = {}
    for sample in SAMPLES:
        for kernel in (*_callees(sample.kernel), sample.kernel):
            kernels[kernel.name] = kernel
    module = Module("samples", (), tuple(kernels.values()), entries)
    return LlvmBackend().load(module, detect_target())


def _callees(kernel: Kernel) -> list[Kernel]:
    return [statement.kernel for statement in walk(kernel.body) if isinstance(statement, Invoke)]


def _entry(sample: Sample) -> Kernel:
    """Return an entry that takes the arena's header and what the sample's kernel takes."""
    k = KernelBuilder(f"run_{sample.name}")
    k.argument("header", Prim.I64, writable=True)
    arguments = [
        k.argument(buffer.name, buffer.prim, writable=buffer.writable)
        for buffer in sample.kernel.buffers
    ]
    scalars = [k.scalar(var.name, var.type.prim) for var in sample.kernel.scalars]
    limits = None
    if sample.bounds is not None:
        limits = k.let("first", sample.bounds[0]), k.let("last", sample.bounds[1])
    addresses = [k.address(buffer) for buffer in arguments]
    k.invoke(sample.kernel, addresses, scalars, bounds=limits, origin=ORIGIN)
    return k.build()


def _call(native: LlvmModule, sample: Sample) -> tuple[int, Array, dict[str, Array]]:
    header: Array = np.zeros(8, np.int64)
    buffers = {name: _copied(array) for name, array in sample.buffers.items()}
    pointers = [buffers[buffer.name].ctypes.data for buffer in sample.kernel.buffers]
    types: list[type] = [ctypes.c_void_p] * (1 + len(pointers))
    for var in sample.kernel.scalars:
        types.append(ctypes.c_double if var.type.prim is Prim.F64 else ctypes.c_int64)
    function = ctypes.CFUNCTYPE(ctypes.c_int, *types)(native.address(f"run_{sample.name}"))
    scalars = [sample.scalars[var.name] for var in sample.kernel.scalars]
    status = int(function(header.ctypes.data, *pointers, *scalars))
    return status, header, buffers


def _copied(array: Array) -> Array:
    result = aligned(array.size, array.dtype.type)
    result[:] = array
    return result


@pytest.mark.whole
@pytest.mark.parametrize("sample", SAMPLES, ids=[sample.name for sample in SAMPLES])
def test_sample_gives_the_interpreters_bits_and_status(native: LlvmModule, sample: Sample) -> None:
    expected = run_sample(sample)
    status, header, buffers = _call(native, sample)
    assert status == expected.outcome.status
    assert_same(expected.buffers, buffers)
    if status:
        # Each level records its own origin, so the entry's is the one that stays.
        assert header[:3].tolist() == [status, ORIGIN, expected.outcome.position]
