"""How tables say times, ratios and faults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.rounds import Row, Timing


def time(timing: Timing | None) -> str:
    """Return the best and the median in microseconds, or why there is none."""
    if timing is None:
        return ""
    if not timing.ran:
        return "differs" if timing.disagreement else "fails"
    return f"{_microseconds(timing.best)} ({_microseconds(timing.median)})"


def _microseconds(seconds: float) -> str:
    value = seconds * 1e6
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.0f}"


def ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def notes(row: Row) -> list[str]:
    """Return a line for each peer whose result is missing or wrong."""
    found = [(name, t.made.fault or t.disagreement) for name, t in row.timings.items()]
    return [f"- {row.workload.name}, {name}: {text}" for name, text in found if text]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table, each row as soon as it is there."""
    print(table(header, []))
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
