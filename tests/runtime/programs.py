"""Small schedules with hand-built kernels: what runtime tests run without any lowering."""

from __future__ import annotations

from dataclasses import dataclass

from rlx.codegen.entry import build_entries
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import BinaryOp, Kernel, LoopKind, Module, Prim, Status
from rlx.codegen.schedule import BufferRef, Phase, Schedule, Thunk
from rlx.codegen.threaded import with_threads
from rlx.ir.graph import Graph, Node, Value
from rlx.passes.memory.plan import MemoryPlan, Slot

HEADER = 64


@dataclass(frozen=True)
class HandBuilt:
    """The parts of a program that `rlx.runtime` reads."""

    graph: Graph
    schedule: Schedule
    plan: MemoryPlan
    module: Module


def scale_kernel(rows: int, columns: int) -> Kernel:
    """y = 2 x + 1, rows in parallel."""
    k = KernelBuilder(f"scale_{rows}x{columns}")
    x = k.argument("x", Prim.F32)
    y = k.argument("y", Prim.F32, writable=True)
    with (
        k.loop("row", rows, kind=LoopKind.PARALLEL) as row,
        k.loop("column", columns, kind=LoopKind.SIMD) as column,
    ):
        at = row * columns + column
        k.store(y, at, k.load(x, at) * 2.0 + 1.0)
    return k.build([f"y = 2 x + 1 over [{rows}, {columns}]"])


def column_sums_kernel(rows: int, columns: int) -> Kernel:
    """Sum over rows; columns in parallel, so that every thread reads all rows."""
    k = KernelBuilder(f"column_sums_{rows}x{columns}")
    x = k.argument("x", Prim.F32)
    y = k.argument("y", Prim.F32, writable=True)
    with k.loop("column", columns, kind=LoopKind.PARALLEL) as column:
        total = k.mutable("total", k.load(x, column) * 0.0)
        with k.loop("row", rows) as row:
            total.set(total + k.load(x, row * columns + column))
        k.store(y, column, total)
    return k.build([f"column sums of [{rows}, {columns}]"])


def gather_kernel(extent: int, count: int) -> Kernel:
    k = KernelBuilder(f"gather_{count}_of_{extent}")
    table = k.argument("table", Prim.F32)
    indices = k.argument("indices", Prim.I64)
    y = k.argument("y", Prim.F32, writable=True)
    with k.loop("i", count) as i:
        at = k.let("at", k.load(indices, i))
        with k.if_((at < 0) | (at >= extent)):
            k.fail(Status.INDEX_OUT_OF_RANGE, i)
        k.store(y, i, k.load(table, at))
    return k.build([f"y[i] = table[indices[i]], {count} of {extent}"])


def prefix_sum_kernel() -> Kernel:
    """The sum of a vector of symbolic extent n."""
    k = KernelBuilder("sum_n")
    x = k.argument("x", Prim.F32)
    y = k.argument("y", Prim.F32, writable=True)
    n = k.scalar("n")
    total = k.mutable("total", k.load(x, 0) * 0.0)
    with k.loop("i", n, kind=LoopKind.SIMD, accumulators=[(total, BinaryOp.ADD)]) as i:
        total.set(total + k.load(x, i))
    k.store(y, 0, total)
    return k.build(["y = sum of x over n"])


def plan_in_order(graph: Graph) -> MemoryPlan:
    """Place every value after the other; nothing is shared."""
    slots: dict[Value, Slot] = {}
    offset = HEADER
    for node in graph.nodes:
        for value in node.results:
            size = value.type.bytes
            resident = value.op.name in ("param", "constant")
            slots[value] = Slot(offset, size, 0, len(graph.nodes), resident)
            offset += -(-max(size, 1) // 64) * 64
    return MemoryPlan(graph, slots, {}, HEADER, HEADER, offset, offset, {})


def hand_built(graph: Graph, kernels: dict[Node, Kernel], *, threads: bool = False) -> HandBuilt:
    """Schedule the nodes that have kernels, in order, all in the run phase."""
    plan = plan_in_order(graph)
    thunks = tuple(_thunk(node, plan) for node in kernels)
    by_key = {thunk.kernel_key: kernels[thunk.node] for thunk in thunks}
    schedule = Schedule(graph.name, thunks, plan.arena_bytes)
    symbols = [symbol.name for symbol in graph.symbols]
    entries = build_entries(schedule, by_key, symbols)
    module = Module(graph.name, (), tuple(by_key.values()), entries)
    if threads:
        module = with_threads(module, schedule, by_key, symbols)
    return HandBuilt(graph, schedule, plan, module)


def _thunk(node: Node, plan: MemoryPlan) -> Thunk:
    def refs(values: tuple[Value, ...]) -> tuple[BufferRef, ...]:
        return tuple(BufferRef(plan.slots[value].offset, value.type) for value in values)

    return Thunk(node.op.name, node.attrs, refs(node.operands), refs(node.results), Phase.RUN, node)


def scale_and_gather(*, rows: int = 64, columns: int = 512, threads: bool = False) -> HandBuilt:
    """scale, column sums, gather: two barriers, one kernel that can fail."""
    graph = Graph("demo")
    x = graph.input("x", (rows, columns))
    indices = graph.input("indices", (4,), "i64")
    scaled = graph.square(x)  # an example of any elementwise op: the kernels are ours
    sums = graph.reduce_sum(scaled, axes=(0,))
    picked = graph.gather(sums, indices, axis=0)
    graph.set_outputs([sums, picked])
    kernels = {
        scaled.node: scale_kernel(rows, columns),
        sums.node: column_sums_kernel(rows, columns),
        picked.node: gather_kernel(columns, 4),
    }
    return hand_built(graph, kernels, threads=threads)
