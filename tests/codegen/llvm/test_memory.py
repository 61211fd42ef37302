"""Memory that compiling takes for good."""

from __future__ import annotations

import gc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from rlx.codegen.llvm import binding
from rlx.codegen.llvm.emit import emit_module
from rlx.codegen.llvm.optimize import Options, Pipeline
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import LoopKind, Prim
from rlx.target import detect_target
from tests.codegen.llvm.native import module_of

_PAGE = 4096
_STATUS = Path("/proc/self/statm")


def _resident() -> int:
    gc.collect()
    return int(_STATUS.read_text().split()[1]) * _PAGE


def _growth(pipeline: Pipeline, runs: int) -> float:
    """Return the bytes that a compilation keeps, on average over `runs`."""
    machine = binding.host_machine(detect_target().vector_bytes)
    k = KernelBuilder("scale")
    x, y = k.argument("x", Prim.F32), k.argument("y", Prim.F32, writable=True)
    with k.loop("i", 1000, kind=LoopKind.SIMD) as i:
        k.store(y, i, k.load(x, i) * 2.0 + 1.0)
    text = emit_module(module_of(k.build()), machine).text

    def compile_often(times: int) -> None:
        for _ in range(times):
            binding.compile_object(text, machine, Options(pipeline))

    compile_often(30)
    before = _resident()
    compile_often(runs)
    return (_resident() - before) / runs


@pytest.mark.slow
@pytest.mark.skipif(not _STATUS.exists(), reason="reads the resident memory where Linux shows it")
@pytest.mark.parametrize(("pipeline", "runs"), [(Pipeline.LIGHT, 300), (Pipeline.O2, 100)])
def test_a_compilation_keeps_less_than_3_kib(pipeline: Pipeline, runs: int) -> None:
    """In a process of its own: other tests leave holes in the heap, and threads that fill them."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        assert process.submit(_growth, pipeline, runs).result() < 3 * 1024
