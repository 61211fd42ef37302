"""A graph on the back ends: lowered once for all of them, and kept in no cache.

Most programs go through LLVM's quick instruction selection, every fourth one through that which
users get; C takes turns through sets of flags.
"""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rlx.codegen.llvm.jit import LlvmBackend
from rlx.codegen.llvm.optimize import Options
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
from rlx.target import Target, detect_target

_THREADS = 2
_USERS_LEVEL_EVERY = 4
C_FLAGS: tuple[tuple[str, ...], ...] = ((), ("-O1",), ("-O2",))
"""Behind the flags that users get: none, and others in their place."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A program in the loop language, ready for any back end."""

    graph: Graph
    image: Image
    program: Program

    def loaded(self, backend: str, seed: int) -> Executable:
        """Return the program compiled by "llvm" or "c", in a way that depends on `seed`."""
        target = detect_target()
        native = _by_c(self.program, target, seed) if backend == "c" else _by_llvm(self, seed)
        kind = IoBindingExecutable if self.image.regions else Executable
        return kind(Origin.of(self.graph), self.program, native, image=self.image)


def lower(graph: Graph) -> Lowered:
    """Run passes, planning and lowering as `rlx.compile` does."""
    return Lowered(graph, *prepare(graph, _environment(), _THREADS))


@functools.cache
def _environment() -> ProgramCache:
    target = detect_target()
    lapack = Lapack(functools.partial(has_lapack, target))
    return ProgramCache.here(CachedLlvmBackend(), target, lapack)


def _by_llvm(lowered: Lowered, seed: int) -> NativeModule:
    options = Options() if seed % _USERS_LEVEL_EVERY == 0 else Options(code_level=0)
    backend = LlvmBackend(options=options, resolve=_blas_address)
    return backend.load(lowered.program.module, detect_target())


def _blas_address(symbol: str) -> int | None:
    return find_blas(detect_target()).address(symbol) if is_blas(symbol) else None


def _by_c(program: Program, target: Target, seed: int) -> NativeModule:
    with tempfile.TemporaryDirectory(prefix="rlx-fuzz-") as directory:  # loaded code stays mapped
        flags = C_FLAGS[seed // 5 % len(C_FLAGS)]
        return CBackend(cache=Cache(Path(directory)), more_flags=flags).load(program.module, target)
