"""Compiled programs between processes: a graph compiled before is loaded, not compiled.

What is kept of a program is its image and the name of its machine code, under a digest of all
that they depend on: graph, backend, threads, machine, versions. Passes, planning, lowering and
printing are skipped; what they make is made again, from the same graph, when it is inspected.
A graph that has a name (`NamedGraph`) is not even built: under the name its interface is kept, too.
Whatever does not fit, is damaged or gone counts as not there.
"""

from __future__ import annotations

import functools
import json
import os
import platform
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

import rlx
from rlx.codegen.machine_code import MachineCode
from rlx.dataclass import dataclass
from rlx.errors import FormatError
from rlx.ir.graph import Graph, Value
from rlx.runtime.backend import Backend, NativeModule
from rlx.runtime.cache import Cache, cache_directory, content_key
from rlx.runtime.compiled_code import AnyProgram
from rlx.runtime.image import Image, dumps_image, loads_image
from rlx.runtime.interface import Interface, NamedGraph, interface_fields, interface_of
from rlx.target import Target

if TYPE_CHECKING:
    from rlx.codegen.loops.nodes import Module
    from rlx.codegen.schedule import Schedule
    from rlx.passes.memory.plan import MemoryPlan

_SUFFIX = ".rlxi"


class Lapack:
    """Whether LAPACK is available, and whether passes queried it: then a program depends on it."""

    def __init__(self, probe: Callable[[], bool]) -> None:
        self._probe = probe
        self.answer: bool | None = None

    def __call__(self) -> bool:
        if self.answer is None:
            self.answer = self._probe()
        return self.answer


@dataclass(frozen=True, slots=True)
class Kept:
    """A program as it comes out of the cache."""

    image: Image
    native: NativeModule
    interface: Interface | None
    """Of a program that has a name."""


@dataclass(frozen=True, slots=True)
class ProgramCache:
    """Programs of one backend for one machine."""

    backend: Backend
    target: Target
    lapack: Lapack
    cache: Cache
    blas: str = "auto"
    """The library that programs may call, as users name it."""
    wait: bool | None = None
    """True for programs in one tier of machine code, as in `rlx.compile`."""

    @staticmethod
    def here(
        backend: Backend,
        target: Target,
        lapack: Lapack,
        blas: str = "auto",
        *,
        wait: bool | None = None,
    ) -> ProgramCache:
        return ProgramCache(backend, target, lapack, Cache(cache_directory()), blas, wait)

    def key(self, graph: Graph | NamedGraph, threads: int) -> str | None:
        """Return the name of a compiled graph; None for one that is compiled every time."""
        digest = content_key("named", graph.name) if isinstance(graph, NamedGraph) else _of(graph)
        if digest is None:
            return None
        machine = (*machine_parts(self.target), self.backend.version(self.target))
        return content_key(
            digest, self.backend.name, self.blas, str(threads), *machine, *versions()
        )

    def load(self, key: str, graph: Graph | None, module: Callable[[], Module]) -> Kept | None:
        """Return the program of `key`, which was made of a graph like this one, or has a name."""
        content = self.cache.read(key, _SUFFIX)
        if content is None:
            return None
        facts, _, rest = content.partition(b"\n")
        try:
            fields = json.loads(facts)
            asked = fields["lapack"]
            externals = tuple((name, linked) for name, linked in fields["externals"])
            code = MachineCode(tuple(fields["code"]), tuple(fields["entries"]), externals)
            image = loads_image(rest, graph)
            interface = interface_of(fields["interface"]) if graph is None else None
        except (FormatError, KeyError, TypeError, ValueError):
            return None
        if asked is not None and asked != self.lapack():
            return None
        native = self.backend.reload(code, self.target, module)
        return None if native is None else Kept(image, native, interface)

    def keep(self, key: str, graph: Graph | Interface, image: Image, native: NativeModule) -> None:
        """Store a program, with the interface of one that has a name.

        A cache that cannot be written is none.
        """
        code, source = native.code, graph if isinstance(graph, Graph) else None
        facts = {
            "code": code.keys,
            "entries": code.entries,
            "externals": code.externals,
            "lapack": self.lapack.answer,
            "interface": interface_fields(graph) if isinstance(graph, Interface) else None,
        }
        content = json.dumps(facts).encode() + b"\n" + dumps_image(image, source)
        self.cache.keep(key, _SUFFIX, content)


class RecalledProgram:
    """A program loaded from the cache: plan, schedule and module are made when they are read."""

    def __init__(self, graph: Callable[[], Graph], make: Callable[[Graph], AnyProgram]) -> None:
        self._graph = graph
        self._make = make

    @functools.cached_property
    def _program(self) -> AnyProgram:
        return self._make(self._graph())

    @property
    def schedule(self) -> Schedule:
        return self._program.schedule

    @property
    def plan(self) -> MemoryPlan:
        return self._program.plan

    @property
    def module(self) -> Module:
        return self._program.module


def copy_later(graph: Graph) -> Callable[[], Graph]:
    """Return what makes a copy of `graph` as it is now; it may have grown by then."""
    nodes, outputs, donations = len(graph.nodes), graph.outputs, dict(graph.donations)

    def copied() -> Graph:
        copy, image = Graph(graph.name), dict[Value, Value]()
        for node in graph.nodes[:nodes]:
            copy.copy_node(node, image)
        copy.set_outputs(image[output] for output in outputs)
        for name, position in donations.items():
            copy.donate(name, position)
        return copy

    return copied


def _of(graph: Graph) -> str | None:
    from rlx.ir.digest import graph_digest  # imports all ops, which a program with a name needs not

    return graph_digest(graph)


def machine_parts(target: Target) -> tuple[str, ...]:
    """Return what code depends on; the number of cores is not among it."""
    caches = (str(size) for size in (target.l1, target.l2, target.l3, target.multiply_units))
    asked = {"strict": target.is_strict, "serial": target.is_serial, "shared": target.shares_panels}
    chosen = (name for name, holds in asked.items() if holds)
    machine = (target.architecture, target.vendor, target.cpu)
    disabled = (f"without {name}" for name in target.disabled_passes)
    return *machine, *caches, *sorted(target.features), *chosen, *disabled, target.schedules


@functools.cache
def versions() -> tuple[str, ...]:
    """Return what made code depends on besides the machine."""
    return rlx.__version__, _source_stamp(), np.__version__, platform.python_version()


def _source_stamp() -> str:
    """Return the sizes and times of the files of this package: its code decides what comes out."""
    return content_key("\n".join(sorted(_stamps(os.path.dirname(rlx.__file__)))))


def _stamps(directory: str) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".j2")):
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _stamps(entry.path)
