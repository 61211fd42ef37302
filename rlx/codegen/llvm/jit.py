"""Modules as loaded machine code, through LLVM: the backend that needs no C compiler.

    backend = LlvmBackend()
    native = backend.load(module, target)
    native.address("run")

Large modules are compiled in parts, on several threads. The object code of each part is cached by
what determines it: the IR text, LLVM's version and the options. Code that is made quickly, for
the first tier (`runtime/tiers.py`), is not cached.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Protocol, TypeAlias

from rlx.codegen.foreign import foreign_symbols
from rlx.codegen.llvm import binding
from rlx.codegen.llvm.emit import emit_module, emit_parts
from rlx.codegen.llvm.machine import Machine
from rlx.codegen.llvm.module import LlvmModule, Source, load_objects
from rlx.codegen.llvm.optimize import Options
from rlx.codegen.loops.nodes import Module
from rlx.codegen.machine_code import MachineCode
from rlx.dataclass import dataclass
from rlx.target import Target

Part: TypeAlias = tuple[str, Options]


class ObjectCache(Protocol):
    """Where compiled objects are kept between processes."""

    def read(self, key: str, suffix: str) -> bytes | None:
        """Return the content of the file of `key`, or None where there is none."""
        ...

    def keep(self, key: str, suffix: str, content: bytes) -> None:
        """Store the file of `key`."""
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
        return self.emit(module, target).load()

    def emit(self, module: Module, target: Target) -> EmittedParts:
        """Return the text of `module`, which is compiled next."""
        machine = self.machine or binding.host_machine(target.vector_bytes)
        slots = foreign_symbols(module)
        emitted = emit_parts(module, machine, slots=slots)
        size = sum(len(part.text) for part in emitted)
        parts = [
            (p.text, self.options.resolved(size, needs_vectorizer=p.needs_vectorizer))
            for p in emitted
        ]
        code = MachineCode(
            keys=tuple(_object_key(part, machine) for part in parts),
            entries=tuple(entry.name for entry in module.entries),
            externals=tuple(dict.fromkeys((name, name) for p in emitted for name in p.externals)),
        )
        threads = min(target.cores, self.threads or target.cores)
        source = functools.cache(lambda: (emit_module(module, machine, slots=slots), machine))
        found = ((key, self.cached(key)) for key in code.keys)
        objects = {key: content for key, content in found if content is not None}
        pairs = zip(code.keys, parts, strict=True)
        missing = {key: part for key, part in pairs if key not in objects}
        return EmittedParts(self, machine, objects, missing, code, threads, source)

    def cached(self, key: str) -> bytes | None:
        """Return object code from the cache."""
        return None if self.cache is None else self.cache.read(key, ".o")

    def keep(self, key: str, content: bytes) -> None:
        """Store object code in the cache."""
        if self.cache is not None:
            self.cache.keep(key, ".o", content)


@dataclass(frozen=True, slots=True)
class EmittedParts:
    """A module whose parts are object code or text."""

    _backend: LlvmBackend
    _machine: Machine
    _objects: Mapping[str, bytes]
    """What was in the cache."""
    missing: Mapping[str, Part]
    _code: MachineCode
    threads: int
    _source: Source = field(repr=False)

    def load(self) -> LlvmModule:
        """Compile what is missing, keep it in the cache, and load all."""
        made = self._compiled(self.missing)
        for key, content in made.items():
            self._backend.keep(key, content)
        return self._loaded(made)

    def load_quickly(self) -> LlvmModule:
        """Load all, with quickly made code of what is missing."""
        quick = {key: (text, options.quick()) for key, (text, options) in self.missing.items()}
        return self._loaded(self._compiled(quick))

    def load_in_steps(self, may_go_on: Callable[[], bool]) -> LlvmModule | None:
        """Do as `load` does, on this thread alone, part by part: a fork waits for one of them.

        None once `may_go_on` is not true; the parts compiled until then are in the cache.
        """
        made = dict[str, bytes]()
        for key, part in self.missing.items():
            if not may_go_on():
                return None
            content = self._backend.cached(key)  # another process may have made it
            if content is None:
                content = self._compiled({key: part})[key]
                self._backend.keep(key, content)
            made[key] = content
        return self._loaded(made)

    def _compiled(self, parts: Mapping[str, Part]) -> dict[str, bytes]:
        if not parts:
            return {}
        made = binding.compile_objects(list(parts.values()), self._machine, self.threads)
        return dict(zip(parts, made, strict=True))

    def _loaded(self, made: Mapping[str, bytes]) -> LlvmModule:
        objects = {**self._objects, **made}
        in_order = [objects[key] for key in self._code.keys]
        loaded = load_objects(in_order, self._code, self._backend.resolve)
        return LlvmModule(self._code, loaded, self._source, self._backend.options)


def _object_key(part: Part, machine: Machine) -> str:
    """Name an object by all that determines it."""
    text, options = part
    digest = hashlib.sha256()
    for each in (binding.version(), repr(machine), repr(options), text):
        digest.update(each.encode())
        digest.update(b"\0")
    return digest.hexdigest()
