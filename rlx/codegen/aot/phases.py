"""The two phases of an artifact as kernels: what runs in order, and what threads share.

Single-threaded, a phase is one kernel. With threads, `run` is a list of steps: stretches that
one thread runs, and kernels whose parallel loop is split into parts. Parts write disjoint
memory, so that any number of them gives the same bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rlx.codegen.aot.layout import ArtifactLayout, Space
from rlx.codegen.c.uses import used_names
from rlx.codegen.entry import ThunkCalls, declare_arena
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Buffer, Kernel, Prim
from rlx.codegen.lower import Program
from rlx.codegen.schedule import AnyThunk, Phase, Thunk
from rlx.codegen.threaded import is_shared, share_of
from rlx.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PhaseKernel:
    """One kernel of a phase; a shared one takes `part` and `parts` as its last scalars."""

    kernel: Kernel
    is_shared: bool = False


def setup_steps(program: Program, layout: ArtifactLayout) -> tuple[PhaseKernel, ...]:
    """Return what depends on params and constants only; nothing if there is nothing to do."""
    thunks = program.schedule.phase(Phase.SETUP)
    if not thunks:
        return ()
    doc = "Depends on params and constants only."
    return (_PhaseMaker(program, layout, {}).stretch("setup_phase", thunks, doc),)


def run_steps(
    program: Program, layout: ArtifactLayout, *, is_threaded: bool
) -> tuple[PhaseKernel, ...]:
    """Return the hot path."""
    maker = _PhaseMaker(program, layout, layout.extents)
    thunks = program.schedule.phase(Phase.RUN)
    if not is_threaded:
        return (maker.stretch("run_phase", thunks, "The run phase."),)
    steps: list[PhaseKernel] = []
    for shared, group in itertools.groupby(thunks, key=maker.is_shared):
        if shared:
            steps += [maker.share(f"run_part_{len(steps) + i}", t) for i, t in enumerate(group)]
        else:
            steps.append(maker.stretch(f"run_part_{len(steps)}", list(group), "On one thread."))
    return tuple(steps)


class _PlacedCalls(ThunkCalls):
    """Calls whose buffers are at the offsets of the artifact's layout."""

    def __init__(
        self,
        k: KernelBuilder,
        maker: _PhaseMaker,
        blocks: Mapping[Space, Buffer],
    ) -> None:
        extents = {symbol: k.scalar(c_name) for symbol, c_name in maker.extents.items()}
        super().__init__(k, blocks[Space.ARENA], extents, maker.program.kernels)
        self._layout = maker.layout
        self._blocks = blocks

    def place(self, offset: int) -> tuple[Buffer, int]:
        space, at = self._layout.relocate(offset)
        return self._blocks[space], at


@dataclass(frozen=True, slots=True)
class _PhaseMaker:
    """Makes kernels that take `extents`: by symbol, the name in C. What is set up has none."""

    program: Program
    layout: ArtifactLayout
    extents: Mapping[str, str]

    def is_shared(self, thunk: AnyThunk) -> bool:
        if not isinstance(thunk, Thunk):
            return False
        kernel = self.program.kernels[thunk.kernel_key]
        return is_shared(kernel) and kernel.wakes_threads

    def stretch(self, name: str, thunks: Sequence[AnyThunk], doc: str) -> PhaseKernel:
        """Return one kernel that runs `thunks` in order."""
        k = KernelBuilder(name)
        calls = self._calls(k)
        for thunk in thunks:
            calls.emit(thunk)
        return PhaseKernel(_with_what_it_reads(k.build([doc])))

    def share(self, name: str, thunk: AnyThunk) -> PhaseKernel:
        """Return a kernel that runs one of several parts of a thunk's parallel loop."""
        assert isinstance(thunk, Thunk), "only plain thunks are shared"
        k = KernelBuilder(name)
        calls = self._calls(k)
        part, parts = k.scalar("part"), k.scalar("parts")
        calls.call(thunk, share_of(calls, thunk, part, part + 1, parts))
        return PhaseKernel(_with_what_it_reads(k.build(["One part of several."])), is_shared=True)

    def _calls(self, k: KernelBuilder) -> _PlacedCalls:
        blocks = {Space.ARENA: declare_arena(k)}
        for space in (Space.WEIGHTS, Space.CONSTANTS):
            if self.layout.reads(space):
                blocks[space] = k.argument(space.value, Prim.U8, may_alias=True)
        return _PlacedCalls(k, self, blocks)


def _with_what_it_reads(kernel: Kernel) -> Kernel:
    """Return a phase that takes the arena, and of other blocks and extents what it reads."""
    used = used_names(kernel)
    arena, *others = kernel.buffers
    return replace(
        kernel,
        buffers=(arena, *(block for block in others if block.name in used)),
        scalars=tuple(scalar for scalar in kernel.scalars if scalar.name in used),
    )
