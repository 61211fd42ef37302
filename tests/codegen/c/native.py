"""All samples as one C translation unit, compiled strictly, and called on NumPy arrays."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Invoke, Kernel, Module, Prim
from rlx.codegen.loops.visit import walk
from tests.codegen.loops.samples import Sample

Array = NDArray[Any]
ORIGIN = 7
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
# `-Wno-psabi`: wide vectors stay within static functions; artifacts silence it, too.
CODE = (
    "-march=native", "-Wno-psabi", "-fPIC", "-ffp-contract=off", "-fno-math-errno",
    "-fno-trapping-math", "-fopenmp-simd",
)  # fmt: skip
COMPILERS = tuple(name for name in ("gcc", "clang") if shutil.which(name))


def compile_strictly(
    compiler: str, text: str, directory: Path, flags: Sequence[str] = ("-O2",)
) -> Path:
    """Compile under the flags that our C promises to pass, and show the compiler's words."""
    library = directory / f"unit_{compiler}.so"
    _compile(compiler, text, directory, [*flags, "-o", str(library)])
    return library


def warn_strictly(compiler: str, text: str, directory: Path) -> None:
    """Parse for the warnings alone: those of analyses before optimization, all that clang has."""
    _compile(compiler, text, directory, ["-fsyntax-only"])


def _compile(compiler: str, text: str, directory: Path, flags: Sequence[str]) -> None:
    source = directory / "unit.c"
    source.write_text(text)
    linked = () if "-fsyntax-only" in flags else ("-shared", "-lm")  # clang warns of idle ones
    command = [compiler, *STRICT, *CODE, *flags, str(source), *linked]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[:5000]


def sample_module(samples: Sequence[Sample]) -> Module:
    """Return one module with an entry `run_<name>` for each sample."""
    kernels: dict[str, Kernel] = {}
    for sample in samples:
        for kernel in (*_callees(sample.kernel), sample.kernel):
            kernels[kernel.name] = kernel
    return Module("samples", (), tuple(kernels.values()), tuple(map(_entry, samples)))


def call_sample(library: ctypes.CDLL, sample: Sample) -> tuple[int, Array, dict[str, Array]]:
    """Return the status, the arena's header and the buffers after the call."""
    header: Array = np.zeros(8, np.int64)
    buffers = {name: aligned_copy(array) for name, array in sample.buffers.items()}
    pointers = [buffers[buffer.name].ctypes.data for buffer in sample.kernel.buffers]
    types: list[type] = [ctypes.c_void_p] * (1 + len(pointers))
    for var in sample.kernel.scalars:
        types.append(ctypes.c_double if var.type.prim is Prim.F64 else ctypes.c_int64)
    function = library[f"run_{sample.name}"]
    function.argtypes = types
    scalars = [sample.scalars[var.name] for var in sample.kernel.scalars]
    status = int(function(header.ctypes.data, *pointers, *scalars))
    return status, header, buffers


def aligned_copy(array: Array) -> Array:
    """Return a copy that starts at a cache line and ends at the end of its allocation."""
    size = array.nbytes
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    copied = raw[start : start + size].view(array.dtype)
    copied[:] = array
    return copied


def _callees(kernel: Kernel) -> list[Kernel]:
    return [statement.kernel for statement in walk(kernel.body) if isinstance(statement, Invoke)]


def _entry(sample: Sample) -> Kernel:
    k = KernelBuilder(f"run_{sample.name}")
    k.argument("header", Prim.I64, writable=True, may_alias=True)
    arguments = [
        k.argument(buffer.name, buffer.prim, writable=buffer.writable, may_alias=True)
        for buffer in sample.kernel.buffers
    ]
    scalars = [k.scalar(var.name, var.type.prim) for var in sample.kernel.scalars]
    limits = None
    if sample.bounds is not None:
        limits = k.let("first", sample.bounds[0]), k.let("last", sample.bounds[1])
    addresses = [k.address(buffer, writable=buffer.writable) for buffer in arguments]
    k.invoke(sample.kernel, addresses, scalars, bounds=limits, origin=ORIGIN)
    return k.build()
