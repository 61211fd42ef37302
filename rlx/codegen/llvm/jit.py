"""Modules as loaded machine code, through LLVM: the backend that needs no C compiler.

    backend = LlvmBackend()
    native = backend.load(module, target)
    native.address("run")

Large modules are compiled in parts, on several threads. Object code is cached by what determines
it: the IR text, LLVM's version and the options.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Protocol, TypeAlias

from rlx.codegen.aot.archive import archive_bytes
from rlx.codegen.foreign import foreign_symbols
from rlx.codegen.llvm import binding
from rlx.codegen.llvm.emit import emit_module, emit_parts
from rlx.codegen.llvm.machine import Machine
from rlx.codegen.llvm.module import LlvmModule, load_objects
from rlx.codegen.llvm.optimize import Options
from rlx.codegen.loops.nodes import Module
from rlx.codegen.machine_code import MachineCode
from rlx.dataclass import dataclass
from rlx.target import Target

Part: TypeAlias = tuple[str, Options]


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
    threads: int | None = None
    """Upper bound of those that compile the parts of a module; by default the process's cores."""

    @property
    def name(self) -> str:
        return "llvm"

    def load(self, module: Module, target: Target) -> LlvmModule:
        """Compile `module`, or take its object code from the cache, and load it."""
        machine = self.machine or binding.host_machine(target.vector_bytes)
        slots = foreign_symbols(module)
        emitted = emit_parts(module, machine, slots=slots)
        size = sum(len(part.text) for part in emitted)
        parts = [
            (p.text, self.options.resolved(size, needs_vectorizer=p.needs_vectorizer))
            for p in emitted
        ]
        code = MachineCode(
            key=_object_key(parts, machine),
            entries=tuple(entry.name for entry in module.entries),
            externals=tuple(dict.fromkeys((name, name) for p in emitted for name in p.externals)),
        )
        threads = min(target.cores, self.threads or target.cores)
        content = self._objects(code.key, parts, machine, threads)
        loaded = load_objects(content, code, self.resolve)
        source = functools.cache(lambda: (emit_module(module, machine, slots=slots), machine))
        return LlvmModule(code, loaded, source, self.options)

    def _objects(self, key: str, parts: Sequence[Part], machine: Machine, threads: int) -> bytes:
        def make() -> bytes:
            objects = binding.compile_objects(parts, machine, threads)
            if len(objects) == 1:
                return objects[0]
            return archive_bytes({f"{number}.o": each for number, each in enumerate(objects)}, {})

        return make() if self.cache is None else self.cache.content(key, ".o", make)


def _object_key(parts: Sequence[Part], machine: Machine) -> str:
    """Name an object by all that determines it."""
    digest = hashlib.sha256()
    known = (binding.version(), repr(machine))
    for part in (*known, *(part for text, options in parts for part in (repr(options), text))):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()
