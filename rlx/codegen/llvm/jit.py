"""Modules as loaded machine code, through LLVM: the backend that needs no C compiler.

    backend = LlvmBackend()
    native = backend.load(module, target)
    native.address("run")

Object code is cached by what determines it: the IR text, LLVM's version and the options.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import field
from typing import Protocol

from rlx.codegen.foreign import foreign_symbols
from rlx.codegen.llvm import binding
from rlx.codegen.llvm.emit import emit_module
from rlx.codegen.llvm.machine import Machine
from rlx.codegen.llvm.module import LlvmModule, load_object
from rlx.codegen.llvm.optimize import Options
from rlx.codegen.loops.nodes import Module
from rlx.codegen.machine_code import MachineCode
from rlx.dataclass import dataclass
from rlx.target import Target


class ObjectCache(Protocol):
    """Where compiled objects are kept between processes."""

    def content(self, key: str, suffix: str, make: Callable[[], bytes]) -> bytes:
        """Return the content of the file of `key`, made where there is none, and then stored."""
        ...


def _nowhere(_symbol: str) -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class LlvmBackend:
    """Compiles modules for the host CPU, or for a lesser `machine` of its kind.

    `resolve` gives the address of an external function, such as one of a BLAS library, or None
    for what the process exports by itself.
    """

    options: Options = field(default_factory=Options)
    resolve: Callable[[str], int | None] = _nowhere
    cache: ObjectCache | None = None
    machine: Machine | None = None

    @property
    def name(self) -> str:
        return "llvm"

    def load(self, module: Module, target: Target) -> LlvmModule:
        """Compile `module`, or take its object code from the cache, and load it."""
        machine = self.machine or binding.host_machine(target.vector_bytes)
        emitted = emit_module(module, machine, slots=foreign_symbols(module))
        options = self.options.resolved(emitted.text, needs_vectorizer=emitted.needs_vectorizer)
        code = MachineCode(
            key=_object_key(emitted.text, machine, options),
            entries=tuple(entry.name for entry in module.entries),
            externals=tuple((name, name) for name in emitted.externals),
        )
        content = self._object(code.key, emitted.text, machine, options)
        loaded = load_object(content, code, self.resolve)
        source = emitted, machine
        return LlvmModule(code, loaded, lambda: source, options)

    def _object(self, key: str, text: str, machine: Machine, options: Options) -> bytes:
        def make() -> bytes:
            return binding.compile_object(text, machine, options)

        return make() if self.cache is None else self.cache.content(key, ".o", make)


def _object_key(text: str, machine: Machine, options: Options) -> str:
    """Name an object by all that determines it."""
    digest = hashlib.sha256()
    for part in (binding.version(), repr(machine), repr(options), text):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()
