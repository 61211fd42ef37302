"""Compiled programs between processes: a graph compiled before is loaded, not compiled.

What is kept of a program is its image and the name of its machine code, under a digest of all
that they depend on: graph, backend, threads, machine, versions. Passes, planning, lowering and
printing are skipped; what they make is made again, from the same graph, when somebody looks.
Whatever does not fit, is damaged or gone counts as not there.
"""

from __future__ import annotations

import functools
import json
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import rlx
from rlx.codegen.machine_code import MachineCode
from rlx.errors import FormatError
from rlx.ir.digest import graph_digest
from rlx.ir.graph import Graph, Value
from rlx.runtime.backend import Backend, NativeModule
from rlx.runtime.cache import Cache, cache_directory, content_key
from rlx.runtime.executable import Program
from rlx.runtime.image import Image, dumps_image, loads_image
from rlx.target import Target

if TYPE_CHECKING:
    from rlx.codegen.loops.nodes import Module
    from rlx.codegen.schedule import Schedule
    from rlx.passes.memory.plan import MemoryPlan

_SUFFIX = ".rlxi"


class Lapack:
    """Whether there is LAPACK, and whether anybody asked: only then does a program depend on it."""

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


@dataclass(frozen=True, slots=True)
class ProgramCache:
    """Programs of one backend for one machine."""

    backend: Backend
    target: Target
    lapack: Lapack
    cache: Cache

    @staticmethod
    def here(backend: Backend, target: Target, lapack: Lapack) -> ProgramCache:
        return ProgramCache(backend, target, lapack, Cache(cache_directory()))

    def key(self, graph: Graph, threads: int) -> str | None:
        """Return the name of a compiled graph; None for one that is compiled every time."""
        digest = graph_digest(graph)
        if digest is None:
            return None
        machine = (*_machine(self.target), self.backend.version(self.target))
        return content_key(digest, self.backend.name, str(threads), *machine, *_versions())

    def load(self, key: str, graph: Graph, module: Callable[[], Module]) -> Kept | None:
        """Return the program of `key`, which was made of a graph like this one."""
        content = self.cache.read(key, _SUFFIX)
        if content is None:
            return None
        facts, _, rest = content.partition(b"\n")
        try:
            fields = json.loads(facts)
            asked = fields["lapack"]
            externals = tuple((name, linked) for name, linked in fields["externals"])
            code = MachineCode(fields["code"], tuple(fields["entries"]), externals)
            image = loads_image(rest, graph)
        except (FormatError, KeyError, TypeError, ValueError):
            return None
        if asked is not None and asked != self.lapack():
            return None
        native = self.backend.reload(code, self.target, module)
        return None if native is None else Kept(image, native)

    def keep(self, key: str, graph: Graph, image: Image, native: NativeModule) -> None:
        """Store a program; a cache that cannot be written is none."""
        code = native.code
        facts = {
            "code": code.key,
            "entries": code.entries,
            "externals": code.externals,
            "lapack": self.lapack.answer,
        }
        content = json.dumps(facts).encode() + b"\n" + dumps_image(image, graph)
        self.cache.keep(key, _SUFFIX, content)


class RecalledProgram:
    """A program loaded from the cache: plan, schedule and module are made when they are read."""

    def __init__(self, graph: Graph, make: Callable[[Graph], Program]) -> None:
        self._graph = graph
        self._nodes = len(graph.nodes)
        self._outputs = graph.outputs
        self._donations = dict(graph.donations)
        self._make = make

    @functools.cached_property
    def _program(self) -> Program:
        return self._make(self._compiled_graph())

    @property
    def schedule(self) -> Schedule:
        return self._program.schedule

    @property
    def plan(self) -> MemoryPlan:
        return self._program.plan

    @property
    def module(self) -> Module:
        return self._program.module

    def _compiled_graph(self) -> Graph:
        """Return the graph as it was compiled; it may have grown since."""
        copy = Graph(self._graph.name)
        image: dict[Value, Value] = {}
        for node in self._graph.nodes[: self._nodes]:
            copy.copy_node(node, image)
        copy.set_outputs(image[output] for output in self._outputs)
        for name, position in self._donations.items():
            copy.donate(name, position)
        return copy


def _machine(target: Target) -> tuple[str, ...]:
    """Return what code depends on; the number of cores is not among it."""
    caches = (str(size) for size in (target.l1, target.l2, target.l3))
    return target.architecture, target.vendor, target.cpu, *caches, *sorted(target.features)


@functools.cache
def _versions() -> tuple[str, ...]:
    return rlx.__version__, _source_stamp(), np.__version__, platform.python_version()


def _source_stamp() -> str:
    """Return the sizes and times of the files of this package: its code decides what comes out."""
    return content_key(*sorted(_stamps(os.path.dirname(rlx.__file__))))


def _stamps(directory: str) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".j2")):
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _stamps(entry.path)
