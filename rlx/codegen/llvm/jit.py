"""Modules as loaded machine code, through LLVM: the backend that needs no C compiler.

    backend = LlvmBackend()
    native = backend.load(module, target)
    native.address("run")

Object code is cached by what determines it: the IR text, LLVM's version and the options.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
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

    def read(self, key: str) -> bytes | None: ...

    def write(self, key: str, content: bytes) -> None: ...


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


@dataclass(frozen=True, slots=True)
class LlvmBackend:
    """Compiles modules for the host CPU. `symbols` gives addresses of external functions that
    the process does not export by itself, such as those of a BLAS library."""

    options: Options = field(default_factory=Options)
    symbols: Mapping[str, int] = field(default_factory=dict)
    cache: ObjectCache | None = None

    @property
    def name(self) -> str:
        return "llvm"

    def load(self, module: Module, target: Target) -> LlvmModule:
        """Compile `module`, or take its object code from the cache, and load it."""
        machine = binding.host_machine(target.vector_bytes)
        text = emit_module(module, machine)
        exports = tuple(entry.name for entry in module.entries)
        loaded = binding.LoadedObject(self._object(text, machine), exports, self.symbols)
        return LlvmModule(text, machine, self.options, loaded, exports)

    def _object(self, text: str, machine: Machine) -> bytes:
        if self.cache is None:
            return binding.compile_object(text, machine, self.options)
        key = _object_key(text, machine, self.options)
        code = self.cache.read(key)
        if code is None:
            code = binding.compile_object(text, machine, self.options)
            self.cache.write(key, code)
        return code


def _object_key(text: str, machine: Machine, options: Options) -> str:
    """Name an object by all that determines it."""
    digest = hashlib.sha256()
    for part in (binding.version(), repr(machine), repr(options), text):
        digest.update(part.encode())
        digest.update(b"\0")
    return f"{digest.hexdigest()}.o"
