"""Entries that read inputs and write outputs where the caller has them, not in the arena.

    <name>_run_at(arena, moved_x, ..., moved_y, ...)

The plan gives every input and output a place in the arena. `moved_x` is how many bytes further
`x` really lies: 0 for the place in the plan, else the distance from there to the caller's
array. So large arrays are not copied, and the arena's layout stays what the plan says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rlx.codegen.entry import Kernels, ThunkCalls, declare_arena, entry_name
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.nodes import Buffer, Module, Prim
from rlx.codegen.schedule import BufferRef, Phase, Schedule
from rlx.ir.graph import Value
from rlx.passes.memory.plan import MemoryPlan, Slot

_LEAST_BYTES = 64 * 1024
"""Smaller arrays are copied: a copy inside the caches costs less than finding their address."""

_MOST_REGIONS = 8


@dataclass(frozen=True, slots=True)
class Region:
    """The bytes of an input or output in the plan, and its number among the graph's."""

    name: str
    is_input: bool
    position: int
    start: int
    stop: int

    def holds(self, offset: int) -> bool:
        return self.start <= offset < self.stop


def bindable_regions(plan: MemoryPlan) -> tuple[Region, ...]:
    """Return the large inputs and outputs that may lie elsewhere than planned.

    Whatever else the plan puts into such a region must lie inside it as a whole: then it moves
    along. Donated leaves stay, and so does everything in graphs with symbolic extents.
    """
    graph = plan.graph
    if graph.symbols or plan.bodies:
        return ()
    leaves = [_region(plan, value, i, is_input=True) for i, value in enumerate(graph.inputs)]
    results = [_region(plan, value, i, is_input=False) for i, value in enumerate(graph.outputs)]
    donated = set(graph.donations.values())
    kept = [region for region in leaves if _leaf_stays(plan, region)]
    kept += [region for region in results if region.position not in donated]
    large = [region for region in kept if region.stop - region.start >= _LEAST_BYTES]
    free = [region for region in large if _owns_its_bytes(plan, region)]
    return tuple(sorted(free, key=lambda region: region.start - region.stop)[:_MOST_REGIONS])


def with_bound_run(
    module: Module, schedule: Schedule, kernels: Kernels, regions: Sequence[Region]
) -> Module:
    """Return `module` with the entry `run_at`; `run` becomes a call of the same code."""
    k = KernelBuilder(entry_name(schedule, "run_moved"))
    arena = declare_arena(k)
    calls = BoundCalls(k, arena, {}, kernels, declare_moves(k, regions))
    for thunk in schedule.phase(Phase.RUN):
        calls.emit(thunk)
    body = k.build([f"{schedule.name}: the hot path."])
    stays = [const(0, Prim.I64)] * len(regions)
    run = KernelBuilder(entry_name(schedule, "run"))
    run.invoke(body, [run.address(declare_arena(run), writable=True)], stays)
    at = KernelBuilder(entry_name(schedule, "run_at"))
    target = declare_arena(at)
    moves = list(declare_moves(at, regions).values())
    at.invoke(body, [at.address(target, writable=True)], moves)
    entries = [entry for entry in module.entries if entry.name != run.name]
    made = (
        run.build([f"{schedule.name}: inputs and outputs lie in the arena."]),
        at.build([f"{schedule.name}: inputs and outputs lie where the caller has them."]),
    )
    return replace(module, kernels=(*module.kernels, body), entries=(*entries, *made))


def declare_moves(k: KernelBuilder, regions: Sequence[Region]) -> dict[Region, E]:
    """Declare a scalar per region: the bytes by which it moved."""
    return {region: k.scalar(region.name) for region in regions}


class BoundCalls(ThunkCalls):
    """Calls whose large inputs and outputs moved."""

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


def _region(plan: MemoryPlan, value: Value, position: int, *, is_input: bool) -> Region:
    slot = plan.slots[value]
    kind = "input" if is_input else "output"
    name = value.node.name or f"{kind}_{position}"
    label = re.sub(r"\W+", "_", f"moved_{name}")
    return Region(label, is_input, position, slot.offset, slot.offset + slot.size)


def _leaf_stays(plan: MemoryPlan, region: Region) -> bool:
    """True for inputs that nothing may overwrite."""
    return plan.graph.inputs[region.position].node.name not in plan.graph.donations


def _owns_its_bytes(plan: MemoryPlan, region: Region) -> bool:
    return all(
        _is_apart(slot, region) or (_is_inside(slot, region) and not slot.resident)
        for slot in (*plan.slots.values(), *plan.scratch.values())
    )


def _is_apart(slot: Slot, region: Region) -> bool:
    return slot.offset + slot.size <= region.start or region.stop <= slot.offset


def _is_inside(slot: Slot, region: Region) -> bool:
    return region.start <= slot.offset and slot.offset + slot.size <= region.stop
