"""Loops over instances that move in many directions: one statement for all directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.codegen.aot.stack import stack_bytes
from rlx.codegen.c.emit import emit_kernel
from rlx.codegen.kernels.build import WIDEST
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.runtime.lower import lower_for
from rlx.target import detect_target, named_target
from tests.loop_programs import Types, everywhere, graph_of

LENGTH = 3


def moved(instances: int, directions: int, *, instances_last: bool, reverse: bool) -> Graph:
    """Return a loop whose carries are states, and what they change by in each direction."""
    n, d, last = instances, directions, instances_last
    state, slope = (n,), (d, n) if last else (n, d)

    def along(x: Value) -> Value:
        """Broadcast what each instance has once over the directions."""
        return ops.expand(ops.reshape(x, shape=(1, n) if last else (n, 1)), shape=slope)

    def turned(t: Value) -> Value:
        """Make the first direction the last."""
        axis = 0 if last else 1
        first = ops.narrow(t, axis=axis, start=0, length=1)
        return ops.concat(ops.narrow(t, axis=axis, start=1, length=d - 1), first, axis=axis)

    def step(x: Value, t: Value, a: Value, k: Value, u: Value, s: Value) -> list[Value]:
        sine, cosine = ops.sin(x), ops.cos(x)
        following = x + (sine * a + u) * 0.1
        pushed = t
        for _ in range(12):
            pushed = pushed * along(cosine) * 0.3 + s * k
        return [following, turned(pushed) + t, following * a, pushed]

    types: Types = {
        "x": (state, "f64"), "t": (slope, "f64"), "a": (state, "f64"), "k": ((), "f64"),
        "u": (state, "f64"), "s": (slope, "f64"),
    }  # fmt: skip
    body = graph_of("step", types, step)
    outer = {**types, "u": ((LENGTH, *state), "f64"), "s": ((LENGTH, *slope), "f64")}

    def loop(*given: Value) -> list[Value]:
        found = ops.scan(
            *given, body=body, length=LENGTH, num_carries=2, num_consts=2, reverse=reverse
        )
        return list(found)

    return graph_of("moved", outer, loop)


def feeds_of(graph: Graph) -> dict[str, Any]:
    random = np.random.default_rng(4)
    return {
        str(leaf.node.name): random.standard_normal(leaf.type.static_shape) for leaf in graph.inputs
    }


def text_of(graph: Graph, target: str = "x86-64-v3") -> str:
    program = lower_for(graph, named_target(target))
    (text,) = [emit_kernel(k) for k in program.kernels.values() if "scan" in k.name]
    return text


@pytest.mark.parametrize("instances_last", [True, False])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("instances", [9, 60, 997, 1000])
def test_loops_over_directions_compute_what_they_mean(
    instances: int, reverse: bool, instances_last: bool
) -> None:
    graph = moved(instances, 7, instances_last=instances_last, reverse=reverse)
    everywhere(graph, feeds_of(graph))


@pytest.mark.parametrize(
    ("target", "factor"), [("x86-64-v3", 1.2), ("portable", 1.2), ("cortex-m4", 1.7)]
)
def test_code_does_not_grow_with_directions_or_instances(target: str, factor: float) -> None:
    """A small machine computes few instances at a time; loops over so few are unrolled."""
    lengths = {
        len(text_of(moved(n, d, instances_last=True, reverse=False), target).splitlines())
        for n, d in [(64, 9), (64, 23), (640, 9), (640, 23), (6400, 9)]
    }
    assert max(lengths) < factor * min(lengths) < 200


def carried(instances: int) -> Graph:
    """Return a loop of short expressions, whose carries are all that it keeps."""
    shape = (16, instances)

    def step(x: Value, v: Value, w: Value) -> list[Value]:
        return [x * 0.9 + v * 0.1 - w, v * w * 0.2 - x * 0.3, w + ops.abs(x) * v * 0.01]

    types: Types = dict.fromkeys("xvw", (shape, "f64"))
    body = graph_of("step", types, step)

    def loop(*given: Value) -> list[Value]:
        found = ops.scan(*given, body=body, length=LENGTH, num_carries=3, num_consts=0)
        return list(found)

    return graph_of("carried", types, loop)


@pytest.mark.parametrize("instances", [500, 30_000])
def test_carries_of_many_instances_compute_what_they_mean(instances: int) -> None:
    graph = carried(instances)
    everywhere(graph, feeds_of(graph))


@pytest.mark.parametrize(
    ("target", "most"),
    [("x86-64-v3", 512 * 1024), ("portable", 512 * 1024), ("cortex-m4", 6 * 1024)],
)
def test_local_arrays_do_not_grow_with_instances(target: str, most: int) -> None:
    graphs = [
        *(carried(n) for n in (64, 1000, 30_000)),
        *(moved(n, d, instances_last=True, reverse=False) for n in (64, 640) for d in (9, 23)),
    ]
    for graph in graphs:
        kernels = lower_for(graph, named_target(target)).kernels.values()
        assert stack_bytes([*kernels], WIDEST) <= most


def test_a_few_operations_stay_in_registers() -> None:
    one, several = (text_of(moved(64, d, instances_last=True, reverse=False)) for d in (1, 7))
    assert "lane" in one
    assert "lane" not in several


def test_blocks_stay_in_the_caches() -> None:
    kernels = lower_for(moved(6400, 7, instances_last=True, reverse=False), detect_target()).kernels
    assert any("block" in emit_kernel(kernel) for kernel in kernels.values())
