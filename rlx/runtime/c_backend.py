"""The C backend: a module becomes C text, a cached shared library, and entry addresses."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.codegen.foreign import foreign_symbols, slot_name
from rlx.codegen.machine_code import MachineCode
from rlx.codegen.mpi_names import is_collective
from rlx.dataclass import dataclass
from rlx.errors import FormatError, InputError
from rlx.homes import later
from rlx.runtime.blas import find_blas, is_blas
from rlx.runtime.cache import Cache, cache_directory, content_key
from rlx.runtime.foreign import slot_of
from rlx.runtime.mpi import mpi_flags
from rlx.runtime.native import SharedLibrary, pointer_to
from rlx.runtime.probe import proven_flags
from rlx.runtime.thread_count import named_threads
from rlx.runtime.toolchain import Toolchain, find_toolchain
from rlx.target import Target

if TYPE_CHECKING:
    import tempfile

    from rlx.codegen.loops.nodes import Module
else:
    (tempfile,) = later("tempfile")

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
    """After those that the compiler is given anyway."""
    blas: str = "auto"
    """The library that calls of BLAS go to, as in `find_blas`."""

    @property
    def name(self) -> str:
        return "c"

    def load(self, module: Module, target: Target) -> CModule:
        externals = _externals(module)
        names = self._blas_names(externals, target)
        code = MachineCode((), tuple(entry.name for entry in module.entries), tuple(names.items()))
        texts = _c_units(module)
        source = (lambda: texts[0]) if len(texts) == 1 else functools.cache(lambda: _c_text(module))
        loaded = self._load(texts, target, _more_flags(externals), code, source)
        slots = {symbol: slot_of(symbol) for symbol in foreign_symbols(module)}
        _fill_slots(loaded.library, slots)
        self._fill_blas_slots(loaded.library, names, target)
        return loaded

    def load_text(self, text: str, target: Target, more_flags: Sequence[str] = ()) -> CModule:
        """Compile and load C as it is: a module's, maybe edited; `more_flags` come last."""
        return self._load([text], target, more_flags, MachineCode((), (), ()), lambda: text)

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
                f"{path} is not C in UTF-8: {error}", remedy="save the file as UTF-8 text"
            ) from error
        return self.load_text(text, target, more_flags)

    def reload(
        self, code: MachineCode, target: Target, module: Callable[[], Module]
    ) -> CModule | None:
        names = self._blas_names([name for name, _ in code.externals], target)
        library = (self.cache or Cache(cache_directory())).find(code.keys[0], ".so")
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
        texts: Sequence[str],
        target: Target,
        more_flags: Sequence[str],
        code: MachineCode,
        source: Callable[[], str],
    ) -> CModule:
        """Compile the units of a library, or find it, and load it. `code` gets its key."""
        toolchain = self.toolchain or find_toolchain()
        cache = self.cache or Cache(cache_directory())
        flags = (*proven_flags(toolchain, target), *more_flags, *self.more_flags)
        # The compiler takes `native` from this CPU: a shared cache must distinguish CPUs.
        machine = (target.architecture, target.cpu, *sorted(target.features))
        same = (*toolchain.command, toolchain.version, *flags, *machine, _ABI_VERSION)
        keys = [content_key(text, *same) for text in texts]
        if len(texts) == 1:
            key = keys[0]
            file = cache.fetch(key, ".c", lambda path: _write(path, texts[0]))
            library = cache.fetch(
                key, ".so", lambda path: toolchain.compile_library(file, path, flags)
            )
        else:
            key = content_key(*keys)
            units = _Units(
                toolchain, cache, flags, min(target.cores, named_threads() or target.cores)
            )
            library = cache.fetch(key, ".so", lambda path: units.link(texts, keys, path))
        return CModule(replace(code, keys=(key,)), SharedLibrary(library), source)


@dataclass(frozen=True, slots=True)
class _Units:
    """Compiles the units of one library at the same time; each one's object is in the cache."""

    toolchain: Toolchain
    cache: Cache
    flags: tuple[str, ...]
    processes: int

    def link(self, texts: Sequence[str], keys: Sequence[str], library: Path) -> None:
        """Write the shared library of the units."""
        with tempfile.TemporaryDirectory(dir=library.parent) as directory:
            places = [Path(directory) / f"{number}.c" for number in range(len(texts))]
            missing: dict[str, Path] = {}
            for text, key, place in zip(texts, keys, places, strict=True):
                content = self.cache.read(key, ".o")
                if content is None:
                    _write(place, text)
                    missing[key] = place
                else:
                    place.with_suffix(".o").write_bytes(content)
            largest = sorted(missing.values(), key=lambda place: -place.stat().st_size)
            self.toolchain.compile_objects(largest, self.flags, self.processes)
            for key, place in missing.items():
                self.cache.keep(key, ".o", place.with_suffix(".o").read_bytes())
            objects = [place.with_suffix(".o") for place in places]
            self.toolchain.link_library(objects, library, self.flags)


def _c_text(module: Module) -> str:
    """Return the C text of a module as one unit."""
    from rlx.codegen.c.emit import emit_module

    slots = _slots(module)
    return emit_module(module, symbols=slots) + _definitions(module, list(slots))


def _c_units(module: Module) -> tuple[str, ...]:
    """Return the C texts that a module is compiled as, on all cores; one for a small module."""
    from rlx.codegen.c.emit import emit_parts

    slots = _slots(module)
    *units, last = emit_parts(module, symbols=slots)
    return (*units, last + _definitions(module, list(slots)))


def _slots(module: Module) -> dict[str, str]:
    """Return what functions that are called by slots are called in the text.

    Under their own names, the loader might bind the calls to functions that are loaded already.
    """
    symbols = [*foreign_symbols(module), *filter(is_blas, _externals(module))]
    return {symbol: f"rlx_call_{symbol}" for symbol in symbols}


def _definitions(module: Module, slots: Sequence[str]) -> str:
    """Return the C text of the external functions that are defined with the module."""
    from rlx.codegen.c.slots import slots_text
    from rlx.codegen.c.sources import sources_of

    return sources_of(_externals(module)) + slots_text(module, slots)


def _fill_slots(library: SharedLibrary, slots: Mapping[str, int | None]) -> None:
    """Store in a library where the addresses of the functions that it calls are kept."""
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
