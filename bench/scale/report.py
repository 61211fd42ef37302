"""What was found, as Markdown."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.machine import describe_machine
from bench.scale.paper import ETHERNET, INFINIBAND, Network, measured
from bench.scale.steps import SHARE
from bench.text import table

_MODELED_RANKS = (64, 1024)


@dataclass(frozen=True, slots=True)
class StepRow:
    """Seconds of a training step."""

    name: str
    gradient_bytes: int
    one: float
    """One rank, the others asleep."""
    apart: float
    """All ranks at once, each a program of one rank: what they take from each other."""
    weak: float
    """All ranks together, a full share for each."""
    strong: float
    """All ranks together, one share split over them."""


@dataclass(frozen=True, slots=True)
class OverlapRow:
    """Seconds of the compiled code of a step, by when its sums over ranks begin and end."""

    name: str
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ExchangeRow:
    """Seconds of a sum over all ranks, by who computes it."""

    size: int
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Found:
    """All that was measured."""

    ranks: int
    steps: Sequence[StepRow]
    overlaps: Sequence[OverlapRow]
    exchanges: Sequence[ExchangeRow]
    absent: str
    """Why JAX is not there, or ""."""
    library: str


def report(found: Found) -> str:
    """Return the whole report."""
    of_two = {row.size: row.seconds["rlx, in a step"] for row in found.exchanges}
    networks = (measured(of_two), ETHERNET, INFINIBAND)
    parts = [
        f"# Scale, {datetime.date.today().isoformat()}",
        _circumstances(found),
        "## Training steps",
        _steps_text(found),
        _steps_table(found.steps),
        "## With and without overlap",
        _overlap_text(found),
        overlap_table(found.overlaps),
        "## A sum over all ranks",
        "Microseconds of one sum of f32, on the slowest rank."
        + (f" {found.absent}." if found.absent else ""),
        _exchange_table(found.exchanges),
        "## On paper",
        "Efficiency at `t / (t + 2 (p - 1)/p n/B + 2 log2(p) L)`, with *t* the step of one rank, "
        "*n* the bytes of gradients, and nothing overlapped with other work; in brackets what "
        "takes more, bytes or latency.",
        "\n".join(_network_line(network) for network in networks),
        _paper_table(found.steps, networks),
    ]
    return "\n\n".join(parts) + "\n"


def _circumstances(found: Found) -> str:
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "mpi4py", "jax")
        if _is_installed(name)
    )  # fmt: skip
    lines = (
        f"machine: {describe_machine()}; others used it too, load {os.getloadavg()[1]:.1f}",
        f"{found.ranks} ranks of one thread; {found.library.splitlines()[0].strip()}; {versions}",
        f"command: `mpirun -n {found.ranks} python -m bench.scale`; least of many rounds, in turns",
    )
    return "\n".join(f"- {line}" for line in lines)


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _steps_text(found: Found) -> str:
    return (
        f"Microseconds of a step at batch {SHARE} per rank. *One*: one rank, the others asleep. "
        f"*Apart*: {found.ranks} ranks at once that have nothing to do with each other, which is "
        f"what this machine can do. *Weak*: {found.ranks} ranks that train together, on "
        f"{SHARE * found.ranks} rows. *Strong*: the same on {SHARE} rows."
    )


def _steps_table(rows: Sequence[StepRow]) -> str:
    header = ["step", "gradients", "one", "apart", "weak", "strong",
              "weak scaling, one / weak", "of what the machine can, apart / weak",
              "gain, one / strong"]  # fmt: skip
    return table(header, [_step_cells(row) for row in rows])


def _step_cells(row: StepRow) -> list[str]:
    times = [f"{1e6 * t:.0f}" for t in (row.one, row.apart, row.weak, row.strong)]
    shares = [f"{100 * row.one / row.weak:.0f} %", f"{100 * row.apart / row.weak:.0f} %"]
    return [row.name, _size(row.gradient_bytes), *times, *shares, f"{row.one / row.strong:.2f}"]


def _overlap_text(found: Found) -> str:
    return (
        f"Microseconds of the compiled code of a step alone, {SHARE} rows on each of {found.ranks} "
        "ranks. *At once*: every sum is a call that returns when it is done, after all work. "
        "*Begun*: large sums begin there and are awaited where they are read. *Hoisted*: "
        "they begin where their operand has been computed, which is what users get."
    )


def overlap_table(rows: Sequence[OverlapRow]) -> str:
    """Return a row for each step."""
    names = list(rows[0].seconds)
    cells = []
    for row in rows:
        times = list(row.seconds.values())
        ratio = f"{times[0] / times[-1]:.2f}"
        cells.append([row.name, *(f"{1e6 * t:.0f}" for t in times), ratio])
    return table(["step", *names, f"{names[0]} / {names[-1]}"], cells)


def _exchange_table(rows: Sequence[ExchangeRow]) -> str:
    names = list(rows[0].seconds)
    cells = [[_size(row.size), *(f"{1e6 * row.seconds[n]:.1f}" for n in names)] for row in rows]
    return table(["size", *names], cells)


def _network_line(network: Network) -> str:
    return (
        f"- {network.name}: L = {1e6 * network.latency:.2f} us, "
        f"B = {network.bandwidth / 1e9:.1f} GB/s"
    )


def _paper_table(rows: Sequence[StepRow], networks: Sequence[Network]) -> str:
    header = ["step", *(f"{n.name}, {p} ranks" for n in networks for p in _MODELED_RANKS)]
    return table(header, [[row.name, *_paper_cells(row, networks)] for row in rows])


def _paper_cells(row: StepRow, networks: Sequence[Network]) -> list[str]:
    return [_paper_cell(row, network, p) for network in networks for p in _MODELED_RANKS]


def _paper_cell(row: StepRow, network: Network, ranks: int) -> str:
    size = row.gradient_bytes
    is_bytes = network.byte_seconds(ranks, size) > network.latency_seconds(ranks)
    share = network.efficiency(row.one, ranks, size)
    return f"{100 * share:.0f} % ({'bytes' if is_bytes else 'latency'})"


def _size(size: int) -> str:
    for unit, power in (("MiB", 20), ("KiB", 10)):
        if size >= 1 << power:
            return f"{size / (1 << power):.3g} {unit}"
    return f"{size} B"
