"""Modules as loaded machine code, through LLVM: the backend that needs no C compiler.

    backend = LlvmBackend()
    native = backend.load(module, target)
    native.address("run")

Large modules are compiled in parts, on several threads. The object code of each part is cached by
what determines it: the IR text, LLVM's version and the options.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Protocol, TypeAlias

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
        objects = self._objects(code.keys, parts, machine, threads)
        loaded = load_objects(objects, code, self.resolve)
        source = functools.cache(lambda: (emit_module(module, machine, slots=slots), machine))
        return LlvmModule(code, loaded, source, self.options)

    def _objects(
        self, keys: Sequence[str], parts: Sequence[Part], machine: Machine, threads: int
    ) -> list[bytes]:
        """Return the object code of each part; what is not in the cache is compiled and kept."""
        cache, found = self.cache, dict[str, bytes]()
        for key in keys:
            content = None if cache is None else cache.read(key, ".o")
            if content is not None:
                found[key] = content
        missing = {k: part for k, part in zip(keys, parts, strict=True) if k not in found}
        made = binding.compile_objects(list(missing.values()), machine, threads) if missing else []
        for key, code in zip(missing, made, strict=True):
            found[key] = code
            if cache is not None:
                cache.keep(key, ".o", code)
        return [found[key] for key in keys]


def _object_key(part: Part, machine: Machine) -> str:
    """Name an object by all that determines it."""
    text, options = part
    digest = hashlib.sha256()
    for each in (binding.version(), repr(machine), repr(options), text):
        digest.update(each.encode())
        digest.update(b"\0")
    return digest.hexdigest()
