"""From a legal graph to a program: plan memory, make thunks, build each kernel once."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlx.codegen import schedule_printer as schedule_printer  # gives schedules their text
from rlx.codegen.c.names import c_identifier
from rlx.codegen.entry import build_entries
from rlx.codegen.kernels.build import WIDEST, build_kernel, kernel_name, scratch_bytes
from rlx.codegen.kernels.values import known_number
from rlx.codegen.loops.nodes import Kernel, Module
from rlx.codegen.loops.passes.pipeline import KernelPass, run_passes
from rlx.codegen.loops.visit import functions_of
from rlx.codegen.lower.comments import argument_names, kernel_doc
from rlx.codegen.lower.node import lower_node
from rlx.codegen.lower.registry import Placement
from rlx.codegen.lower.share_kernels import share_kernels
from rlx.codegen.schedule import AnyThunk, BranchThunk, LoopThunk, Phase, Schedule, Thunk
from rlx.codegen.schedule_verify import verify_schedule
from rlx.dataclass import dataclass
from rlx.errors import GraphError, blamed
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.numbering import number_nodes
from rlx.passes.memory.plan import MemoryPlan
from rlx.passes.memory.planner import ALIGNMENT, plan_memory
from rlx.passes.phases import execution_order, setup_nodes
from rlx.progress import stage
from rlx.target import Target


@dataclass(frozen=True, slots=True)
class Program:
    """Everything a backend and the runtime need: each stage of lowering, kept for inspection."""

    graph: Graph
    plan: MemoryPlan
    schedule: Schedule
    kernels: Mapping[tuple[Any, ...], Kernel]
    """Kernel of each `Thunk.kernel_key`."""
    module: Module


def lower_graph(
    graph: Graph, target: Target | None = None, passes: Sequence[KernelPass] = ()
) -> Program:
    """Lower a legal graph (see `passes.pipeline`): every node has a kernel or is a view.

    Kernels use what `target` has; without one they may use everything. They go through `passes`
    last.
    """
    for leaf in (*graph.inputs, *graph.params):
        if leaf.type.layout is not None:
            raise GraphError(
                f"{leaf.node.name!r} has type {leaf.type}; inputs and params are row-major",
                source=leaf.node.source,
                remedy="pack it in the graph",
            )
    alignment = ALIGNMENT if target is None else target.alignment
    plan = plan_memory(graph, scratch_bytes=scratch_bytes, alignment=alignment)
    return program_of(graph, plan, target, passes)


def program_of(
    graph: Graph,
    plan: MemoryPlan,
    target: Target | None = None,
    passes: Sequence[KernelPass] = (),
) -> Program:
    """Return the program of a legal graph whose memory is planned."""
    schedule = make_schedule(graph, plan)
    verify_schedule(schedule)
    kernels = {key: run_passes(k, passes) for key, k in make_kernels(schedule, target).items()}
    setup, run = build_entries(schedule, kernels, [symbol.name for symbol in graph.symbols])
    ordered = tuple(kernels.values())
    entries = (setup, run)
    module = Module(schedule.name, functions_of((*ordered, *entries)), ordered, entries)
    return Program(graph, plan, schedule, kernels, module)


def make_schedule(graph: Graph, plan: MemoryPlan) -> Schedule:
    """Return the thunks of all nodes that compute something, in order.

    The schedule has the name of the graph, spelled so that it may begin symbols.
    """
    hoisted, numbers = setup_nodes(graph), number_nodes(graph)
    thunks: list[AnyThunk] = []
    for node in execution_order(graph):
        phase = Phase.SETUP if node in hoisted else Phase.RUN
        thunks.extend(lower_node(node, Placement(plan, phase, numbers=numbers)))
    schedule = Schedule(c_identifier(graph.name), tuple(thunks), plan.arena_bytes)
    return share_kernels(schedule)


def make_kernels(schedule: Schedule, target: Target | None = None) -> dict[tuple[Any, ...], Kernel]:
    """Build one kernel per distinct thunk, named after what it does; order of first use."""
    users: dict[tuple[Any, ...], list[Thunk]] = {}
    for thunk in all_thunks(schedule.thunks):
        users.setdefault(thunk.kernel_key, []).append(thunk)
    taken: dict[str, int] = {}
    kernels = {}
    for number, (key, thunks) in enumerate(users.items(), start=1):
        stage("kernels", number, len(users))
        node = thunks[0].node
        with blamed(f"building the kernel of {node.title}", node.source):
            name = _unique(kernel_name(thunks[0]), taken)
            kernels[key] = build_kernel(
                thunks[0], name, kernel_doc(thunks), argument_names(thunks), target=target or WIDEST
            )
    return kernels


def unread_constants(program: Program) -> set[Value]:
    """Return the constants outside of loops that no kernel reads: they are literals in all."""
    constants = {v for node in program.graph.nodes if node.op is ops.constant for v in node.results}
    starts = sorted(
        ref.offset
        for thunk in all_thunks(program.schedule.thunks)
        for ref in thunk.passed(program.kernels[thunk.kernel_key])
    )

    def is_read(value: Value) -> bool:
        start = program.plan.slots[value].offset
        at = bisect.bisect_left(starts, start)
        return at < len(starts) and starts[at] < start + value.type.bytes

    known = {v for v in constants if v in program.plan.slots and known_number(v) is not None}
    return {value for value in known if not is_read(value)}


def all_thunks(thunks: tuple[AnyThunk, ...]) -> Iterator[Thunk]:
    """Yield every plain thunk, those inside loops and branches too."""
    for thunk in thunks:
        match thunk:
            case Thunk():
                yield thunk
            case LoopThunk():
                yield from all_thunks(thunk.condition)
                yield from all_thunks(thunk.body)
            case BranchThunk():
                for branch in thunk.branches:
                    yield from all_thunks(branch)


def _unique(name: str, taken: dict[str, int]) -> str:
    count = taken.get(name, 0) + 1
    taken[name] = count
    return name if count == 1 else _unique(f"{name}_{count}", taken)
