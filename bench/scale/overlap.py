"""What it is worth that sums over ranks travel while something else is computed.

    mpirun -n 2 python -m bench.scale.overlap [--step "classifier MLP"] [--rows 128]

The same steps are compiled without the passes that make sums begin early.
"""

from __future__ import annotations

import argparse
from typing import Any

from bench.scale.native import local_feeds, native_call
from bench.scale.report import OverlapRow, overlap_table
from bench.scale.steps import SHARE, STEPS
from bench.scale.turns import Turn, best_seconds
from rlx.distributed import Mesh, initialize

LEFT_OUT = {
    "at once": ("hoist-collectives", "start-collectives"),
    "begun": ("hoist-collectives",),
    "hoisted": (),
}
"""The passes that steps are compiled without, by what becomes of their sums."""


def overlap_row(name: str, ranks: Any, mesh: Mesh, options: Any, rows: int = SHARE) -> OverlapRow:
    """Return the seconds of a step of `rows` rows per rank with and without each pass."""
    step = STEPS[name](mesh, rows * ranks.size)
    graph = step.mapped.graph(*step.state, *step.batch)
    feeds = local_feeds(graph, step, mesh)
    turns = {how: Turn(native_call(graph, feeds, passes)) for how, passes in LEFT_OUT.items()}
    return OverlapRow(name, best_seconds(ranks, turns, options.rounds, options.seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--step", action="append", choices=list(STEPS), help="this one alone")
    parser.add_argument("--rows", type=int, default=SHARE, help="of the batch, per rank")
    parser.add_argument("--rounds", type=int, default=300, help="how often each is timed")
    parser.add_argument("--seconds", type=float, default=0.0, help="of calls each time")
    options = parser.parse_args()
    world = initialize()
    from mpi4py import MPI

    ranks, mesh = MPI.COMM_WORLD.Dup(), Mesh({"data": world.size})
    names = options.step or list(STEPS)
    rows = [overlap_row(name, ranks, mesh, options, options.rows) for name in names]
    if world.rank == 0:
        print(overlap_table(rows))


if __name__ == "__main__":
    main()
