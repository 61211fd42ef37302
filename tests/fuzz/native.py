"""A graph on the back ends: lowered once for all of them, and kept in no cache.

Most programs go through LLVM's quick instruction selection, every fourth one through that which
users get; C takes turns through sets of flags, and through compilers. Some are made for lesser
machines of the same kind, which this one is, too: for vectors of 32 and of 16 bytes.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from rlx.codegen.llvm.binding import generic_machine
from rlx.codegen.llvm.jit import LlvmBackend
from rlx.codegen.llvm.optimize import Options
from rlx.codegen.loops.verify import verify_module
from rlx.codegen.lower import Program
from rlx.ir.graph import Graph
from rlx.runtime.backend import NativeModule
from rlx.runtime.blas import find_blas, has_lapack, is_blas
from rlx.runtime.c_backend import CBackend
from rlx.runtime.cache import Cache
from rlx.runtime.compile import prepare
from rlx.runtime.executable import Executable
from rlx.runtime.image import Image
from rlx.runtime.interface import Origin
from rlx.runtime.io_binding import IoBindingExecutable
from rlx.runtime.llvm_backend import CachedLlvmBackend
from rlx.runtime.programs import Lapack, ProgramCache
from rlx.runtime.toolchain import Toolchain, describe
from rlx.target import Target, detect_target, named_target

_THREADS = 2
_USERS_LEVEL_EVERY = 4
C_FLAGS: tuple[tuple[str, ...], ...] = ((), ("-O1",), ("-O2",))
"""After the flags that users get: none, and others in their place."""
_LEVELS = {5: "x86-64-v3", 10: "x86-64-v3", 13: "x86-64"}
"""By the rest of a seed: which machine, if not this one, a program is compiled for."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A program in the loop language, ready for any back end."""

    graph: Graph
    target: Target
    image: Image
    program: Program

    def loaded(self, backend: str, seed: int) -> Executable:
        """Return the program compiled by "llvm" or "c", in a way that depends on `seed`."""
        native = _by_c(self, seed) if backend == "c" else _by_llvm(self, seed)
        kind = IoBindingExecutable if self.image.regions else Executable
        return kind(Origin.of(self.graph), self.program, native, image=self.image)


def lower(graph: Graph, seed: int = 0) -> Lowered:
    """Run passes, planning and lowering as `rlx.compile` does, and verify the kernels."""
    return lower_on(target_of(seed), graph)


def lower_on(target: Target, graph: Graph) -> Lowered:
    """Do the same for a given machine."""
    image, program = prepare(graph, _environment(target), _THREADS)
    verify_module(program.module)
    return Lowered(graph, target, image, program)


def target_of(seed: int) -> Target:
    """Return the machine that a seed's program is compiled for: this one, or a lesser."""
    here = detect_target()
    level = _LEVELS.get(seed % 16)
    if level is None or here.architecture != "x86_64":
        return here
    lesser = replace(named_target(level), cores=here.cores)
    return lesser if all(map(here.has, lesser.features)) else here


@functools.cache
def _environment(target: Target) -> ProgramCache:
    lapack = Lapack(functools.partial(has_lapack, target))
    return ProgramCache.here(CachedLlvmBackend(), target, lapack)


def _by_llvm(lowered: Lowered, seed: int) -> NativeModule:
    options = Options() if seed % _USERS_LEVEL_EVERY == 0 else Options(code_level=0)
    here = lowered.target == detect_target()
    machine = None if here else generic_machine(None, lowered.target)
    backend = LlvmBackend(options=options, resolve=_blas_address, machine=machine)
    return backend.load(lowered.program.module, lowered.target)


def _blas_address(symbol: str) -> int | None:
    return find_blas(detect_target()).address(symbol) if is_blas(symbol) else None


def _by_c(lowered: Lowered, seed: int) -> NativeModule:
    flags = C_FLAGS[seed // 5 % len(C_FLAGS)]
    compiler = compilers()[seed // 15 % len(compilers())]
    if lowered.target != detect_target():
        flags = (*flags, f"-march={lowered.target.cpu}")  # the last one counts
    with tempfile.TemporaryDirectory(prefix="rlx-fuzz-") as directory:  # loaded code stays mapped
        backend = CBackend(compiler, Cache(Path(directory)), flags)
        return backend.load(lowered.program.module, lowered.target)


@functools.cache
def compilers() -> tuple[Toolchain | None, ...]:
    """Return the compiler that users get (None), and Clang, where that is another."""
    others = [describe(("clang",))] if shutil.which("clang") else []
    return (None, *others)
