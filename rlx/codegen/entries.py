"""Building the entry points of a schedule: `setup` and `run`, plain and for several threads.

    <name>_setup(arena)                      what depends on params and constants only
    <name>_run(arena, extents...)            the hot path, on the calling thread

The entries for several threads are added by `rlx.codegen.threaded`. Extents are i64, one per
symbol of the graph, sorted by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, TypeAlias, assert_never

from rlx.codegen.entry import can_fail
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, index
from rlx.codegen.loops.nodes import Address, Buffer, Kernel, LoopKind, Prim, storage
from rlx.codegen.schedule import (
    AnyThunk,
    BranchThunk,
    BufferRef,
    LoopThunk,
    Phase,
    Schedule,
    Thunk,
)
from rlx.ir.graph import Node

Kernels: TypeAlias = Mapping[tuple[Any, ...], Kernel]
"""The kernel of each `Thunk.kernel_key`."""


def entry_name(schedule: Schedule, kind: str) -> str:
    """Return the exported name of an entry: `setup`, `run`, `launch` or `worker`."""
    return f"{schedule.name}_{kind}"


def build_entries(
    schedule: Schedule, kernels: Kernels, symbols: Sequence[str]
) -> tuple[Kernel, Kernel]:
    """Return the `setup` and `run` entries of `schedule`."""
    return (
        _phase_entry(schedule, kernels, Phase.SETUP, ()),
        _phase_entry(schedule, kernels, Phase.RUN, symbols),
    )


def declare_arena(k: KernelBuilder) -> Buffer:
    """Declare the arena; its header and everything in it may be reached otherwise too."""
    return k.argument("arena", Prim.U8, writable=True, may_alias=True)


def _phase_entry(
    schedule: Schedule, kernels: Kernels, phase: Phase, symbols: Sequence[str]
) -> Kernel:
    k = KernelBuilder(entry_name(schedule, phase.value))
    arena = declare_arena(k)
    extents = {symbol: k.scalar(symbol) for symbol in symbols}
    calls = ThunkCalls(k, arena, extents, kernels)
    for thunk in schedule.phase(phase):
        calls.emit(thunk)
    doc = "What depends on params and constants only." if phase is Phase.SETUP else "The hot path."
    return k.build([f"{schedule.name}: {doc}"])


class ThunkCalls:
    """Emits thunks into an entry as calls of their kernels on arena addresses."""

    def __init__(
        self, k: KernelBuilder, arena: Buffer, extents: Mapping[str, E], kernels: Kernels
    ) -> None:
        self.k = k
        self.arena = arena
        self.extents = extents
        self.kernels = kernels

    def emit(self, thunk: AnyThunk) -> None:
        match thunk:
            case Thunk():
                self.call(thunk)
            case LoopThunk():
                self._loop(thunk)
            case BranchThunk():
                self._branch(thunk)
            case _:
                assert_never(thunk)

    def call(self, thunk: Thunk, bounds: tuple[E, E] | None = None) -> None:
        """Invoke the thunk's kernel; `bounds` limits its parallel loop."""
        kernel = self.kernel(thunk)
        refs = [*thunk.operands, *thunk.results]
        if thunk.scratch is not None:
            refs.append(thunk.scratch)
        addresses = [
            self._address(ref, buffer) for ref, buffer in zip(refs, kernel.buffers, strict=True)
        ]
        origin = thunk.node.index if can_fail(kernel) else -1
        self.k.comment(describe(thunk.node))
        self.k.invoke(kernel, addresses, self.scalars(thunk), bounds=bounds, origin=origin)

    def kernel(self, thunk: Thunk) -> Kernel:
        return self.kernels[thunk.kernel_key]

    def scalars(self, thunk: Thunk) -> list[E]:
        return [self.extents[symbol.name] for symbol in thunk.symbols]

    def _address(self, ref: BufferRef, buffer: Buffer) -> Address:
        return self.k.address(self.arena, ref.offset, prim=buffer.prim, writable=buffer.writable)

    # Control flow

    def _loop(self, thunk: LoopThunk) -> None:
        self.k.comment(describe(thunk.node))
        if thunk.trip_count is None:
            self._while(thunk)
            return
        with self.k.loop("trip", thunk.trip_count) as trip:
            step = thunk.trip_count - 1 - trip if thunk.reverse else trip
            self._advance(thunk, step, written=False)
            for inner in thunk.body:
                self.emit(inner)
            self._advance(thunk, step, written=True)

    def _while(self, thunk: LoopThunk) -> None:
        for inner in thunk.condition:
            self.emit(inner)
        running = self.k.mutable("running", self._truth(thunk))
        with self.k.while_(running.ne(0)):
            for inner in (*thunk.body, *thunk.condition):
                self.emit(inner)
            running.set(self._truth(thunk))

    def _truth(self, thunk: LoopThunk) -> E:
        assert thunk.predicate is not None, "a while loop has a predicate"
        return self._read_integer(thunk.predicate)

    def _advance(self, thunk: LoopThunk, step: E, *, written: bool) -> None:
        """Copy this trip's rows between the whole arrays and the body's slots."""
        for whole, row, is_output in thunk.advancing:
            if is_output is written:
                size = row.type.bytes
                place = const(whole.offset, Prim.I64) + step * size
                slot = const(row.offset, Prim.I64)
                target, source = (place, slot) if written else (slot, place)
                self._copy(target, source, size)

    def _copy(self, target: E, source: E, size: int) -> None:
        with self.k.loop("byte", size, kind=LoopKind.SIMD) as byte:
            self.k.store(self.arena, target + byte, self.k.load(self.arena, source + byte))

    def _branch(self, thunk: BranchThunk) -> None:
        self.k.comment(describe(thunk.node))
        selector = self.k.let("selector", self._read_integer(thunk.selector))
        self._branches(selector, thunk.branches, 0)

    def _branches(self, selector: E, branches: Sequence[Sequence[AnyThunk]], first: int) -> None:
        """Emit `if (selector == first) ... else ...`; the last branch takes what is left."""
        if first == len(branches) - 1:
            for inner in branches[first]:
                self.emit(inner)
            return
        with self.k.if_(selector.eq(first)):
            for inner in branches[first]:
                self.emit(inner)
        with self.k.else_():
            self._branches(selector, branches, first + 1)

    def _read_integer(self, ref: BufferRef) -> E:
        """Read a little-endian integer or bool from the arena, byte by byte."""
        prim = storage(ref.type.dtype)
        total = self.k.load(self.arena, ref.offset).cast(Prim.I64)
        for byte in range(1, prim.size):
            digit = self.k.load(self.arena, index(ref.offset + byte)).cast(Prim.I64)
            total = total | (digit << (8 * byte))
        unused = 64 - 8 * prim.size
        return (total << unused) >> unused if prim.is_signed and unused else total


def describe(node: Node) -> str:
    """Return one line about a node: its number, op, name and source line."""
    name = "" if node.name is None else f" {node.name!r}"
    place = ""
    if node.source is not None:
        place = f", {PurePath(node.source.file).name}:{node.source.line}"
    return f"%{node.index} {node.op.name}{name}{place}"
