"""The table, as Markdown."""

from __future__ import annotations

import importlib.metadata
import platform
import textwrap
from collections.abc import Sequence

from bench.load import loaded_table
from bench.machine import Peak, describe_machine
from bench.program_report import program_table
from bench.rounds import Row
from bench.routine import Routine
from bench.text import milliseconds, notes, ratio, table, time
from bench.workload import Workload

_DISTRIBUTIONS = ("numpy", "llvmlite", "jax", "torch", "onnxruntime", "openvino")


def report(
    rows: Sequence[Row],
    peak: Peak,
    *,
    command: str,
    date: str,
    threads: int,
    is_loaded: bool = False,
) -> str:
    """Return the whole report; times are microseconds, best (median)."""
    graphs = [row for row in rows if isinstance(row.workload, Workload)]
    programs = [row for row in rows if isinstance(row.workload, Routine)]
    parts = [
        "# Kernels and small models",
        "\n".join(
            (
                f"- date: {date}",
                f"- machine: {describe_machine()}",
                f"- peak measured: {peak.gflops:.0f} GFLOP/s f32, {peak.gigabytes:.1f} GB/s copy",
                f"- {threads} threads; {_versions()}",
                f"- command: `{command}`",
            )
        ),
        *(_tables(graphs, programs, peak) if not is_loaded else _loaded(rows)),
    ]
    return "\n\n".join(map(_wrapped, parts)) + "\n"


def _wrapped(part: str) -> str:
    """Return the text with lines of prose wrapped; tables are unchanged."""
    if part.startswith("|"):
        return part
    wrapper = textwrap.TextWrapper(width=118, break_long_words=False, break_on_hyphens=False)
    wrapper.subsequent_indent = "  " if part.startswith("- ") else ""
    return "\n".join(map(wrapper.fill, part.splitlines()))


def _tables(graphs: Sequence[Row], programs: Sequence[Row], peak: Peak) -> list[str]:
    tables = _graph_tables(graphs, peak) if graphs else []
    return [*tables, program_table(programs)] if programs else tables


def _loaded(rows: Sequence[Row]) -> list[str]:
    return ["Microseconds per call with busy processes: median (99 %).", loaded_table(rows)]


def _graph_tables(rows: Sequence[Row], peak: Peak) -> list[str]:
    peers = list(dict.fromkeys(name for row in rows for name in row.timings))
    found = [note for row in rows for note in notes(row)]
    return [
        "Microseconds per call: best (median) over all rounds. The ratio is ours to the best "
        "peer, of the bests and of the medians; below 1 we are ahead. `of peak` is the larger "
        "of the two fractions, compute and memory, that the mathematics needs.",
        table(
            ["workload", *peers, "ratio", "of medians", "aim", "of peak"],
            [_times_row(row, peers, peak) for row in rows],
        ),
        "Compile time in milliseconds, from the graph to the first result; bytes of our whole "
        "arena (params, inputs, results, temporaries) and of XLA's temporaries alone.",
        table(
            ["workload", "rlx cold", "rlx warm", "jax", "onnxruntime", "openvino", "arena", "XLA"],
            [_compile_row(row) for row in rows],
        ),
        *(["\n".join(found)] if found else []),
    ]


def describe_row(row: Row) -> str:
    """Return one line for the terminal."""
    times = "  ".join(f"{name} {time(t)}" for name, t in row.timings.items())
    return f"{row.workload.name:<22} {ratio(row.ratio):>6} {ratio(row.median_ratio):>6}  {times}"


def _times_row(row: Row, peers: Sequence[str], peak: Peak) -> list[str]:
    cells = [time(row.timings.get(name)) for name in peers]
    aim = row.workload.aim if isinstance(row.workload, Workload) else ""
    aims = [ratio(row.ratio), ratio(row.median_ratio), aim]
    return [row.workload.name, *cells, *aims, _of_peak(row, peak)]


def _compile_row(row: Row) -> list[str]:
    ours = row.timings["rlx"].made
    others = [
        milliseconds(row.timings[name].made.cold_seconds) if name in row.timings else ""
        for name in ("jax", "onnxruntime", "openvino")
    ]
    xla = row.timings["jax"].made.temporary_bytes if "jax" in row.timings else None
    return [
        row.workload.name,
        milliseconds(ours.cold_seconds),
        milliseconds(ours.warm_seconds),
        *others,
        "" if ours.temporary_bytes is None else f"{ours.temporary_bytes:,}",
        "" if xla is None else f"{xla:,}",
    ]


def _of_peak(row: Row, peak: Peak) -> str:
    timing, workload = row.timings["rlx"], row.workload
    if not timing.ran or not isinstance(workload, Workload):
        return ""
    compute = workload.flops / timing.best / 1e9 / peak.gflops
    memory = workload.bytes / timing.best / 1e9 / peak.gigabytes
    return f"{max(compute, memory):.0%}" if workload.flops or workload.bytes else ""


def _versions() -> str:
    versions = [f"{name} {version}" for name in _DISTRIBUTIONS if (version := _version(name))]
    return ", ".join([f"Python {platform.python_version()}", *versions])


def _version(distribution: str) -> str | None:
    """Return the version of a package, or None where it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
