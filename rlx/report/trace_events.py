"""Runs of a program in the Trace Event Format, which Perfetto and chrome://tracing show.

Times are microseconds from the begin of the first run. Source: the document "Trace Event Format"
of the Chromium project.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rlx.report.places import short_place
from rlx.runtime.profile import Profile, TimedThunk

_MICROSECONDS = 1e6


def trace_of(name: str, times: Profile) -> dict[str, Any]:
    """Return the JSON object of a trace: an event per run, and one per kernel call inside it."""
    return {"traceEvents": list(_events(name, times)), "displayTimeUnit": "ns"}


def _events(name: str, times: Profile) -> Iterator[dict[str, Any]]:
    yield _named("process_name", f"rlx: {name}")
    yield _named("thread_name", "kernels")
    start = times.readings[0, 0]
    for number, row in enumerate((times.readings - start) * _MICROSECONDS):
        yield _span(f"run {number}", "run", row[0], row[-1], {})
        for timed, begin, end in zip(times.thunks, row[:-1], row[1:], strict=True):
            yield _span(timed.kernel, "kernel", begin, end, _facts(timed))


def _named(kind: str, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": 1, "tid": 1, "args": {"name": name}}


def _span(
    name: str, category: str, begin: float, end: float, facts: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "ts": float(begin),
        "dur": float(end - begin),
        "pid": 1,
        "tid": 1,
        "args": facts,
    }


def _facts(timed: TimedThunk) -> dict[str, Any]:
    node = timed.thunk.node
    facts = {
        "op": node.op.name,
        "result": str(node.results[0].type),
        "flops": timed.cost.flops,
        "bytes": timed.cost.bytes,
    }
    return facts if node.source is None else {**facts, "source": short_place(node.source)}
