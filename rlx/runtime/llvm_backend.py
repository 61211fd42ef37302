"""The LLVM backend as the runtime uses it: with our cache and BLAS.

LLVM is a large library; it is loaded by the first graph that asks for it.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.codegen.c.sources import is_source
from rlx.codegen.foreign import foreign_symbols
from rlx.codegen.llvm.module import LlvmModule, load_objects
from rlx.codegen.llvm.optimize import Options
from rlx.codegen.machine_code import MachineCode
from rlx.codegen.mpi_names import is_collective
from rlx.dataclass import dataclass
from rlx.errors import UnsupportedError
from rlx.runtime.backend import NativeModule
from rlx.runtime.blas import find_blas, is_blas
from rlx.runtime.c_backend import CBackend, CModule
from rlx.runtime.cache import Cache, cache_directory
from rlx.runtime.foreign import slot_of
from rlx.runtime.mpi import mpi_flags
from rlx.runtime.thread_count import named_threads
from rlx.runtime.toolchain import has_llvm as has_llvm
from rlx.runtime.toolchain import has_toolchain
from rlx.runtime.toolchain import require_llvm as require_llvm
from rlx.target import Target, detect_target

if TYPE_CHECKING:
    from rlx.codegen.llvm.emit import EmittedModule
    from rlx.codegen.llvm.jit import EmittedParts
    from rlx.codegen.llvm.machine import Machine
    from rlx.codegen.loops.nodes import Module


@dataclass(frozen=True, slots=True)
class CachedLlvmBackend:
    """Compiles with LLVM, keeping object code in `cache` (default: this environment's)."""

    cache: Cache | None = None
    blas: str = "auto"
    """The library that calls of BLAS go to, as in `find_blas`."""

    @property
    def name(self) -> str:
        return "llvm"

    def load(self, module: Module, target: Target) -> NativeModule:
        return self.emit(module, target).load()

    def emit(self, module: Module, target: Target) -> EmittedParts:
        """Return the text of `module`, which is compiled next."""
        from rlx.codegen.llvm.jit import LlvmBackend

        backend = LlvmBackend(
            resolve=self._resolver(target), cache=self._cache(), threads=named_threads()
        )
        return backend.emit(module, target)

    def reload(
        self, code: MachineCode, target: Target, module: Callable[[], Module]
    ) -> NativeModule | None:
        cache = self._cache()
        found = (cache.read(key, ".o") for key in code.keys)
        objects = [content for content in found if content is not None]
        if len(objects) < len(code.keys):
            return None
        loaded = load_objects(objects, code, self._resolver(target))
        return LlvmModule(code, loaded, functools.cache(lambda: _emitted(module())), Options())

    def version(self, target: Target) -> str:
        return f"{_llvm_files()} {Options()} {target.vector_bytes}"

    def _cache(self) -> Cache:
        return self.cache or Cache(cache_directory())

    def _resolver(self, target: Target) -> Callable[[str], int | None]:
        """Return what finds external names: BLAS, C that the user brought, slots of targets."""

        def resolve(symbol: str) -> int | None:
            if is_source(symbol):
                return _compiled(symbol, target)
            slot = slot_of(symbol)
            if slot is not None:
                return slot
            return find_blas(target, self.blas).address(symbol) if is_blas(symbol) else None

        return resolve


@functools.cache
def _llvm_files() -> str:
    """Identify the installed llvmlite without loading it."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return ""
    status = Path(spec.origin).with_name("_version.py").stat()
    return f"{spec.origin} {status.st_size} {status.st_mtime_ns}"


def _emitted(module: Module) -> tuple[EmittedModule, Machine]:
    require_llvm()
    from rlx.codegen.llvm.binding import host_machine
    from rlx.codegen.llvm.emit import emit_module

    machine = host_machine(detect_target().vector_bytes)
    return emit_module(module, machine, slots=foreign_symbols(module)), machine


def llvm_text(module: Module) -> str:
    """Return the LLVM IR of `module` for this machine."""
    return _emitted(module)[0].text


def llvm_assembly(module: Module) -> str:
    """Return the assembly that LLVM makes of `module` for this machine; nothing is loaded."""
    emitted, machine = _emitted(module)
    from rlx.codegen.llvm.binding import compile_assembly

    options = Options().resolved(len(emitted.text), needs_vectorizer=emitted.needs_vectorizer)
    return compile_assembly(emitted.text, machine, options)


def llvm_version() -> str:
    """Return LLVM's version; ImportError where llvmlite is missing."""
    from rlx.codegen.llvm.binding import version

    return version()


def _compiled(symbol: str, target: Target) -> int:
    """Return the address of a user's C function, compiled by itself."""
    if not has_toolchain():
        raise UnsupportedError(
            f"op {symbol} is written in C, and there is no C compiler here",
            remedy="install one, or give the op a kernel in the loop language",
        )
    from rlx.codegen.c.emit import emit_source  # prints C, which few programs need

    flags = mpi_flags() if is_collective(symbol) else ()
    library = CBackend().load_text(emit_source(symbol), target, flags)
    _LOADED[symbol] = library
    return library.address(symbol)


_LOADED: dict[str, CModule] = {}
"""Libraries that compiled code calls into: they stay as long as the process."""
