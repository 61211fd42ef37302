"""What compiling costs: each workload with each backend, in processes of its own.

    python -m bench.compile_time [PATTERN ...] [--threads N]

Cold is a new process with an empty cache: from the graph (or, for programs, from the call of the
function, tracing included) to an executable and its first result. It includes loading the passes,
the kernels, and LLVM's library or running the C compiler; it excludes the interpreter, NumPy,
`import rlx` and building the arguments. Loaded is the same after another graph was compiled in
that process. Warm is a new process with the cache that the cold one left. Params are bound in
all of them: of a large model that is most of the warm time, and `code` leaves it out.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.peers.training import training_graph
from bench.text import table
from bench.workloads import PROGRAMS, WORKLOADS

_BACKENDS = ("llvm", "c")
_WARM_ROUNDS = 3


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="time compilation, cold and warm")
    parser.add_argument("patterns", nargs="*", default=["*"])
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(arguments)
    names = [w.name for w in WORKLOADS] + [p.name for p in PROGRAMS]
    chosen = [n for n in names if any(fnmatch.fnmatch(n, p) for p in options.patterns)]
    rows = [_row(name, backend, options.threads) for name in chosen for backend in _BACKENDS]
    columns = ["workload", "backend", "cold", "cold code", "loaded", "warm", "warm code"]
    print(table(columns, rows))


def _row(name: str, backend: str, threads: int) -> list[str]:
    cold, cold_code = _in_a_new_process(name, backend, threads)
    loaded, _ = _in_a_new_process(name, backend, threads, after_another=True)
    with tempfile.TemporaryDirectory() as cache:
        _in_a_new_process(name, backend, threads, cache=cache)
        warm = [_in_a_new_process(name, backend, threads, cache=cache) for _ in range(_WARM_ROUNDS)]
    seconds = (cold, cold_code, loaded, min(w for w, _ in warm), min(c for _, c in warm))
    return [name, backend, *(f"{1e3 * s:.1f}" for s in seconds)]


def _in_a_new_process(
    name: str, backend: str, threads: int, *, after_another: bool = False, cache: str | None = None
) -> tuple[float, float]:
    """Return the seconds to the first result, and those of them until there is code."""
    if cache is None:
        with tempfile.TemporaryDirectory() as empty:
            return _in_a_new_process(
                name, backend, threads, after_another=after_another, cache=empty
            )
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, name, backend, str(threads), str(int(after_another))],
        env=os.environ | {"RLX_CACHE_DIR": cache},
        capture_output=True,
        check=True,
        text=True,
    )
    total, code = json.loads(done.stdout)
    return total, code


_CHILD = "import sys; from bench.compile_time import child; child(*sys.argv[1:])"


def child(name: str, backend: str, threads: str, after_another: str) -> None:
    """Time one compilation in this process and print it as JSON."""
    import rlx

    _ = rlx.compile, rlx.jit, rlx.numpy
    run = _prepared(name, backend, int(threads))
    if after_another == "1":
        graph = rlx.Graph("another")
        graph.set_outputs([graph.sin(graph.input("x", (3,)) * 2.0)])
        rlx.compile(graph, backend=backend, threads=1)(np.ones(3, np.float32))
    print(json.dumps(run()))


def _prepared(name: str, backend: str, threads: int) -> Callable[[], tuple[float, float]]:
    """Return what compiles and runs a workload, and says when there was code and a result."""
    for workload in WORKLOADS:
        if workload.name == name:
            return _graph_run(workload, backend, threads)
    program = next(program for program in PROGRAMS if program.name == name)
    return _program_run(program, backend, threads)


def _graph_run(workload: Any, backend: str, threads: int) -> Callable[[], tuple[float, float]]:
    import rlx

    graph = workload.build()
    feeds, params = workload.feeds(graph), workload.params(graph)
    if workload.training is not None:
        graph, state = training_graph(graph, workload.training)
        params |= state
        feeds["d_output"] = np.ones((), np.float32)
    inputs = [feeds[str(leaf.node.name)] for leaf in graph.inputs]

    def run() -> tuple[float, float]:
        started = time.perf_counter()
        executable = rlx.compile(graph, backend=backend, threads=threads)
        code = time.perf_counter() - started
        for parameter, value in params.items():
            executable.set_param(parameter, value)
        executable(*inputs)
        return time.perf_counter() - started, code

    return run


def _program_run(program: Any, backend: str, threads: int) -> Callable[[], tuple[float, float]]:
    import rlx
    from bench.peers.rlx_peer import FRONT_END

    arguments = program.arguments()
    function = rlx.jit(program.write(FRONT_END), backend=backend, threads=threads)

    def run() -> tuple[float, float]:
        started = time.perf_counter()
        function.executable(*arguments)
        code = time.perf_counter() - started
        function(*arguments)
        return time.perf_counter() - started, code

    return run


if __name__ == "__main__":
    main(sys.argv[1:])
