"""When each part of a training step runs on each rank: what is computed while sums are under way.

    mpirun -n 2 python -m bench.scale.timeline [--step "classifier MLP"] [--rows 128]

The clock is read around every thunk of the compiled step, on all ranks. Printed is the run in
which the slowest rank was fastest.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.scale.native import local_feeds
from bench.scale.steps import SHARE, STEPS, Step
from rlx.codegen.lower import Program
from rlx.codegen.schedule import Phase
from rlx.distributed import Mesh, initialize
from rlx.ir import ops
from rlx.ir.shape import upper
from rlx.runtime.compile import choose_backend
from rlx.runtime.lower import lower_for
from rlx.runtime.profile import clock_readings
from rlx.target import detect_target

_COLUMNS = 64
_RUNS = 500
_EXCHANGES = {ops.all_reduce, ops.all_reduce_start, ops.all_reduce_done}
LEGEND = "# work, s a sum begins, w a sum is awaited, r a sum at once; = a sum is under way"


@dataclass(frozen=True, slots=True)
class Span:
    """What a rank did from one time to another, in seconds since the step began."""

    letter: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Flight:
    """A sum from where it begins to where it has been awaited."""

    size: int
    begin: float
    awaited: float
    """When its result was first asked for: work until here is hidden."""
    end: float


@dataclass(frozen=True, slots=True)
class Lane:
    """What one rank did in a step."""

    rank: int
    spans: tuple[Span, ...]
    flights: tuple[Flight, ...]


def lane(rank: int, program: Program, times: Sequence[float]) -> Lane:
    """Return what a rank did, of the times at which its thunks began and the last one ended."""
    spans, flights = [], []
    begun: dict[Any, tuple[int, float]] = {}
    for number, thunk in enumerate(program.schedule.phase(Phase.RUN)):
        node, begin, end = thunk.node, times[number], times[number + 1]
        spans.append(Span(_letter(node.op), begin, end))
        if node.op is ops.all_reduce_start:
            type = node.results[0].type
            begun[node] = (upper(type.elements) * type.dtype.size, begin)
        elif node.op is ops.all_reduce_done:
            size, start = begun.pop(node.operands[1].node)
            flights.append(Flight(size, start, begin, end))
    return Lane(rank, tuple(spans), tuple(flights))


def _letter(op: Any) -> str:
    letters = {ops.all_reduce: "r", ops.all_reduce_start: "s", ops.all_reduce_done: "w"}
    return letters.get(op, "#")


def drawn(lanes: Sequence[Lane]) -> str:
    """Return the lanes as lines of text, on one scale."""
    whole = max(lane.spans[-1].end for lane in lanes)
    lines = [f"0 {' ' * (_COLUMNS + 2)} {1e6 * whole:.0f} us"]
    for lane in lanes:
        lines.append(f"rank {lane.rank:<7} {_bar(lane.spans, whole)}")
        for flight in lane.flights:
            under_way = Span("=", flight.begin, flight.end)
            label = f"{flight.size / 1024:.0f} KiB"
            lines.append(f"{label:>12} {_bar([under_way], whole)}  {_described(flight)}")
    return "\n".join([*lines, LEGEND])


def _bar(spans: Sequence[Span], whole: float) -> str:
    """Return a line of letters; where one column has several, exchanges are shown before work."""
    bar = [" "] * _COLUMNS
    for span in sorted(spans, key=lambda span: span.letter != "#"):
        first = min(int(span.begin / whole * _COLUMNS), _COLUMNS - 1)
        last = max(first + 1, round(span.end / whole * _COLUMNS))
        bar[first:last] = span.letter * (min(last, _COLUMNS) - first)
    return "".join(bar)


def _described(flight: Flight) -> str:
    hidden, waited = flight.awaited - flight.begin, flight.end - flight.awaited
    return f"{1e6 * hidden:.0f} us until asked for, {1e6 * waited:.0f} us waited"


def measured(step: Step, mesh: Mesh, ranks: Any) -> list[Lane]:
    """Return what each rank did in the fastest run."""
    graph = step.mapped.graph(*step.state, *step.batch)
    target, backend = detect_target(), choose_backend("auto")
    program = lower_for(graph, target)
    feeds = local_feeds(graph, step, mesh)
    readings = clock_readings(
        graph, program, feeds, backend=backend, target=target, repeats=_RUNS, before=ranks.Barrier
    )
    everybody = np.array(ranks.allgather(readings))
    begin = everybody[:, :, 0].min(axis=0)
    run = int(np.argmin(everybody[:, :, -1].max(axis=0) - begin))
    return [lane(r, program, times[run] - begin[run]) for r, times in enumerate(everybody)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--step", default="classifier MLP", choices=list(STEPS))
    parser.add_argument("--rows", type=int, default=SHARE, help="of the batch, per rank")
    options = parser.parse_args()
    world = initialize()
    from mpi4py import MPI

    mesh = Mesh({"data": world.size})
    step = STEPS[options.step](mesh, options.rows * world.size)
    lanes = measured(step, mesh, MPI.COMM_WORLD.Dup())
    if world.rank == 0:
        print(f"{options.step}, {options.rows} rows per rank\n{drawn(lanes)}")


if __name__ == "__main__":
    main()
