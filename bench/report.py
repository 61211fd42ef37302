"""The table, as Markdown."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Sequence

from bench.machine import Peak, describe_machine
from bench.rounds import Row, Timing

_DISTRIBUTIONS = ("numpy", "llvmlite", "jax", "torch", "onnxruntime", "openvino")


def report(rows: Sequence[Row], peak: Peak, *, command: str, date: str, threads: int) -> str:
    """Return the whole report; times are microseconds, best (median)."""
    peers = list(dict.fromkeys(name for row in rows for name in row.timings))
    parts = [
        f"# Bench, {date}",
        "\n".join(
            (
                f"- machine: {describe_machine()}",
                f"- peak measured: {peak.gflops:.0f} GFLOP/s f32, {peak.gigabytes:.1f} GB/s copy",
                f"- {threads} threads; {_versions()}",
                f"- command: `{command}`",
            )
        ),
        "Microseconds per call: best (median) over all rounds. The ratio is ours to the best "
        "peer, of the bests and of the medians; below 1 we are ahead. `of peak` is the larger "
        "of the two fractions, compute and memory, that the mathematics needs.",
        _table(
            ["workload", *peers, "ratio", "of medians", "aim", "of peak"],
            [_times_row(row, peers, peak) for row in rows],
        ),
        "Compile time in milliseconds, from the graph to the first result; bytes of our whole "
        "arena (params, inputs, results, temporaries) and of XLA's temporaries alone.",
        _table(
            ["workload", "rlx cold", "rlx warm", "jax", "onnxruntime", "openvino", "arena", "XLA"],
            [_compile_row(row) for row in rows],
        ),
    ]
    notes = [note for row in rows for note in _notes(row)]
    return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])]) + "\n"


def describe_row(row: Row) -> str:
    """Return one line for the terminal."""
    times = "  ".join(f"{name} {_time(t)}" for name, t in row.timings.items())
    return f"{row.workload.name:<22} {_ratio(row.ratio):>6} {_ratio(row.median_ratio):>6}  {times}"


def _times_row(row: Row, peers: Sequence[str], peak: Peak) -> list[str]:
    cells = [_time(row.timings.get(name)) for name in peers]
    aims = [_ratio(row.ratio), _ratio(row.median_ratio), row.workload.aim]
    return [row.workload.name, *cells, *aims, _of_peak(row, peak)]


def _compile_row(row: Row) -> list[str]:
    ours = row.timings["rlx"].made
    others = [
        _milliseconds(row.timings[name].made.cold_seconds) if name in row.timings else ""
        for name in ("jax", "onnxruntime", "openvino")
    ]
    xla = row.timings["jax"].made.temporary_bytes if "jax" in row.timings else None
    return [
        row.workload.name,
        _milliseconds(ours.cold_seconds),
        _milliseconds(ours.warm_seconds),
        *others,
        "" if ours.temporary_bytes is None else f"{ours.temporary_bytes:,}",
        "" if xla is None else f"{xla:,}",
    ]


def _of_peak(row: Row, peak: Peak) -> str:
    timing, workload = row.timings["rlx"], row.workload
    if not timing.ran:
        return ""
    compute = workload.flops / timing.best / 1e9 / peak.gflops
    memory = workload.bytes / timing.best / 1e9 / peak.gigabytes
    return f"{max(compute, memory):.0%}" if workload.flops or workload.bytes else ""


def _time(timing: Timing | None) -> str:
    if timing is None:
        return ""
    if not timing.ran:
        return "differs" if timing.disagreement else "fails"
    return f"{_microseconds(timing.best)} ({_microseconds(timing.median)})"


def _microseconds(seconds: float) -> str:
    value = seconds * 1e6
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.0f}"


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _notes(row: Row) -> list[str]:
    found = [(name, t.made.fault or t.disagreement) for name, t in row.timings.items()]
    return [f"- {row.workload.name}, {name}: {text}" for name, text in found if text]


def _versions() -> str:
    versions = [f"{name} {version}" for name in _DISTRIBUTIONS if (version := _version(name))]
    return ", ".join([f"Python {platform.python_version()}", *versions])


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _version(distribution: str) -> str | None:
    """Return the version of a package, or None where it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
