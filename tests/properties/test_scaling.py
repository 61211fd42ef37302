"""Every stage from tracing to text costs calls in proportion to a program's nodes.

Calls are counted, not timed: a pass that walks all paths of a diamond, or all pairs of nodes,
makes a hundred times as many for ten times the nodes, on any machine.
"""

from __future__ import annotations

import cProfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import numpy as rnp
from rlx.codegen.c.emit import emit_module
from rlx.codegen.lower.graph import program_of
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.parser import parse_graph
from rlx.ir.printer import format_graph
from rlx.ir.reference import evaluate
from rlx.ir.serialize import dumps
from rlx.ir.verify import verify
from rlx.passes.autodiff import grad, jvp
from rlx.passes.pipeline import pipeline
from rlx.passes.rewrite import GraphPass
from rlx.passes.vmap import vmap
from rlx.runtime.llvm_backend import llvm_text
from rlx.runtime.lower import add_threads, claimed_ops
from rlx.target import detect_target

_GROWTH = 4
"""Calls per node may grow by this factor for ten times the nodes: small graphs are one kernel."""


def _chain(graph: Graph, x: Value, count: int) -> list[Value]:
    del graph
    for _ in range(count // 2):
        x = ops.sin(x) + 0.1
    return [x]


def _layers(graph: Graph, x: Value, count: int) -> list[Value]:
    """Nodes that do not fuse: a kernel call for each."""
    del graph
    for _ in range(count // 2):
        x = ops.cumsum(ops.tanh(x), axis=0)
    return [x]


def _diamonds(graph: Graph, x: Value, count: int) -> list[Value]:
    del graph
    for _ in range(count // 3):
        x = ops.tanh(x * x + x)
    return [x]


def _fan(graph: Graph, x: Value, count: int) -> list[Value]:
    del graph
    branches = [ops.sin(x * float(number)) for number in range(count // 3)]
    total = branches[0]
    for branch in branches[1:]:
        total = total + branch
    return [total]


def _concat(graph: Graph, x: Value, count: int) -> list[Value]:
    del graph
    return [ops.concat(*(ops.sin(x * float(n)) for n in range(count // 2)), axis=0)]


def _movement(graph: Graph, x: Value, count: int) -> list[Value]:
    del graph
    for _ in range(count // 4):
        square = ops.transpose(ops.reshape(x, shape=(2, 4)), perm=(1, 0))
        x = ops.reverse(ops.reshape(square, shape=(8,)), axes=(0,))
    return [x]


def _outputs(graph: Graph, x: Value, count: int) -> list[Value]:
    del graph
    return [ops.sin(x * float(number)) for number in range(count // 2)]


def _params(graph: Graph, x: Value, count: int) -> list[Value]:
    for number in range(count // 3):
        x = ops.tanh(x * graph.param(f"w{number}", (8,)))
    return [x]


PROGRAMS: dict[str, Callable[[Graph, Value, int], list[Value]]] = {
    "chain": _chain,
    "layers": _layers,
    "diamonds": _diamonds,
    "fan": _fan,
    "concat": _concat,
    "movement": _movement,
    "outputs": _outputs,
    "params": _params,
}


def _graph(name: str, count: int) -> Graph:
    graph = Graph("large")
    graph.set_outputs(PROGRAMS[name](graph, graph.input("x", (8,)), count))
    return graph


def _loss(name: str, count: int) -> Graph:
    graph = _graph(name, count)
    totals = [ops.reduce_sum(output, axes=(0,)) for output in graph.outputs]
    joined = ops.concat(*(ops.reshape(total, shape=(1,)) for total in totals), axis=0)
    graph.set_outputs([ops.reduce_sum(joined, axes=(0,))])
    return graph


def _feeds(graph: Graph) -> dict[str, Any]:
    leaves = (*graph.inputs, *graph.params)
    return {str(leaf.node.name): np.full(leaf.shape, 0.5, np.float32) for leaf in leaves}


Stages = Iterator[tuple[str, Callable[[], Any]]]


def _using(graph: Graph) -> Stages:
    """Yield each way to use a graph as it is, with what it works on made outside of it."""
    text = format_graph(graph)
    yield "print", lambda: format_graph(graph)
    yield "parse", lambda: parse_graph(text)
    yield "verify", lambda: verify(graph)
    yield "serialize", lambda: dumps(graph)
    yield "reference", lambda: evaluate(graph, _feeds(graph))
    yield "vmap", lambda: vmap(graph, in_axes={"x": 0}, size=4)


def _compiling(graph: Graph) -> Stages:
    """Yield each stage of compiling `graph`, in their order."""
    from rlx.codegen.kernels.build import scratch_bytes
    from rlx.passes.memory.planner import plan_memory

    for each in pipeline(claimed_ops(), detect_target(), lapack=lambda: True).passes:
        done: list[Graph] = []
        yield each.name, partial(_keep, done, each, graph)
        graph = done[0]
    made: list[Any] = []
    yield "plan", lambda: made.append(plan_memory(graph, scratch_bytes=scratch_bytes))
    yield "lower", lambda: made.append(program_of(graph, made[0]))
    yield "threads", lambda: made.append(add_threads(made[1]))
    yield "print the plan", lambda: (str(made[1].plan), str(made[1].schedule))
    yield "C", lambda: emit_module(made[2].module)
    yield "LLVM IR", lambda: llvm_text(made[2].module)


def _keep(done: list[Graph], change: GraphPass, graph: Graph) -> None:
    done.append(change(graph))


def _calls(run: Callable[[], Any]) -> int:
    """Return how many calls of Python and C functions `run` makes."""
    profile = cProfile.Profile(subcalls=False)
    profile.runcall(run)
    return sum(entry.callcount for entry in profile.getstats())


def _measured(stages: Stages) -> dict[str, int]:
    return {name: _calls(run) for name, run in stages}


def _assert_linear(small: dict[str, int], large: dict[str, int], factor: int) -> None:
    ratios = {name: large[name] / max(small[name], 100 * factor) / factor for name in small}
    assert {name: ratio for name, ratio in ratios.items() if ratio > _GROWTH} == {}


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.guarantee("Compiling", "Compile time and memory are linear in the number of nodes.")
@pytest.mark.parametrize("stages", [_using, _compiling])
@pytest.mark.parametrize("name", PROGRAMS)
def test_stages_are_linear_in_nodes(name: str, stages: Callable[[Graph], Stages]) -> None:
    _measured(stages(_graph(name, 10)))  # what is made once per process
    small, large = (_measured(stages(_graph(name, count))) for count in (40, 400))
    _assert_linear(small, large, 10)


@pytest.mark.slow
@pytest.mark.parametrize("stages", [_using, _compiling])
@pytest.mark.parametrize("name", ["chain", "diamonds", "fan"])
def test_stages_are_linear_up_to_ten_thousand_nodes(
    name: str, stages: Callable[[Graph], Stages]
) -> None:
    _measured(stages(_graph(name, 10)))
    small, large = (_measured(stages(_graph(name, count))) for count in (1000, 10_000))
    _assert_linear(small, large, 10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chain", "diamonds", "fan", "layers", "outputs"])
def test_derivatives_are_linear_in_nodes(name: str) -> None:
    def measured(count: int) -> dict[str, int]:
        loss = _loss(name, count)
        made: list[Graph] = []
        derived = {
            "jvp": _calls(lambda: jvp(loss, ["x"])),
            "grad": _calls(lambda: made.append(grad(loss, ["x"]))),
        }
        return derived | {stage: _calls(run) for stage, run in _compiling(made[0])}

    measured(10)
    _assert_linear(measured(40), measured(400), 10)


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("derive", [rlx.jit, rlx.grad, lambda f: rlx.jit(rlx.vmap(f))])
def test_traced_layers_may_be_a_thousand_deep(derive: Callable[..., Any]) -> None:
    w = np.eye(3, dtype=np.float32)

    def deep(x: Any) -> Any:
        for _ in range(1000):
            x = rnp.tanh(x @ w)
        return x.sum()

    result = np.asarray(derive(deep)(np.ones((2, 3), np.float32)))
    assert np.isfinite(result).all()


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_the_gradient_of_a_formula_may_be_hundreds_of_operations_deep(backend: str) -> None:
    def deep(x: Any) -> Any:
        for _ in range(400):
            x = rnp.sin(x) + 0.1
        return x.sum()

    x = np.full(8, 0.5, np.float32)
    step = np.float32(2**-8)
    difference = (deep(x[:1] + step) - deep(x[:1] - step)) / (2 * step)
    found = rlx.jit(rlx.grad(deep), backend=backend)(x)
    np.testing.assert_allclose(found, np.full(8, difference), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_a_chain_of_squares_before_a_large_sum_compiles_in_linear_time(backend: str) -> None:
    def squares(x: Any) -> Any:
        for _ in range(60):
            x = x * x + x
        return x.sum()

    x = np.full(1 << 17, 1e-3, np.float32)
    assert np.isfinite(rlx.jit(squares, backend=backend)(x))
