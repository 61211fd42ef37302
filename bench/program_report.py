"""The table of programs: how far from the bound, from JAX, and a derivative from its value."""

from __future__ import annotations

from collections.abc import Sequence

from bench.rounds import Row, Timing
from bench.routine import Routine
from bench.text import milliseconds, notes, ratio, table, time

_OURS = {"rlx": "LLVM", "rlx_c": "C"}
_HEADER = (
    *("program", "LLVM", "C", "bound", "jax"),
    *("LLVM / bound", "C / bound", "LLVM / jax", "C / jax"),
    *("derivative / value, LLVM", "C", "bound"),
    *("cold LLVM", "cold C", "cold jax"),
)
EXPLANATION = (
    "Programs with loops and small systems. Microseconds per call, best (median), of code from "
    "LLVM, of code from the C compiler, of the bound (straight C kept in `bench/bounds`, same "
    "compiler and flags) and of JAX; ratios of the bests; milliseconds from the function to its "
    "first result."
)


def program_table(rows: Sequence[Row]) -> str:
    """Return the table as Markdown, with notes on what did not run or agree."""
    by_name = {row.workload.name: row for row in rows}
    lines = [[row.workload.name, *_cells(row, by_name)] for row in rows]
    found = [note for row in rows for note in notes(row)]
    return "\n\n".join([EXPLANATION, table(_HEADER, lines), *(["\n".join(found)] if found else [])])


def describe_program(row: Row, rows: Sequence[Row]) -> str:
    """Return one line for the terminal."""
    cells = _cells(row, {each.workload.name: each for each in rows})
    said = [f"{name} {cell}" for name, cell in zip(_HEADER[1:], cells, strict=True) if cell]
    return "  ".join([f"{row.workload.name:<34}", *said, *notes(row)])


def _cells(row: Row, by_name: dict[str, Row]) -> list[str]:
    program = row.workload
    assert isinstance(program, Routine), "rows of programs"
    value = by_name.get(program.value or "")
    times = [time(row.timings.get(peer)) for peer in (*_OURS, "bound", "jax")]
    ratios = [_quotient(row, ours, row, other) for other in ("bound", "jax") for ours in _OURS]
    slopes = [_quotient(row, peer, value, peer) for peer in (*_OURS, "bound")]
    colds = [_cold(row.timings.get(peer)) for peer in (*_OURS, "jax")]
    return [*times, *ratios, *slopes, *colds]


def _quotient(above: Row, peer: str, below: Row | None, other: str) -> str:
    first = above.timings.get(peer)
    second = below.timings.get(other) if below else None
    if first is None or second is None or not first.ran or not second.ran:
        return ""
    return ratio(first.best / second.best)


def _cold(timing: Timing | None) -> str:
    return milliseconds(timing.made.cold_seconds) if timing else ""
