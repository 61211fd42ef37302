"""Interface between `jit` and the compile driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from rlx.ir.graph import Graph
from rlx.locks import unforkable
from rlx.passes.rewrites.inline_calls import inline_calls
from rlx.runtime.arrays import Array, WeakArray

if TYPE_CHECKING:
    from rlx.passes.precision.policy import Precision

QuickCall: TypeAlias = Callable[[Sequence[Any]], tuple[Any, ...] | None]
"""Runs on arrays that fit; `None` where they do not."""


class Run(Protocol):
    """A compiled graph."""

    def __call__(self, *inputs: Any) -> tuple[Any, ...]: ...


def compile_program(
    graph: Graph,
    backend: str,
    threads: int | None,
    precision: Precision = None,
    *,
    without: Sequence[str] = (),
    weak: Sequence[bool],
    wait: bool | None = None,
) -> Run:
    """Compile `graph`; which results are of a `weak` type, the graph does not say.

    The driver is imported here: tracing alone needs no code generator.
    """
    with unforkable():
        from rlx.runtime.compile import compile
        from rlx.runtime.executable import Executable

    graph = inline_calls(graph)  # before the driver verifies the rules, and makes a key of them
    run = compile(
        graph, backend=backend, threads=threads, precision=precision, without=without, wait=wait
    )
    if isinstance(run, Executable):
        run.give_as([WeakArray if is_weak else Array for is_weak in weak])
    return run


def quick_call(run: Run) -> QuickCall | None:
    """Return the fast path into native code; None for the reference interpreter."""
    from rlx.runtime.executable import Executable

    return run.try_arrays if isinstance(run, Executable) else None


def arena_bytes(run: Run) -> int:
    """Return how much memory `run` keeps; the reference interpreter keeps none."""
    from rlx.runtime.executable import Executable

    return run.arena.bytes.nbytes if isinstance(run, Executable) else 0
