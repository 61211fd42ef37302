"""Large reductions to one element run in parts."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from rlx.codegen.schedule import Thunk
from rlx.codegen.schedule_verify import verify_schedule
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.op import OPS
from rlx.ir.reference import evaluate
from rlx.runtime.compile import compile as compile_graph
from rlx.runtime.lower import lower_for
from rlx.target import detect_target

SHAPE = (512, 512)
TARGET = detect_target()


def loss(x: Value, y: Value) -> Value:
    difference = x - y
    mean = ops.reduce_mean(difference * difference, axes=(0, 1))
    root = ops.sqrt(mean)
    return root + 1.0


def graph_of(formula: Callable[..., Value]) -> Graph:
    graph = Graph("reduction")
    graph.set_outputs([formula(graph.input("x", SHAPE), graph.input("y", SHAPE))])
    return graph


FORMULAS: dict[str, Callable[..., Value]] = {
    "sum": lambda x, y: ops.reduce_sum(x + y, axes=(0, 1)),
    "mean": lambda x, _: ops.reduce_mean(x, axes=(0, 1), keepdims=True),
    "max": lambda x, _: ops.reduce_max(x, axes=(0, 1)),
    "loss": loss,
    "two sums": lambda x, _: (
        ops.reduce_sum(x, axes=(0, 1)) + ops.reduce_sum(x * x, axes=(0, 1)) * 0.5
    ),
    "stencil": lambda x, _: ops.reduce_sum(
        ops.square(
            ops.narrow(x, axis=1, start=1, length=511) - ops.narrow(x, axis=1, start=0, length=511)
        ),
        axes=(0, 1),
    ),
    "border": lambda x, _: ops.reduce_mean(ops.pad(x, low=(0, 3), high=(2, 5)), axes=(0, 1)),
    "long border": lambda x, _: ops.reduce_sum(
        ops.pad(ops.reshape(x, shape=(512 * 512,)), low=(1,), high=(65,), value=0.5), axes=(0,)
    ),
    "three kinds": lambda x, y: (
        ops.reduce_max(x, axes=(0, 1)) * ops.reduce_mean(y, axes=(0, 1))
        - ops.reduce_min(x * y, axes=(0, 1))
    ),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("name", FORMULAS)
def test_a_large_reduction_agrees_with_the_reference(name: str, backend: str, threads: int) -> None:
    graph = graph_of(FORMULAS[name])
    rng = np.random.default_rng(3)
    feeds = {v.node.name or "": rng.standard_normal(SHAPE).astype(np.float32) for v in graph.inputs}
    (expected,) = evaluate(graph, feeds)
    (found,) = compile_graph(graph, backend=backend, threads=threads).run(feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-2 if name == "sum" else 1e-5)


def reductions_of(dtype: DType) -> list[str]:
    """Return the whole-array reductions that take `dtype`."""
    names = ["reduce_sum", "reduce_prod"] if dtype is not DType.BOOL else []
    if not dtype.is_complex:
        names += ["reduce_max", "reduce_min"]
    if dtype.is_float or dtype.is_complex:
        names.append("reduce_mean")
    return names


@pytest.mark.parametrize("extent", [1 << 17, 1 << 18])
@pytest.mark.parametrize("dtype", [each for each in DType if not each.is_storage])
def test_any_two_reductions_of_a_large_array_may_be_combined(dtype: DType, extent: int) -> None:
    combine = OPS["logical_or" if dtype is DType.BOOL else "add"]
    for first, second in itertools.product(reductions_of(dtype), repeat=2):
        graph = Graph("pair")
        x = graph.input("x", (extent,), dtype)
        left, right = OPS[first](x, axes=(0,)), OPS[second](x, axes=(0,), keepdims=True)
        graph.set_outputs([combine(left, ops.reshape(right, shape=())), left])
        verify_schedule(lower_for(graph, TARGET).schedule)


def test_a_large_reduction_is_two_thunks_and_the_first_is_parallel() -> None:
    graph = Graph("sum")
    graph.set_outputs([ops.reduce_sum(graph.input("x", SHAPE), axes=(0, 1))])
    program = lower_for(graph, TARGET)
    first, second = program.schedule.thunks
    assert isinstance(first, Thunk)
    assert isinstance(second, Thunk)
    assert program.kernels[first.kernel_key].parallel_loop is not None
    assert first.results[0].offset == second.operands[0].offset


def test_a_small_reduction_is_one_thunk() -> None:
    graph = Graph("sum")
    graph.set_outputs([ops.reduce_sum(graph.input("x", (64, 64)), axes=(0, 1))])
    assert len(lower_for(graph, TARGET).schedule.thunks) == 1
