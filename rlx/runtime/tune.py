"""Tuning: measure schedules of a program's contractions, and keep those that are faster.

Each contraction is compiled alone, with the schedule that the passes choose and with others: tiles
by their estimated cost, the cheapest first, then other loops around the fastest. What wins again,
in turns with the chosen one, is kept, if the whole program is faster for it.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import InputError, RlxError
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.lowering import Schedule
from rlx.ir.ops.linalg import swapped
from rlx.ir.printer import format_lowering
from rlx.ir.schedules import Schedules
from rlx.ir.shape import upper
from rlx.ir.types import TensorType
from rlx.passes.decisions import Decisions
from rlx.passes.layout.given_schedules import contraction_name
from rlx.passes.layout.pack_operands import without_transpose
from rlx.passes.layout.prepared import is_prepared
from rlx.passes.layout.schedule_costs import CONTRACTIONS, Work
from rlx.passes.pipeline import pipeline
from rlx.runtime.blas import has_lapack
from rlx.runtime.compile import compile
from rlx.runtime.lower import claimed_ops
from rlx.runtime.signature import Signature
from rlx.runtime.tuned import keep_tuned
from rlx.target import detect_target

Run = Callable[[], object]

_GAIN = 0.97
"""Share of the time that a schedule must save to be kept: less is noise."""

_SLICE = 0.004
"""Seconds in which a schedule is measured at a time."""

_ROUNDS = 15
"""Turns of two schedules that are compared."""

_SEED = 0


@dataclass(frozen=True, slots=True)
class TunedContraction:
    """A contraction that occurs `count` times, and its seconds with two schedules."""

    name: str
    count: int
    schedule: Schedule | None
    """What was measured as the fastest; None if that is what the passes choose."""
    before: float
    after: float
    measured: int
    """Schedules that were measured."""

    def __str__(self) -> str:
        times = "  x".join([self.name, *([str(self.count)] if self.count > 1 else [])])
        if self.schedule is None:
            return f"{times}\n  {self.before * 1e6:.1f} us; none of {self.measured} is faster"
        gain = f"{self.before * 1e6:.1f} -> {self.after * 1e6:.1f} us, of {self.measured}"
        return f"{times}\n  {gain}: {format_lowering(self.schedule)}"


@dataclass(frozen=True, slots=True)
class Tuning:
    """What `tune` found."""

    schedules: Schedules
    """Those that are kept: empty if the program as a whole is no faster by them."""
    contractions: tuple[TunedContraction, ...]
    before: float
    after: float
    """Seconds of a run of the program, without the schedules and with them."""

    def __str__(self) -> str:
        whole = f"the program: {self.before * 1e6:.1f} -> {self.after * 1e6:.1f} us"
        return "\n".join([*map(str, self.contractions), whole])


def tune(
    graph: Graph,
    *,
    seconds: float = 60.0,
    backend: str = "auto",
    threads: int | None = None,
    keep: bool = True,
) -> Tuning:
    """Measure schedules of the contractions of `graph` on this machine, for `seconds` or so.

    What is faster is kept in the cache, unless `keep` is false, and used by all that is compiled
    afterwards. Operands are random numbers. Contractions of floats take part whose extents are
    known. Results may differ by rounding where loops become tiles.
    """
    if not seconds > 0:
        raise InputError(f"seconds= is {seconds!r}", remedy="give a time to measure, above 0")
    build = partial(compile, backend=backend, threads=threads, wait=True)
    jobs = _jobs(graph)
    whole = sum(cost for _, _, cost in jobs) or 1.0
    started, budget = time.perf_counter(), 0.8 * seconds
    found, spent = [], 0.0
    for node, count, cost in jobs:
        spent += budget * cost / whole
        contraction = _tuned(node, count, build, started + spent)
        if contraction is not None:
            found.append(contraction)
    won = Schedules.of({each.name: each.schedule for each in found if each.schedule is not None})
    plain, tuned = _program(graph, build, {}), _program(graph, build, won)
    before, after = _in_turns(plain, tuned)
    if not won or after >= before:
        return Tuning(Schedules(), tuple(found), before, before)
    if keep:
        keep_tuned(detect_target(), won)
    return Tuning(won, tuple(found), before, after)


def _jobs(graph: Graph) -> list[tuple[Node, int, float]]:
    """Return each kind of contraction once, with their number and estimated cost, most first."""
    target, decisions = detect_target(), Decisions()
    lapack = partial(has_lapack, target)
    pipeline(claimed_ops(), target, lapack=lapack, decisions=decisions).run(graph)
    nodes = {contraction_name(n): n for n, _ in decisions.chosen if n.op in CONTRACTIONS}
    counts = Counter(contraction_name(n) for n, _ in decisions.chosen if n.op in CONTRACTIONS)
    jobs = []
    for name, node in nodes.items():
        shapes = (extent for operand in node.operands for extent in operand.shape)
        work = Work.of(node, target)
        if work is not None and all(isinstance(extent, int) for extent in shapes):
            cost = min(work.plain_cycles, *map(work.cycles, work.candidates()))
            jobs.append((node, counts[name], counts[name] * cost))
    return sorted(jobs, key=lambda job: -job[2])


def _tuned(
    node: Node, count: int, build: Callable[..., Any], deadline: float
) -> TunedContraction | None:
    """Measure schedules of a contraction until `deadline`; None if it cannot be compiled alone."""
    name, work = contraction_name(node), Work.of(node, detect_target())
    graph = _alone(node)
    chosen = _program(graph, build, {})
    seen: dict[Schedule, float] = {}
    runs: dict[Schedule, Run] = {}

    def measure(schedules: Sequence[Schedule]) -> bool:
        """Measure each candidate schedule in turn; return whether time is left."""
        for schedule in schedules:
            if seen and time.perf_counter() > deadline:
                return False
            if schedule not in seen:
                try:
                    runs[schedule] = _program(graph, build, {name: schedule})
                except RlxError:  # it fits no operands as this program stores them
                    seen[schedule] = float("inf")
                    continue
                seen[schedule] = _seconds(runs[schedule])
        return time.perf_counter() <= deadline

    assert work is not None
    goes_on = measure(work.candidates())
    best = min(seen, key=lambda each: seen[each], default=None)
    while goes_on and best is not None:
        goes_on, fastest = measure(work.variants(best)), best
        best = min(seen, key=lambda each: seen[each])
        goes_on &= best != fastest
    measured = sum(each < float("inf") for each in seen.values())
    if best is None or best not in runs:
        return None
    before, after = _in_turns(chosen, runs[best])
    won = best if after < _GAIN * before else None
    return TunedContraction(name, count, won, before, after if won else before, measured)


def _alone(node: Node) -> Graph:
    """Return a graph of one contraction; its operands are stored as in the program."""
    graph = Graph("tuned")

    def operand(position: int, value: Value) -> Value:
        stored, transposed = without_transpose(value)
        leaf = graph.param if is_prepared(value) else graph.input
        given = leaf(f"x{position}", stored.shape, stored.dtype)
        return swapped(given) if transposed else given

    operands = [operand(*numbered) for numbered in enumerate(node.operands)]
    graph.set_outputs(graph.append(node.op, operands, node.attrs))
    return graph


def _program(graph: Graph, build: Callable[..., Any], schedules: Mapping[str, Schedule]) -> Run:
    """Return what runs `graph` once, by the schedules, on random numbers."""
    rng, signature = np.random.default_rng(_SEED), Signature.of(graph)
    feeds = {each.name: _random(each.type, rng) for each in signature.inputs}
    params = {
        each.name: _random(each.type, rng)
        for each in signature.params
        if each.name not in graph.param_values
    }
    program = build(graph, params=params, schedules=schedules)
    return partial(program.run, feeds)


def _random(type: TensorType, rng: np.random.Generator) -> NDArray[Any]:
    """Return normal numbers for floats, zeros for others, at the largest symbolic extents."""
    shape = tuple(map(upper, type.shape))
    if not type.dtype.is_float:
        return np.zeros(shape, type.dtype.numpy)
    return rng.standard_normal(shape).astype(type.dtype.numpy)


def _seconds(run: Run) -> float:
    """Return the shortest time of several runs."""
    run()
    return min(_times(run))


def _times(run: Run) -> Iterator[float]:
    stop = time.perf_counter() + _SLICE
    while True:
        started = time.perf_counter()
        run()
        ended = time.perf_counter()
        yield ended - started
        if ended > stop:
            return


def _in_turns(first: Run, second: Run) -> tuple[float, float]:
    """Return the medians of the shortest times of both, measured alternately."""
    pairs = [(_seconds(first), _seconds(second)) for _ in range(_ROUNDS)]
    one, other = (statistics.median(times) for times in zip(*pairs, strict=True))
    return one, other
