"""The C backend: a module becomes C text, a cached shared library, and entry addresses."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.codegen.c.collectives import is_collective
from rlx.codegen.foreign import foreign_symbols, slot_name
from rlx.codegen.machine_code import MachineCode
from rlx.dataclass import dataclass
from rlx.errors import FormatError, InputError
from rlx.runtime.blas import find_blas, is_blas
from rlx.runtime.cache import Cache, cache_directory, content_key
from rlx.runtime.foreign import slot_of
from rlx.runtime.mpi import mpi_flags
from rlx.runtime.native import SharedLibrary, pointer_to
from rlx.runtime.probe import proven_flags
from rlx.runtime.toolchain import Toolchain, find_toolchain
from rlx.target import Target

if TYPE_CHECKING:
    from rlx.codegen.loops.nodes import Module

_ABI_VERSION = "1"


@dataclass(frozen=True, slots=True)
class CModule:
    """A loaded shared library, and the C text that it was compiled from on demand."""

    code: MachineCode
    library: SharedLibrary
    _source: Callable[[], str] = field(repr=False)

    @property
    def text(self) -> str:
        return self._source()

    def address(self, name: str) -> int:
        return self.library.address(name)


@dataclass(frozen=True, slots=True)
class CBackend:
    """Compiles with the C compiler of this environment, or with `toolchain`."""

    toolchain: Toolchain | None = None
    cache: Cache | None = None
    more_flags: tuple[str, ...] = ()
    """Behind those that the compiler is given anyway."""
    blas: str = "auto"
    """The library that calls of BLAS go to, as in `find_blas`."""

    @property
    def name(self) -> str:
        return "c"

    def load(self, module: Module, target: Target) -> CModule:
        externals = _externals(module)
        names = self._blas_names(externals, target)
        entries = tuple(entry.name for entry in module.entries)
        loaded = self._load(_c_text(module), target, _more_flags(externals), entries, names)
        slots = {symbol: slot_of(symbol) for symbol in foreign_symbols(module)}
        _fill_slots(loaded.library, slots)
        self._fill_blas_slots(loaded.library, names, target)
        return loaded

    def load_text(self, text: str, target: Target, more_flags: Sequence[str] = ()) -> CModule:
        """Compile and load C as it is: a module's, maybe edited; `more_flags` come last."""
        return self._load(text, target, more_flags, (), {})

    def load_file(self, path: Path, target: Target, more_flags: Sequence[str] = ()) -> CModule:
        """Compile and load the C in a file that a user edited."""
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(
                f"cannot read {path}: {error.strerror}",
                remedy="check the path and its permissions",
            ) from error
        except UnicodeDecodeError as error:
            raise FormatError(
                f"{path} is no C in UTF-8: {error}", remedy="save the file as UTF-8 text"
            ) from error
        return self.load_text(text, target, more_flags)

    def reload(
        self, code: MachineCode, target: Target, module: Callable[[], Module]
    ) -> CModule | None:
        names = self._blas_names([name for name, _ in code.externals], target)
        library = (self.cache or Cache(cache_directory())).find(code.key, ".so")
        if library is None or tuple(names.items()) != code.externals:
            return None
        source = functools.cache(lambda: _c_text(module()))
        loaded = CModule(code, SharedLibrary(library), source)
        self._fill_blas_slots(loaded.library, names, target)
        return loaded

    def version(self, target: Target) -> str:
        toolchain = self.toolchain or find_toolchain()
        flags = (*proven_flags(toolchain, target), *self.more_flags)
        return repr((toolchain.command, toolchain.version, flags, _ABI_VERSION))

    def _blas_names(self, externals: Sequence[str], target: Target) -> dict[str, str]:
        """Return what the library calls its functions; loads it if there are any."""
        names = [name for name in externals if is_blas(name)]
        if not names:
            return {}
        blas = find_blas(target, self.blas)
        return {name: blas.symbol(name) for name in names}

    def _fill_blas_slots(
        self, library: SharedLibrary, names: Mapping[str, str], target: Target
    ) -> None:
        if names:
            blas = find_blas(target, self.blas)
            _fill_slots(library, {name: blas.slot(name) for name in names})

    def _load(
        self,
        text: str,
        target: Target,
        more_flags: Sequence[str],
        entries: tuple[str, ...],
        names: Mapping[str, str],
    ) -> CModule:
        toolchain = self.toolchain or find_toolchain()
        cache = self.cache or Cache(cache_directory())
        flags = (*proven_flags(toolchain, target), *more_flags, *self.more_flags)
        # The compiler takes `native` from this CPU: a shared cache must distinguish CPUs.
        machine = (target.architecture, target.cpu, *sorted(target.features))
        key = content_key(
            text, *toolchain.command, toolchain.version, *flags, *machine, _ABI_VERSION
        )
        source = cache.fetch(key, ".c", lambda path: _write(path, text))
        library = cache.fetch(
            key, ".so", lambda path: toolchain.compile_library(source, path, flags)
        )
        code = MachineCode(key, entries, tuple(names.items()))
        return CModule(code, SharedLibrary(library), lambda: text)


def _c_text(module: Module) -> str:
    from rlx.codegen.c.emit import emit_module
    from rlx.codegen.c.slots import slots_text
    from rlx.codegen.c.sources import sources_of

    # Under their own names, the loader might bind the calls to functions that are loaded already.
    externals = _externals(module)
    slots = [*foreign_symbols(module), *filter(is_blas, externals)]
    text = emit_module(module, symbols={symbol: f"rlx_call_{symbol}" for symbol in slots})
    return text + sources_of(externals) + slots_text(module, slots)


def _fill_slots(library: SharedLibrary, slots: Mapping[str, int | None]) -> None:
    """Tell a library where the addresses of the functions that it calls are kept."""
    for symbol, slot in slots.items():
        assert slot is not None  # they are those of targets
        pointer_to(library.address(slot_name(symbol)), "uintptr_t *")[0] = slot


def _more_flags(externals: Sequence[str]) -> tuple[str, ...]:
    """Return the flags that functions need which are compiled with the module."""
    return mpi_flags() if any(map(is_collective, externals)) else ()


def _externals(module: Module) -> list[str]:
    from rlx.codegen.c.prototypes import external_symbols

    return external_symbols((*module.kernels, *module.entries))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
