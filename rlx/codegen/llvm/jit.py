"""Modules as loaded machine code, through LLVM: the backend that needs no C compiler.

    backend = LlvmBackend()
    native = backend.load(module, target)
    native.address("run")

Object code is cached by what determines it: the IR text, LLVM's version and the options.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rlx.codegen.llvm import binding
from rlx.codegen.llvm.emit import emit_module
from rlx.codegen.llvm.machine import Machine
from rlx.codegen.llvm.optimize import Options
from rlx.codegen.loops.nodes import Module
from rlx.errors import ToolchainError
from rlx.target import Target


class ObjectCache(Protocol):
    """Where compiled objects are kept between processes."""

    def fetch(self, key: str, suffix: str, make: Callable[[Path], None]) -> Path:
        """Return the file of `key`, calling `make(path)` to write it where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class LlvmModule:
    """Loaded machine code. The code lives as long as this object does."""

    text: str
    machine: Machine
    options: Options
    _loaded: binding.LoadedObject = field(repr=False)
    _exports: tuple[str, ...]

    def address(self, name: str) -> int:
        """Return the address of the entry point called `name`."""
        if name not in self._exports:
            known = ", ".join(self._exports)
            raise ToolchainError(f"the module has no entry {name!r}; its entries are: {known}")
        return self._loaded.address(name)

    @property
    def optimized_text(self) -> str:
        """The IR after LLVM's optimizer; computed on demand, for reading."""
        return binding.optimize_text(self.text, self.machine, self.options)

    @property
    def assembly(self) -> str:
        """The machine's assembly; computed on demand, for reading."""
        return binding.compile_assembly(self.text, self.machine, self.options)


def _nowhere(_symbol: str) -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class LlvmBackend:
    """Compiles modules for the host CPU.

    `resolve` gives the address of an external function, such as one of a BLAS library, or None
    for what the process exports by itself.
    """

    options: Options = field(default_factory=Options)
    resolve: Callable[[str], int | None] = _nowhere
    cache: ObjectCache | None = None

    @property
    def name(self) -> str:
        return "llvm"

    def load(self, module: Module, target: Target) -> LlvmModule:
        """Compile `module`, or take its object code from the cache, and load it."""
        machine = binding.host_machine(target.vector_bytes)
        emitted = emit_module(module, machine)
        options = self.options.resolved(needs_vectorizer=emitted.needs_vectorizer)
        exports = tuple(entry.name for entry in module.entries)
        code = self._object(emitted.text, machine, options)
        symbols = {symbol: self._address_of(symbol) for symbol in emitted.externals}
        loaded = binding.LoadedObject(code, exports, symbols)
        return LlvmModule(emitted.text, machine, options, loaded, exports)

    def _object(self, text: str, machine: Machine, options: Options) -> bytes:
        if self.cache is None:
            return binding.compile_object(text, machine, options)

        def make(path: Path) -> None:
            path.write_bytes(binding.compile_object(text, machine, options))

        return self.cache.fetch(_object_key(text, machine, options), ".o", make).read_bytes()

    def _address_of(self, symbol: str) -> int:
        address = self.resolve(symbol) or binding.process_symbol(symbol)
        if address is None:
            raise ToolchainError(
                f"the module calls {symbol}, which neither the process nor the given libraries have"
            )
        return address


def _object_key(text: str, machine: Machine, options: Options) -> str:
    """Name an object by all that determines it."""
    digest = hashlib.sha256()
    for part in (binding.version(), repr(machine), repr(options), text):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()
