"""The memory planner: one arena for everything a graph needs.

Residents (params, constants, what `setup` leaves for `run`) come first and are never shared.
All other owners of memory, and the scratch and sub-graphs of nodes, are packed by their live
ranges. A sub-graph of control flow is laid out by itself and packed as one block at its node's
step, so that bodies nest to any depth.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from rlx.dataclass import dataclass
from rlx.ir.graph import Graph, Node, Value, require_addressable
from rlx.ir.op import Trait
from rlx.passes.memory.bodies import OUTSIDE, outside_values
from rlx.passes.memory.liveness import Liveness, Range, find_body_liveness, find_liveness
from rlx.passes.memory.placement import Buffer, align_up, maximal_live, place
from rlx.passes.memory.plan import MemoryPlan, Slot
from rlx.passes.rewrite import bodies_of
from rlx.passes.views import root_of, view_of

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector."""

HEADER_BYTES = 64
"""Status record at the start of the arena."""

ScratchBytes = Callable[[Node], int]


def plan_memory(
    graph: Graph,
    *,
    scratch_bytes: ScratchBytes = lambda _: 0,
    header_bytes: int = HEADER_BYTES,
    alignment: int = ALIGNMENT,
) -> MemoryPlan:
    """Return the memory plan of `graph`; symbolic extents count with their maximum.

    `scratch_bytes` returns what a node's kernel needs besides operands and results. Raise
    GraphError for a donation that needs a copy (see the pass `copy-outputs`), UnsupportedError
    for a value that no process can address.
    """
    for value in (result for node in graph.nodes for result in node.results):
        require_addressable(value)
    regions = _lay_out(graph, find_liveness(graph), scratch_bytes, alignment)
    header = align_up(header_bytes, alignment)
    live = header + regions.resident_bytes + regions.live_bytes
    return _at(regions, header, header + regions.resident_bytes, replace_live=live)


@dataclass(frozen=True, slots=True)
class _Regions:
    """Offsets in two regions that start at 0: residents, and everything else."""

    liveness: Liveness
    residents: dict[Value, int]
    resident_bytes: int
    offsets: dict[Value, int]
    scratch: dict[Node, int]
    scratch_sizes: dict[Node, int]
    block_bytes: int
    live_bytes: int
    bodies: dict[Node, tuple[_Body, ...]]


@dataclass(frozen=True, slots=True)
class _Body:
    """A sub-graph's two regions and their offsets in the enclosing ones."""

    regions: _Regions
    resident_base: int
    block_base: int


def _lay_out(
    graph: Graph, liveness: Liveness, scratch_bytes: ScratchBytes, alignment: int
) -> _Regions:
    blocks = list(_lay_out_bodies(graph, scratch_bytes, alignment))
    residents, shared = _lay_out_residents(liveness, alignment)
    ranges = [held for held in liveness.ranges.values() if not (held.resident or held.outside)]
    scratch = {node: scratch_bytes(node) for node in liveness.order if view_of(node) is None}
    scratch = {node: size for node, size in scratch.items() if size}
    step = liveness.step
    buffers = [
        *(Buffer(held.size, held.birth, held.death) for held in ranges),
        *(Buffer(size, step[node], step[node]) for node, size in scratch.items()),
        *(Buffer(regions.block_bytes, step[node], step[node]) for node, regions in blocks),
    ]
    placement = place(buffers, alignment)
    offsets = iter(placement.offsets)
    by_owner = {held.owner: next(offsets) for held in ranges} | _lay_out_outside(
        liveness, alignment
    )
    by_node = {node: next(offsets) for node in scratch}
    bodies: dict[Node, tuple[_Body, ...]] = {}
    for node, regions in blocks:
        bodies[node] = (*bodies.get(node, ()), _Body(regions, shared, next(offsets)))
        shared += regions.resident_bytes
    return _Regions(
        liveness=liveness,
        residents=residents,
        resident_bytes=shared,
        offsets=by_owner,
        scratch=by_node,
        scratch_sizes=scratch,
        block_bytes=placement.total,
        live_bytes=maximal_live(buffers),
        bodies=bodies,
    )


def _lay_out_bodies(
    graph: Graph, scratch_bytes: ScratchBytes, alignment: int
) -> Iterator[tuple[Node, _Regions]]:
    """Yield the regions of sub-graphs, each with the node that runs it."""
    for node in graph.nodes:
        for body in () if node.is_one_kernel else bodies_of(node.attrs):
            liveness = find_body_liveness(body, _owners(outside_values(node, body)))
            yield node, _lay_out(body, liveness, scratch_bytes, alignment)


def _owners(values: Iterable[Value]) -> list[Value]:
    """Return what owns the bytes of `values`; a view shows all bytes of what it is a view of."""
    return [root_of(value)[0] for value in values]


def _lay_out_residents(liveness: Liveness, alignment: int) -> tuple[dict[Value, int], int]:
    held = [held for held in liveness.ranges.values() if held.resident]
    sizes = [align_up(each.size, alignment) for each in held]
    starts = [0, *itertools.accumulate(sizes)]
    return {each.owner: start for each, start in zip(held, starts, strict=False)}, starts[-1]


def _lay_out_outside(liveness: Liveness, alignment: int) -> dict[Value, int]:
    """Return distinct offsets for the values outside of this block."""
    held = [held for held in liveness.ranges.values() if held.outside]
    sizes = [align_up(max(each.size, 1), alignment) for each in held]
    starts = itertools.accumulate(sizes, initial=OUTSIDE)
    return {each.owner: start for each, start in zip(held, starts, strict=False)}


def _at(
    regions: _Regions, resident_base: int, block_base: int, *, replace_live: int | None = None
) -> MemoryPlan:
    """Return the plan of `regions` with its two regions at these places of the arena."""
    liveness = regions.liveness
    slots: dict[Value, Slot] = {}
    for node in liveness.order:
        for result in node.results:
            slots[result] = _slot(regions, result, resident_base, block_base)
    scratch = {
        node: Slot(
            block_base + offset,
            regions.scratch_sizes[node],
            liveness.step[node],
            liveness.step[node],
        )
        for node, offset in regions.scratch.items()
    }
    bodies = {
        node: tuple(
            _at(body.regions, resident_base + body.resident_base, block_base + body.block_base)
            for body in inner
        )
        for node, inner in regions.bodies.items()
    }
    return MemoryPlan(
        graph=liveness.graph,
        slots=slots,
        scratch=scratch,
        header_bytes=resident_base,
        resident_bytes=resident_base + regions.resident_bytes,
        arena_bytes=block_base + regions.block_bytes,
        live_bytes=regions.live_bytes if replace_live is None else replace_live,
        in_place=liveness.in_place,
        order=tuple(liveness.order),
        bodies=bodies,
    )


def _slot(regions: _Regions, value: Value, resident_base: int, block_base: int) -> Slot:
    """Return the offset and lifetime of `value`: a view lives as long as its readers."""
    liveness = regions.liveness
    root, shift = root_of(value)
    held = liveness.ranges[liveness.holder[root]]
    base = _base(regions, held, resident_base, block_base)
    birth, death = _lifetime(liveness, held, root, value)
    slot = Slot(base + shift, value.type.bytes, birth, death, held.resident)
    return replace(slot, root=_shown_root(liveness, value, root, held))


def _base(regions: _Regions, held: Range, resident_base: int, block_base: int) -> int:
    if held.outside:
        return regions.offsets[held.owner]
    if held.resident:
        return resident_base + regions.residents[held.owner]
    return block_base + regions.offsets[held.owner]


def _lifetime(liveness: Liveness, held: Range, root: Value, value: Value) -> tuple[int, int]:
    if held.owner is root and (held.resident or root.op.has(Trait.LEAF)):
        return held.birth, held.death
    birth = liveness.step[value.node]
    return birth, max(birth, liveness.last_read.get(root, birth))


def _shown_root(liveness: Liveness, value: Value, root: Value, held: Range) -> Value | None:
    if root is not value:
        return root
    shared = {result for _, result in liveness.in_place.get(value.node, ())}
    return held.owner if value.index in shared else None
