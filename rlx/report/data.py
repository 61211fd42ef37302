"""Everything that the HTML report shows, as plain data.

The page draws and links; what there is to draw is decided here and can be tested without a
browser. Steps are positions in `MemoryPlan.order`, node ids those of the lowered graph.
"""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from rlx.codegen.c.emit import ModuleEmitter
from rlx.codegen.cost import thunk_cost
from rlx.codegen.loops.nodes import Kernel
from rlx.codegen.loops.printer import format_kernel
from rlx.codegen.lower import Program
from rlx.codegen.lower.graph import all_thunks
from rlx.codegen.schedule import AnyThunk, BufferRef, Thunk
from rlx.codegen.schedule_printer import format_thunk
from rlx.dataclass import dataclass
from rlx.errors import Source
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.printer import format_node
from rlx.ir.shape import Symbol
from rlx.passes.memory.plan import MemoryPlan, Slot
from rlx.passes.phases import setup_nodes
from rlx.report.places import short_place
from rlx.report.stages import Stages
from rlx.report.why import WhySection, why_sections
from rlx.runtime.profile import Profile

_LINES_AROUND = 2
_MOST_SOURCES = 4


@dataclass(frozen=True, slots=True)
class NodeData:
    """A node of the graph. `operands` are node ids; `kind` is leaf, param, output or op."""

    id: int
    op: str
    label: str
    type: str
    scope: str
    kind: str
    operands: tuple[int, ...]
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class SlotData:
    """A rectangle of the arena picture. `relation` says how it shares its root's bytes."""

    label: str
    node: int
    offset: int
    size: int
    birth: int
    death: int
    kind: str
    relation: str = ""


@dataclass(frozen=True, slots=True)
class ArenaData:
    """The arena over time: slots, the bytes alive at each step, and the step that has most.

    `first` is the first step of the run phase.
    """

    bytes: int
    resident: int
    live_bytes: int
    unshared: int
    first: int
    steps: tuple[str, ...]
    slots: tuple[SlotData, ...]
    live: tuple[int, ...]
    peak: int


@dataclass(frozen=True, slots=True)
class SourceData:
    """Lines of the user's file around one that built a node."""

    place: str
    line: int
    first: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ThunkData:
    """A row of the schedule. Times are seconds, or None if nothing was measured."""

    kernel: str
    phase: str
    node: int
    label: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    in_place: bool
    flops: int
    bytes: int
    median: float | None
    best: float | None
    sources: tuple[SourceData, ...]


@dataclass(frozen=True, slots=True)
class KernelData:
    """One kernel in the loop language, in C, and in the assembly of a chosen target."""

    loops: str
    c: str
    calls: int
    assembly: str = ""


@dataclass(frozen=True, slots=True)
class ReportData:
    """The whole page."""

    name: str
    written: tuple[NodeData, ...]
    lowered: tuple[NodeData, ...]
    arena: ArenaData
    thunks: tuple[ThunkData, ...]
    kernels: Mapping[str, KernelData]
    machine: str
    measured: str
    why: tuple[WhySection, ...]


def report_data(stages: Stages, profile: Profile | None = None) -> ReportData:
    """Return what the report of a lowered program shows, with times if it was profiled."""
    program = stages.program
    return ReportData(
        name=stages.graph.name,
        written=graph_data(stages.graph, stages.graph.output_names),
        lowered=graph_data(program.graph, stages.graph.output_names),
        arena=arena_data(program.plan),
        thunks=tuple(_thunks(program, profile)),
        kernels=_kernels(program, stages.assembly_by_kernel()),
        machine=f"{stages.target.cpu}, {stages.target.vector_bytes * 8}-bit vectors",
        measured=f"median of {profile.repeats} runs on 1 thread" if profile else "",
        why=why_sections(stages),
    )


# Graph


def graph_data(graph: Graph, output_names: Sequence[str] = ()) -> tuple[NodeData, ...]:
    """Return the nodes of a graph; outputs have the names that the user gave them."""
    outputs = {output.node for output in graph.outputs}
    pairs = zip(graph.outputs, output_names, strict=False)
    names = {output.node: name for output, name in pairs if output.node.name is None}
    return tuple(
        _node(node, names.get(node, node.name or ""), is_output=node in outputs)
        for node in graph.nodes
    )


def _node(node: Node, label: str, *, is_output: bool) -> NodeData:
    return NodeData(
        id=node.index,
        op=_op_title(node),
        label=label,
        type=", ".join(str(result.type) for result in node.results),
        scope=node.scope or "",
        kind=_kind(node, is_output=is_output),
        operands=tuple(dict.fromkeys(operand.node.index for operand in node.operands)),
        text=format_node(node),
        source="" if node.source is None else short_place(node.source),
    )


def _kind(node: Node, *, is_output: bool) -> str:
    if is_output:
        return "output"
    if node.op.has(Trait.LEAF):
        return node.op.name
    return "op"


def _op_title(node: Node) -> str:
    if not node.is_one_kernel:
        return node.op.name
    body: Graph = node.attribute("body")
    names = [inner.op.name for inner in body.nodes if not inner.op.has(Trait.LEAF)]
    shown = names if len(names) <= 3 else [*names[:2], "…", names[-1]]
    return " · ".join(shown)


def _step_title(node: Node) -> str:
    return f"{node.results[0].label} {_op_title(node).partition(' · ')[0]}"


# Arena


def arena_data(plan: MemoryPlan) -> ArenaData:
    """Return the picture of a plan."""
    slots = tuple(slot for slot in _slots(plan) if slot.size)
    last = max((slot.death for slot in slots), default=0)
    live = _live_bytes(plan, last + 1)
    steps = [_step_title(node) for node in plan.order]
    return ArenaData(
        bytes=plan.arena_bytes,
        resident=plan.resident_bytes,
        live_bytes=plan.live_bytes,
        unshared=sum(slot.size for slot in slots if not slot.relation.startswith("view")),
        first=_first_run_step(plan),
        steps=(*steps, *[""] * (last + 1 - len(steps))),
        slots=slots,
        live=live,
        peak=live.index(max(live)),
    )


def _first_run_step(plan: MemoryPlan) -> int:
    early = setup_nodes(plan.graph)
    for step, node in enumerate(plan.order):
        if node not in early and not node.op.has(Trait.LEAF):
            return step
    return len(plan.order)


def _slots(plan: MemoryPlan) -> Iterator[SlotData]:
    outputs = set(plan.graph.outputs)
    for value, slot in plan.slots.items():
        kind = "output" if value in outputs else _slot_kind(value, slot)
        yield _slot(slot, _value_text(value), value.node, kind, _relation(plan, value, slot))
    for node, slot in plan.scratch.items():
        yield _slot(slot, f"scratch of {node.results[0].label} {_op_title(node)}", node, "scratch")


def _slot(slot: Slot, label: str, node: Node, kind: str, relation: str = "") -> SlotData:
    return SlotData(
        label, node.index, slot.offset, slot.size, slot.birth, slot.death, kind, relation
    )


def _slot_kind(value: Value, slot: Slot) -> str:
    if value.op.has(Trait.LEAF):
        return value.op.name
    return "setup" if slot.resident else "temporary"


def _relation(plan: MemoryPlan, value: Value, slot: Slot) -> str:
    if slot.root is None:
        return ""
    in_place = any(result == value.index for _, result in plan.in_place.get(value.node, ()))
    return f"{'in place of' if in_place else 'view of'} {_value_text(slot.root)}"


def _value_text(value: Value) -> str:
    name = f" {value.node.name!r}" if value.node.name else ""
    return f"{value.label} {_op_title(value.node)}{name}: {value.type}"


def _live_bytes(plan: MemoryPlan, steps: int) -> tuple[int, ...]:
    """Return the bytes alive at each step; memory that several values share counts once."""
    shared: dict[Value, list[Slot]] = {}
    for value, slot in plan.slots.items():
        shared.setdefault(value if slot.root is None else slot.root, []).append(slot)
    groups = [*shared.values(), *([slot] for slot in plan.scratch.values())]
    return tuple(sum(_held(group, step) for group in groups) for step in range(steps))


def _held(slots: Sequence[Slot], step: int) -> int:
    return max((slot.size for slot in slots if slot.birth <= step <= slot.death), default=0)


# Schedule


def _thunks(program: Program, profile: Profile | None) -> Iterator[ThunkData]:
    timed = {id(t.thunk): t for t in profile.thunks} if profile else {}
    binding = {symbol.name: largest(symbol) for symbol in program.graph.symbols}
    for thunk in program.schedule.thunks:
        measured = timed.get(id(thunk))
        cost = measured.cost if measured else thunk_cost(thunk, binding)
        operands, results = _buffers(thunk, program.plan)
        yield ThunkData(
            kernel=_kernel_name(thunk, program),
            phase=thunk.phase.value,
            node=thunk.node.index,
            label=f"{thunk.node.results[0].label} {_op_title(thunk.node)}",
            operands=operands,
            results=results,
            in_place=isinstance(thunk, Thunk) and bool(thunk.aliased),
            flops=cost.flops,
            bytes=cost.bytes,
            median=measured.median if measured else None,
            best=measured.best if measured else None,
            sources=sources_of(thunk.node),
        )


def largest(symbol: Symbol) -> int:
    """Return the extent at which costs are counted where no run has set it."""
    return symbol.max or max(symbol.min, 1)


def _kernel_name(thunk: AnyThunk, program: Program) -> str:
    if isinstance(thunk, Thunk):
        return program.kernels[thunk.kernel_key].name
    return f"{thunk.node.op.name} {thunk.node.results[0].label}"


def _buffers(thunk: AnyThunk, plan: MemoryPlan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    def text(ref: BufferRef) -> str:
        return f"{ref.type} @{ref.offset}"

    if isinstance(thunk, Thunk):
        return tuple(map(text, thunk.operands)), tuple(map(text, thunk.results))
    node = thunk.node

    def value_text(value: Value) -> str:
        return f"{value.type} @{plan.slots[value].offset}"

    return tuple(map(value_text, node.operands)), tuple(map(value_text, node.results))


def _kernels(program: Program, assembly: Mapping[str, str]) -> dict[str, KernelData]:
    calls: dict[str, int] = {}
    for thunk in program.schedule.thunks:
        name = _kernel_name(thunk, program)
        calls[name] = calls.get(name, 0) + 1
    kernels = {
        kernel.name: _kernel(kernel, calls, assembly.get(kernel.name, ""))
        for kernel in program.module.kernels
    }
    for thunk in program.schedule.thunks:
        if not isinstance(thunk, Thunk):
            kernels[_kernel_name(thunk, program)] = _control(thunk, program)
    return kernels


def _control(thunk: AnyThunk, program: Program) -> KernelData:
    """Show a loop or branch as the calls it makes, and the C of these."""
    inner = dict.fromkeys(program.kernels[each.kernel_key] for each in all_thunks((thunk,)))
    emitter = ModuleEmitter()
    c = "\n\n".join(emitter.kernel(kernel) for kernel in inner)
    return KernelData(format_thunk(thunk, program.kernels), c, 1)


def _kernel(kernel: Kernel, calls: Mapping[str, int], assembly: str) -> KernelData:
    c = ModuleEmitter().kernel(kernel)
    return KernelData(format_kernel(kernel), c, calls.get(kernel.name, 0), assembly)


# Source lines


def sources_of(node: Node) -> tuple[SourceData, ...]:
    """Return the user's lines of a node; those of its body for a fused one."""
    nodes = [node]
    if node.is_one_kernel:
        body: Graph = node.attribute("body")
        nodes = [inner for inner in body.nodes if not inner.op.has(Trait.LEAF)]
    places = dict.fromkeys(inner.source for inner in nodes if inner.source is not None)
    return tuple(_excerpt(source) for source in list(places)[:_MOST_SOURCES])


def _excerpt(source: Source) -> SourceData:
    """Return the lines around `source`; none if the file is gone."""
    first = max(1, source.line - _LINES_AROUND)
    lines = linecache.getlines(source.file)[first - 1 : source.line + _LINES_AROUND]
    dedented = textwrap.dedent("".join(lines)).splitlines()
    return SourceData(short_place(source), source.line, first, tuple(dedented))
