"""The command: `mpirun -n 2 python -m bench.scale`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bench.scale.exchange import SIZES, join_jax, summed, summed_by_jax
from bench.scale.overlap import overlap_row
from bench.scale.report import ExchangeRow, Found, StepRow, report
from bench.scale.steps import SHARE, STEPS
from bench.scale.turns import Turn, best_seconds
from rlx.distributed import Mesh, World, initialize
from rlx.distributed.lockstep import Lockstep
from rlx.distributed.world import MpiConnection


def main() -> None:
    options = _parser().parse_args()
    world = initialize()
    from mpi4py import MPI

    ranks, own = MPI.COMM_WORLD.Dup(), MPI.COMM_SELF.Dup()
    single = World(0, 1, MpiConnection(own, Lockstep(own)))
    everybody, alone = Mesh({"data": world.size}), Mesh({"data": 1}, single)
    absent = join_jax(ranks)
    steps = [step_row(name, ranks, everybody, alone, options) for name in options.steps]
    overlaps = [overlap_row(name, ranks, everybody, options) for name in options.steps]
    exchanges = [exchange_row(size, ranks, everybody, not absent, options) for size in SIZES]
    if world.rank == 0:
        text = report(
            Found(world.size, steps, overlaps, exchanges, absent, MPI.Get_library_version())
        )
        print(text)
        if options.write:
            options.write.write_text(text)
    single.connection.lockstep.leave()


def step_row(name: str, ranks: Any, everybody: Mesh, alone: Mesh, options: Any) -> StepRow:
    make, size = STEPS[name], ranks.size
    single = make(alone, SHARE)
    weak, strong = make(everybody, SHARE * size), make(everybody, SHARE)
    turns = {
        "one": Turn(single.repeated(), alone=True),
        "apart": Turn(make(alone, SHARE).repeated()),
        "weak": Turn(weak.repeated()),
        "strong": Turn(strong.repeated()),
    }
    best = best_seconds(ranks, turns, options.rounds, options.seconds)
    return StepRow(name, single.gradient_bytes, **best)


def exchange_row(size: int, ranks: Any, mesh: Mesh, with_jax: bool, options: Any) -> ExchangeRow:
    calls = summed(mesh, ranks, size)
    if with_jax:
        calls["JAX, gloo"] = summed_by_jax(size)
    turns = {name: Turn(call) for name, call in calls.items()}
    return ExchangeRow(size, best_seconds(ranks, turns, options.rounds, options.seconds))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="What several ranks gain, and what sums cost")
    parser.add_argument("--rounds", type=int, default=60, help="how often each is timed")
    parser.add_argument("--seconds", type=float, default=0.005, help="of calls each time")
    words = "which training steps are timed; default: all"
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=[*STEPS], help=words)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the report there")
    return parser


if __name__ == "__main__":
    main()
