"""The C backend: a module becomes C text, a cached shared library, and entry addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlx.codegen.c.emit import emit_module
from rlx.codegen.c.prototypes import external_symbols
from rlx.codegen.c.sources import sources_of
from rlx.codegen.loops.nodes import Module
from rlx.runtime.blas import find_blas, is_blas
from rlx.runtime.cache import Cache, cache_directory, content_key
from rlx.runtime.native import SharedLibrary
from rlx.runtime.toolchain import Toolchain, find_toolchain
from rlx.target import Target

_ABI_VERSION = "1"


@dataclass(frozen=True, slots=True)
class CModule:
    """A loaded shared library and the C text that it was compiled from."""

    text: str
    source_path: Path
    library: SharedLibrary

    def address(self, name: str) -> int:
        return self.library.address(name)


@dataclass(frozen=True, slots=True)
class CBackend:
    """Compiles with the C compiler of this environment, or with `toolchain`."""

    toolchain: Toolchain | None = None
    cache: Cache | None = None

    @property
    def name(self) -> str:
        return "c"

    def load(self, module: Module, target: Target) -> CModule:
        text = emit_module(module, symbols=_external_names(module, target))
        return self.load_text(text + sources_of(_externals(module)), target)

    def load_text(self, text: str, target: Target, more_flags: Sequence[str] = ()) -> CModule:
        """Compile and load C as it is: a module's, maybe edited; `more_flags` come last."""
        toolchain = self.toolchain or find_toolchain()
        cache = self.cache or Cache(cache_directory())
        flags = (*toolchain.flags(target), *more_flags)
        # The compiler takes `native` from this CPU: a cache shared by machines must tell them.
        machine = (target.architecture, target.cpu, *sorted(target.features))
        key = content_key(
            text, *toolchain.command, toolchain.version, *flags, *machine, _ABI_VERSION
        )
        source = cache.fetch(key, ".c", lambda path: _write(path, text))
        library = cache.fetch(
            key, ".so", lambda path: toolchain.compile_library(source, path, flags)
        )
        return CModule(text, source, SharedLibrary(library))


def _external_names(module: Module, target: Target) -> dict[str, str]:
    """Return what the linker calls the BLAS functions of `module`; loads BLAS if it has any."""
    names = [name for name in _externals(module) if is_blas(name)]
    if not names:
        return {}
    blas = find_blas(target)
    return {name: blas.symbol(name) for name in names}


def _externals(module: Module) -> list[str]:
    return external_symbols((*module.kernels, *module.entries))


def _write(path: Path, text: str) -> None:
    path.write_text(text)
