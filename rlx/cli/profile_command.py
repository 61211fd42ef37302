"""`rlx profile`: time every kernel of runs on one thread, and write a trace of them."""

from __future__ import annotations

import json
from argparse import Namespace

from rlx.cli.bench_command import timed_program
from rlx.cli.output import show
from rlx.passes.optional_passes import without_passes
from rlx.report.trace_events import trace_of
from rlx.runtime.compile import choose_backend
from rlx.target import detect_target


def execute(arguments: Namespace) -> int:
    backend = choose_backend(arguments.backend)
    target = without_passes(detect_target(), arguments.without)
    name, times = timed_program(arguments, backend, target)
    show(f"{name}, {backend.name} backend, 1 thread, {times.repeats} runs: medians")
    ranked = sorted(times.thunks, key=lambda timed: -timed.median)
    for timed in ranked[: arguments.top]:
        share = timed.median / times.median
        show(f"{timed.median * 1e6:10.1f} us {share:6.1%}  {timed.kernel}")
    show(f"{times.median * 1e6:10.1f} us         whole run")
    if arguments.trace is not None:
        arguments.trace.write_text(json.dumps(trace_of(name, times)), encoding="utf-8")
        show(f"written to {arguments.trace}")
    return 0
