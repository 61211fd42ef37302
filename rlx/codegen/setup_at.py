"""Setup that reads large params where the caller has them, such as in a file that is mapped.

    <name>_setup_at(arena, moves)

Params that `setup` alone reads are packed weights, as a rule: what it makes of them is as large
again, and a copy of them in the arena would be written to be read once. `moves` holds, per param of
`Image.passing`, how many bytes further it really is than planned, as in `codegen.io_binding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlx.codegen.entry import Kernels, declare_arena, entry_name
from rlx.codegen.io_binding import IoBindingCalls, declare_moves, read_moves
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Module
from rlx.codegen.regions import Region
from rlx.codegen.schedule import Phase, Schedule
from rlx.passes.memory.plan import MemoryPlan

_LEAST_BYTES = 4 << 20
"""Less is copied sooner than this entry is compiled."""


def passing_regions(plan: MemoryPlan, names: Sequence[str]) -> tuple[Region, ...]:
    """Return where the plan has these params, if they are large together."""
    leaves = [plan.slots[plan.graph.leaf(name)] for name in names]
    if sum(slot.size for slot in leaves) < _LEAST_BYTES:
        return ()
    return tuple(
        Region(name, slot.offset, slot.offset + slot.size, leaf=name)
        for name, slot in zip(names, leaves, strict=True)
    )


def with_setup_at(
    module: Module, schedule: Schedule, kernels: Kernels, regions: Sequence[Region]
) -> Module:
    """Return `module` with the entry `setup_at`."""
    k = KernelBuilder(entry_name(schedule, "setup_at"))
    arena = declare_arena(k)
    moves = dict(zip(regions, read_moves(k, declare_moves(k), regions), strict=True))
    calls = IoBindingCalls(k, arena, {}, kernels, moves)
    for thunk in schedule.phase(Phase.SETUP):
        calls.emit(thunk)
    entry = k.build([f"{schedule.name}: setup, from params where the caller has them."])
    return replace(module, entries=(*module.entries, entry))
