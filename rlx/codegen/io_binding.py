"""I/O binding: entries that read inputs and write outputs in the caller's arrays, not the arena.

    <name>_run_at(arena, moves)

The plan gives every input and output a place in the arena. `moves` holds, per region, how many
bytes further it really is: 0 for the place in the plan, else the distance from there to the
caller's array. So large arrays are not copied, and the arena's layout stays what the plan says.
A donated leaf and the output that replaces it are one region.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rlx.codegen.entry import Kernels, ThunkCalls, declare_arena, entry_name
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.nodes import Buffer, Module, Prim
from rlx.codegen.regions import Region
from rlx.codegen.schedule import BufferRef, Phase, Schedule
from rlx.ir.graph import Graph, Value
from rlx.passes.memory.plan import MemoryPlan, Slot

_LEAST_BYTES = 64 * 1024
"""Smaller arrays are copied: a copy inside the caches costs less than finding their address."""

_MOST_REGIONS = 256


def bindable_regions(plan: MemoryPlan) -> tuple[Region, ...]:
    """Return regions that the caller may place: large inputs and outputs, donated leaves.

    Whatever else the plan puts into such a region must be inside it as a whole: then it moves
    along. Everything stays in graphs with symbolic extents or control flow.
    """
    graph = plan.graph
    if graph.symbols or plan.bodies:
        return ()
    free = [region for region in _candidates(plan) if _owns_its_bytes(plan, region)]
    return tuple(sorted(free, key=lambda region: -region.size)[:_MOST_REGIONS])


def _candidates(plan: MemoryPlan) -> Iterator[Region]:
    graph = plan.graph
    replaced = {position: name for name, position in graph.donations.items()}
    for leaf in graph.inputs:
        name = str(leaf.node.name)
        if name not in graph.donations and plan.slots[leaf].size >= _LEAST_BYTES:
            yield _region(plan.slots[leaf], name, leaf=name)
    for position, output in enumerate(graph.outputs):
        slot, name = plan.slots[output], output.node.name or f"output_{position}"
        if position in replaced:
            leaf = graph.leaf(replaced[position])
            if plan.slots[leaf].offset == slot.offset and slot.size >= _least_bytes(graph, leaf):
                yield _region(slot, replaced[position], leaf=replaced[position], output=position)
        elif slot.size >= _LEAST_BYTES:
            yield _region(slot, name, output=position)


def _least_bytes(graph: Graph, leaf: Value) -> int:
    """Donated inputs are arrays of the caller, to be replaced in place whatever their size."""
    return 1 if leaf in graph.inputs else _LEAST_BYTES


def _region(slot: Slot, name: str, *, leaf: str | None = None, output: int | None = None) -> Region:
    label = re.sub(r"\W+", "_", f"moved_{name}")
    return Region(label, slot.offset, slot.offset + slot.size, leaf, output)


def _owns_its_bytes(plan: MemoryPlan, region: Region) -> bool:
    leaf = None if region.leaf is None else plan.graph.leaf(region.leaf)
    slots = [*plan.slots.items(), *((None, slot) for slot in plan.scratch.values())]
    return all(
        _is_apart(slot, region)
        or (_is_inside(slot, region) and _is_for_run_alone(slot, value, leaf))
        for value, slot in slots
    )


def _is_apart(slot: Slot, region: Region) -> bool:
    return slot.offset + slot.size <= region.start or region.stop <= slot.offset


def _is_inside(slot: Slot, region: Region) -> bool:
    return region.start <= slot.offset and slot.offset + slot.size <= region.stop


def _is_for_run_alone(slot: Slot, value: Value | None, leaf: Value | None) -> bool:
    """True for regions that only `run` accesses; of residents, donated params."""
    return not slot.resident or (leaf is not None and leaf in (value, slot.root))


def with_io_binding(
    module: Module, schedule: Schedule, kernels: Kernels, regions: Sequence[Region]
) -> Module:
    """Return `module` with the entry `run_at`; `run` becomes a call of the same code."""
    k = KernelBuilder(entry_name(schedule, "run_moved"))
    arena = declare_arena(k)
    calls = IoBindingCalls(k, arena, {}, kernels, declare_moved(k, regions))
    for thunk in schedule.phase(Phase.RUN):
        calls.emit(thunk)
    body = k.build([f"{schedule.name}: the hot path."])
    stays = [const(0, Prim.I64)] * len(regions)
    run = KernelBuilder(entry_name(schedule, "run"))
    run.invoke(body, [run.address(declare_arena(run), writable=True)], stays)
    at = KernelBuilder(entry_name(schedule, "run_at"))
    target = at.address(declare_arena(at), writable=True)
    at.invoke(body, [target], read_moves(at, declare_moves(at), regions))
    entries = [entry for entry in module.entries if entry.name != run.name]
    made = (
        run.build([f"{schedule.name}: inputs and outputs are in the arena."]),
        at.build([f"{schedule.name}: inputs and outputs are in the caller's memory."]),
    )
    return replace(module, kernels=(*module.kernels, body), entries=(*entries, *made))


def declare_moves(k: KernelBuilder) -> Buffer:
    """Declare the table that an entry takes: per region, the bytes by which it moved."""
    return k.argument("moves", Prim.I64, may_alias=True)


def read_moves(k: KernelBuilder, moves: Buffer, regions: Sequence[Region]) -> list[E]:
    """Return the distances in the table, to be passed to code with `declare_moved`."""
    return [k.load(moves, number) for number in range(len(regions))]


def declare_moved(k: KernelBuilder, regions: Sequence[Region]) -> dict[Region, E]:
    """Declare a scalar per region: the bytes by which it moved."""
    return {region: k.scalar(region.name) for region in regions}


class IoBindingCalls(ThunkCalls):
    """Calls with large inputs and outputs at bound addresses."""

    def __init__(
        self,
        k: KernelBuilder,
        arena: Buffer,
        extents: Mapping[str, E],
        kernels: Kernels,
        moves: Mapping[Region, E],
    ) -> None:
        super().__init__(k, arena, extents, kernels)
        self._moves = moves

    def _locate(self, ref: BufferRef) -> tuple[Buffer, E]:
        block, at = super()._locate(ref)
        for region, moved in self._moves.items():
            if region.holds(ref.offset):
                return block, at + moved
        return block, at
