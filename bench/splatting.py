"""Gaussian splatting next to PyTorch and JAX: `python -m bench.splatting [--splats N] [--size S]`.

`--growth` prints how the time grows with visible work, `--plot FILE` draws it (with matplotlib),
and `--arithmetic` says how much of the machine's peak the inner loop of compositing reaches.

Each implementation (`splatting_peers`) has a process of its own, with as many cores as threads and
the memory that is free; where that is too little, its row says "out of memory".
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

import rlx
from bench.splatting_arithmetic import arithmetic
from bench.splatting_peers import PEERS, TILE, Run, rlx_runs
from bench.splatting_process import OutOfMemoryError, PeerProcess
from bench.splatting_scene import Array, scene
from rlx.splat import ops as splat_ops


def processor_time(run: Run, seconds: float) -> float:
    """Return the least time of some runs that this process has a processor, in milliseconds."""
    run()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        started = time.process_time()
        run()
        times.append(1e3 * (time.process_time() - started))
    return min(times)


RUNS = ("image", "gradient")
LABELS = ("image", "image and gradient")


def compare(splats: int, size: int, peers: list[str], rounds: int, threads: int | None) -> None:
    """Print the least times of all peers, which take turns so that a busy machine is fair."""
    processes = {name: PeerProcess(PEERS[name], splats, size, threads) for name in peers}
    first = processes[peers[0]].image()
    best: dict[str, dict[str, float]] = {name: dict.fromkeys(RUNS, math.inf) for name in peers}
    for _ in range(rounds):
        for name, times in best.items():
            for what in RUNS:
                if not math.isnan(times[what]):
                    times[what] = min(times[what], _time_of(processes[name], what))
    for name in peers:
        cells = [_cell(best[name][what], best[peers[0]][what]) for what in RUNS]
        print(f"| {splats:,} | {size} x {size} | {name} | {' | '.join(cells)} "
              f"| {_apart(processes[name], first)} |", flush=True)  # fmt: skip
        processes[name].close()


def _time_of(process: PeerProcess, what: str) -> float:
    """Return milliseconds, NaN where there is too little memory."""
    try:
        return process.milliseconds(what)
    except OutOfMemoryError:
        return math.nan


def _cell(time: float, ours: float) -> str:
    return "out of memory | " if math.isnan(time) else f"{time:.1f} | {time / ours:.1f}"


def _apart(process: PeerProcess, first: Array) -> str:
    """Return the mean difference of an image from the first one."""
    try:
        return f"{np.abs(process.image().ravel() - first.ravel()).mean():.0e}"
    except OutOfMemoryError:
        return ""


def list_entries(arrays: list[Array], size: int) -> int:
    """Return how many (splat, tile) pairs are visible: the work of compositing."""
    graph = rlx.Graph("lists")
    given = [graph.input(f"x{i}", a.shape, "f32") for i, a in enumerate(arrays)]
    room = 1 << 20
    tiles = (size // TILE) ** 2
    buffer = splat_ops.gaussian_splat_prepare(
        *given, width=size, height=size, max_list_entries=room, max_splat_steps=0
    )
    ends = graph.narrow(buffer, axis=0, start=15 * len(arrays[0]) + room, length=2 * tiles)
    graph.set_outputs([ends])
    (ranges,) = rlx.compile(graph).run({f"x{i}": array for i, array in enumerate(arrays)})
    return int(ranges.reshape(-1, 2)[:, 1].max())


GROWTH = [
    *((splats, 256, 0.004) for splats in (1_000, 10_000, 100_000)),
    *((splats, 512, 0.004) for splats in (10_000, 100_000)),
    *((10_000, size, spread) for size in (256, 512) for spread in (0.012, 0.036)),
]
"""Splats, pixels of a side, and sizes of splats."""


def growth(threads: int | None, seconds: float) -> list[tuple[int, int, int, float, float]]:
    """Print how the time of rlx grows: with list entries, not with splats times pixels."""
    found = []
    for splats, size, spread in GROWTH:
        arrays = scene(splats, spread)
        forward, both, _ = rlx_runs(arrays, size, threads)
        entries = list_entries(arrays, size)
        image, gradient = (processor_time(run, seconds) for run in (forward, both))
        found.append((splats, size, entries, image, gradient))
        print(f"| {splats:,} | {size} x {size} | {spread} | {entries:,} | {image:.1f} "
              f"| {gradient:.1f} |", flush=True)  # fmt: skip
    return found


def plot(points: list[tuple[int, int, int, float, float]], path: str) -> None:
    """Draw times over visible work, and over splats times pixels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    splats, size, entries, *times = (np.array(column) for column in zip(*points, strict=True))
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.2), sharey=True)
    for axis, work, label in (
        (axes[0], entries, "visible work (pairs of a splat and a tile that it covers)"),
        (axes[1], splats * size**2, "splats x pixels"),
    ):
        for what, time_of, color in zip(LABELS, times, ("C0", "C1"), strict=True):
            for side, marker in ((256, "o"), (512, "s")):
                shown = size == side
                axis.loglog(work[shown], time_of[shown], marker, color=color, mfc="none",
                            label=f"{what}, {side} x {side}")  # fmt: skip
        ends = np.array([work.min(), work.max()], float)
        proportional = np.median(times[1] / work) * ends
        axis.loglog(ends, proportional, ":", color="grey", label="proportional")
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("processor time (ms)")
    axes[0].legend(fontsize="small")
    figure.suptitle("Time of drawing splats, each marker a scene")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="Gaussian splatting next to PyTorch and JAX")
    parser.add_argument("--splats", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each point of growth")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--plot", metavar="FILE", help="draw the growth")
    parser.add_argument("--arithmetic", action="store_true", help="the inner loop and the peak")
    options = parser.parse_args()
    if options.arithmetic:
        print(arithmetic(options.splats, options.size))
    elif options.growth or options.plot:
        points = growth(options.threads, options.seconds)
        if options.plot:
            plot(points, options.plot)
    else:
        compare(options.splats, options.size, options.peers, options.rounds, options.threads)


if __name__ == "__main__":
    main()
