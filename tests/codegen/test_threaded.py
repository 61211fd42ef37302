"""Entries for several threads, for loops and branches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlx.codegen.entry import build_entries, describe, entry_name
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.interpreter import run_kernel
from rlx.codegen.loops.nodes import Kernel, LoopKind, Prim
from rlx.codegen.schedule import (
    Advance,
    AnyThunk,
    BranchThunk,
    BufferRef,
    LoopThunk,
    Phase,
    Schedule,
    Thunk,
)
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node
from rlx.ir.types import TensorType
from tests.runtime.programs import scale_and_gather

ROW = TensorType(DType.F32, (16,))


def node() -> Node:
    graph = Graph("thunks")
    return graph.square(graph.input("x", (16,))).node


NODE = node()


def thunk(kind: str, reads: list[int], writes: list[int]) -> Thunk:
    """A thunk over rows of 64 bytes at the given offsets."""
    operands = tuple(BufferRef(offset, ROW) for offset in reads)
    results = tuple(BufferRef(offset, ROW) for offset in writes)
    return Thunk(kind, NODE.attrs, operands, results, Phase.RUN, NODE)


def test_entries_are_named_after_the_schedule() -> None:
    module = scale_and_gather(threads=True).module
    names = [entry.name for entry in module.entries]
    assert names == [f"demo_{kind}" for kind in ("setup", "run", "part", "launch", "worker")]


def test_a_node_is_described_by_number_op_and_line() -> None:
    assert describe(NODE).startswith("%1 square, test_threaded.py:")


# Loops and branches, run by the interpreter


def add_one() -> Kernel:
    k = KernelBuilder("add_one")
    x = k.argument("x", Prim.F32, may_alias=True)
    y = k.argument("y", Prim.F32, writable=True, may_alias=True)
    with k.loop("i", 16, kind=LoopKind.SIMD) as i:
        k.store(y, i, k.load(x, i) + 1.0)
    return k.build()


STEP = thunk("add_one", [64], [64])


def run(thunks: tuple[AnyThunk, ...], arena: np.ndarray[Any, Any]) -> None:
    schedule = Schedule("control", thunks, arena.size)
    kernels = {STEP.kernel_key: add_one()}
    entry = build_entries(schedule, kernels, ())[1]
    assert entry.name == entry_name(schedule, "run")
    run_kernel(entry, {"arena": arena}, {})


def test_a_counted_loop_runs_its_body_that_often() -> None:
    arena = np.zeros(256, np.uint8)
    run((LoopThunk(NODE, Phase.RUN, (STEP,), steps=5),), arena)
    np.testing.assert_array_equal(arena[64:128].view(np.float32), np.full(16, 5, np.float32))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_reads_and_writes_one_row_per_trip(reverse: bool) -> None:
    arena = np.zeros(1024, np.uint8)
    rows = arena[256:448].view(np.float32).reshape(3, 16)
    results = arena[512:704].view(np.float32).reshape(3, 16)
    rows[:] = np.arange(3)[:, None]
    step = replace(
        STEP,
        operands=(BufferRef(256, ROW, (Advance(0, ROW.bytes, 3),)),),
        results=(BufferRef(512, ROW, (Advance(0, ROW.bytes, 3),)),),
    )
    run((LoopThunk(NODE, Phase.RUN, (step,), steps=3, reverse=reverse),), arena)
    np.testing.assert_array_equal(results, rows + 1)


@pytest.mark.parametrize("selector", [0, 1, 2, 7])
def test_a_branch_runs_one_side_and_the_last_takes_the_rest(selector: int) -> None:
    arena = np.zeros(256, np.uint8)
    arena[192:196].view(np.int32)[0] = selector
    index = BufferRef(192, TensorType(DType.I32, ()))
    run((BranchThunk(NODE, Phase.RUN, index, ((), (STEP,), (STEP, STEP))),), arena)
    assert arena[64:128].view(np.float32)[0] == min(selector, 2)


def test_a_negative_selector_is_read_with_its_sign_and_takes_the_first_branch() -> None:
    arena = np.zeros(256, np.uint8)
    arena[192:196].view(np.int32)[0] = -1
    index = BufferRef(192, TensorType(DType.I32, ()))
    run((BranchThunk(NODE, Phase.RUN, index, ((STEP,), (STEP, STEP))),), arena)
    assert arena[64:128].view(np.float32)[0] == 1
