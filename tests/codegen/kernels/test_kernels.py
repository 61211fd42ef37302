"""Kernels of records for targets without vectors; interpreted, kernels mean the same."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.codegen.kernels import build_kernel
from rlx.codegen.loops import interpreter
from rlx.codegen.loops.evaluate import numpy_dtype
from rlx.codegen.loops.interpreter import run_kernel
from rlx.codegen.loops.nodes import Buffer, Local, Status
from rlx.codegen.loops.verify import verify_kernel
from rlx.codegen.loops.visit import all_expressions, walk
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.op import OPS
from rlx.ir.reference import evaluate
from rlx.ir.reference.registry import static_shape
from rlx.ir.shape import upper
from rlx.target import named_target
from tests.codegen.kernels.native import Array, thunk_of
from tests.codegen.uses import ALL, EACH, Use, agree, elements
from tests.records import OpRecord

SMALL = 130
"""Elements of an interpreted record: the interpreter takes 20 microseconds for a step."""


@pytest.mark.parametrize("op", EACH)
def test_kernels_for_targets_without_vectors_have_none(op: str) -> None:
    for record, dtype in ALL[op]:
        thunk, _ = thunk_of(record.graph(dtype).nodes[-1])
        kernel = build_kernel(thunk, "kernel", target=named_target("cortex-m4"))
        verify_kernel(kernel)
        assert all(expr.type.lanes == 1 for expr in all_expressions(kernel.body))


def interpreted(listed: list[Use]) -> list[Use]:
    """Return the two smallest uses of an op, of those in f32 if there are any."""
    floats = [use for use in listed if use[1] is DType.F32]
    small = [use for use in floats or listed if elements(use[0]) <= SMALL]
    return sorted(small, key=lambda use: elements(use[0]))[:2]


INTERPRETED = {op: uses for op in ALL if (uses := interpreted(ALL[op]))}


def test_only_blocks_of_weights_and_splats_are_too_large_to_interpret() -> None:
    left = ALL.keys() - INTERPRETED.keys()
    assert {op for op in left if OPS[op].family != "custom"} == {"dequant_matmul"}


@pytest.mark.whole
@pytest.mark.parametrize("op", INTERPRETED)
def test_kernels_agree_with_the_reference_through_the_interpreter(op: str) -> None:
    for record, dtype in INTERPRETED[op]:
        graph, feeds = record.graph(dtype), record.inputs(dtype)
        status, results = interpret(graph, feeds)
        assert status is Status.OK
        for expected, found in zip(evaluate(graph, feeds), results, strict=True):
            agree(record.id, record, expected, found)


def interpret(graph: Graph, feeds: dict[str, Array]) -> tuple[Status, list[Array]]:
    """Run the kernel of a graph's one node in the interpreter."""
    thunk, _ = thunk_of(graph.nodes[-1])
    kernel = build_kernel(thunk, "kernel")
    inputs = [np.ascontiguousarray(array).reshape(-1) for array in feeds.values()]
    outputs = [np.zeros(upper(ref.type.elements), ref.type.dtype.numpy) for ref in thunk.results]
    scratch = [] if thunk.scratch is None else [np.zeros(thunk.scratch.type.bytes, np.uint8)]
    memory = {
        buffer.name: array.view(numpy_dtype(buffer.prim))
        for buffer, array in zip(kernel.buffers, [*inputs, *outputs, *scratch], strict=True)
    }
    outcome = run_kernel(kernel, memory, {})
    shapes = [static_shape(ref.type.shape) for ref in thunk.results]
    return outcome.status, [a.reshape(s) for a, s in zip(outputs, shapes, strict=True)]


@pytest.mark.parametrize("bad", [np.array([0, 5], np.int32), np.array([-1, 0], np.int32)])
def test_an_index_out_of_range_is_a_status_and_reads_nothing(bad: Array) -> None:
    graph = Graph("gather")
    table, indices = graph.input("table", (5, 3)), graph.input("indices", (2,), "i32")
    graph.set_outputs([ops.gather(table, indices, axis=0)])
    feeds = {"table": np.ones((5, 3), np.float32), "indices": bad}
    assert interpret(graph, feeds)[0] is Status.INDEX_OUT_OF_RANGE


@pytest.mark.parametrize("bad", [np.nan, -1.0, 5.0, np.inf, -np.inf])
def test_an_index_held_in_a_float_is_checked_before_it_is_converted(bad: float) -> None:
    graph = Graph("scatter_add")
    updates, indices = graph.input("updates", (2, 3)), graph.input("indices", (2,))
    graph.set_outputs([ops.scatter_add(updates, indices, size=5)])
    feeds = {"updates": np.ones((2, 3), np.float32), "indices": np.array([0.9, bad], np.float32)}
    assert interpret(graph, feeds)[0] is Status.INDEX_OUT_OF_RANGE


_MOST = 200
"""Elements of the operands of a use that is interpreted."""


def has_locals(record: OpRecord) -> bool:
    kernel = build_kernel(thunk_of(record.graph(DType.F32).nodes[-1])[0], "kernel")
    return any(isinstance(statement, Local) for statement in walk(kernel.body))


def small_uses(op: str) -> list[OpRecord]:
    """Return the uses of an op in f32 whose kernels have local buffers."""
    uses = [record for record, dtype in ALL[op] if dtype is DType.F32]
    small = [u for u in uses if sum(int(np.prod(o.shape)) for o in u.operands) <= _MOST]
    return [use for use in small if has_locals(use)]


@pytest.mark.parametrize("op", ALL)
def test_every_element_of_a_local_buffer_is_stored(
    op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks: dict[str, list[Array]] = {}
    reserve = interpreter._reserve

    def marking(frame: interpreter._Frame, buffer: Buffer) -> None:
        reserve(frame, buffer)
        marks.setdefault(buffer.name, []).append(frame.stored[buffer.name])

    monkeypatch.setattr(interpreter, "_reserve", marking)
    for use in small_uses(op):
        marks.clear()
        interpret(use.graph(DType.F32), use.inputs(DType.F32))
        unused = [name for name, of in marks.items() if not np.logical_or.reduce(of).all()]
        assert unused == [], use.id
