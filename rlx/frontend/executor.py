"""The one seam between `jit` and the compile driver."""

from __future__ import annotations

from typing import Any, Protocol

from rlx.ir.graph import Graph


class Run(Protocol):
    """A compiled graph."""

    def __call__(self, *inputs: Any) -> tuple[Any, ...]: ...


def compile_program(graph: Graph, backend: str, threads: int | None) -> Run:
    """Compile `graph`. The driver is imported here: tracing alone needs no code generator."""
    from rlx.runtime.compile import compile

    return compile(graph, backend=backend, threads=threads)
