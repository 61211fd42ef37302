"""rlx itself, compiled twice: with an empty cache, then with what that left in it."""

from __future__ import annotations

import functools
import os
import tempfile
import time
from typing import Any

import numpy as np

import rlx
import rlx.numpy
from bench.peers.session import Session, compile_a_loop
from bench.peers.training import training_graph
from bench.routine import FrontEnd, Routine
from bench.workload import Array, Workload
from rlx.ir.graph import Graph
from rlx.runtime.gateway import find_gateway


def prepare(workload: Workload, threads: int) -> Session:
    graph = workload.build()
    feeds, params = workload.feeds(graph), workload.params(graph)
    if workload.training is not None:
        graph, state = training_graph(graph, workload.training)
        params |= state
        feeds["d_output"] = np.ones((), np.float32)
    inputs = [feeds[str(leaf.node.name)] for leaf in graph.inputs]
    with tempfile.TemporaryDirectory() as cache:
        os.environ["RLX_CACHE_DIR"] = cache
        cold, _ = _first_result(graph, params, inputs, threads)
        warm, program = _first_result(graph, params, inputs, threads)
    for name, value in params.items():
        program.set_param(name, value)
    find_gateway(wait=True)  # a process compiles it once, during the calls, which take longer then
    return Session(
        lambda: program(*inputs),
        lambda results: list(results[:1] if workload.training else results),
        cold_seconds=cold,
        warm_seconds=warm,
        temporary_bytes=program.plan.arena_bytes,
    )


def _first_result(
    graph: Graph, params: dict[str, Array], inputs: list[Array], threads: int
) -> tuple[float, Any]:
    started = time.perf_counter()
    backend = os.environ.get("RLX_BENCH_BACKEND", "auto")
    program = rlx.compile(graph, backend=backend, params=params, threads=threads)
    program(*inputs)
    return time.perf_counter() - started, program


FRONT_END = FrontEnd(rlx.numpy, rlx, rlx)


def prepare_program(program: Routine, threads: int, backend: str = "auto") -> Session:
    arguments = program.arguments()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["RLX_CACHE_DIR"] = cache
        _warm_up(backend)
        started = time.perf_counter()
        function = rlx.jit(program.write(FRONT_END), backend=backend, threads=threads)
        function(*arguments)
        cold = time.perf_counter() - started
    return Session(
        functools.partial(function, *arguments),
        lambda results: list(results) if isinstance(results, tuple) else [results],
        cold_seconds=cold,
        temporary_bytes=function.executable(*arguments).plan.arena_bytes,
    )


@functools.cache
def _warm_up(backend: str) -> None:
    compile_a_loop(FRONT_END, functools.partial(rlx.jit, backend=backend))
