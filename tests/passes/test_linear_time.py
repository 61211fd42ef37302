"""Passes, planning and lowering take nearly linear time in the nodes of a drawn graph.

Calls of functions are counted, not seconds: four times the nodes are at most 4.84 times the calls
from 750 nodes to 3,000, and 4.7 times from 3,000 to 12,000, which is n log n.
"""

from __future__ import annotations

import cProfile
import functools
import math
import pstats
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlx.codegen.lower import lower_graph
from rlx.ir.graph import Graph, Value
from rlx.passes.layout.pack_operands import pack_operands
from rlx.passes.memory.planner import plan_memory
from rlx.passes.optional_passes import without_passes
from rlx.passes.pipeline import pipeline
from rlx.runtime.lower import claimed_ops
from rlx.target import named_target

SIZES = [(750, 3_000), (3_000, 12_000)]
FEWEST_CALLS = 1_000
"""A pass that calls less than this looks at a few nodes alone."""


def drawn(nodes: int, extent: int = 8) -> Graph:
    """Return a chain with side branches of products, softmaxes, movements and arithmetic."""
    random = np.random.default_rng(0)
    graph = Graph("drawn")
    values = [graph.input(f"x{i}", (extent, extent)) for i in range(4)]
    while len(graph.nodes) < nodes:
        other = values[int(random.integers(max(0, len(values) - 20), len(values)))]
        values.append(_step(graph, int(random.integers(9)), values[-1], other))
    graph.set_outputs([values[-1]])
    return graph


def _step(graph: Graph, kind: int, last: Value, other: Value) -> Value:
    choices: list[Callable[[], Value]] = [
        lambda: last + other,
        lambda: last * 0.5 - other,
        lambda: graph.sin(last),
        lambda: graph.maximum(last, other * 0.1),
        lambda: graph.tanh(other) + last,
        lambda: graph.matmul(last, other) * 0.1,
        lambda: graph.softmax(last, axis=-1),
        lambda: graph.transpose(last, perm=(1, 0)) + other,
        lambda: last - graph.reduce_mean(other, axes=(1,), keepdims=True),
    ]
    return choices[kind]()


def count(function: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:
    """Return the result, and how many calls of functions it took."""
    profile = cProfile.Profile()
    result = profile.runcall(function, *arguments)
    return result, int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@functools.cache
def calls_by_step(nodes: int) -> dict[str, int]:
    # A short graph of small arrays would become a few scalar regions, a long one would not.
    target = without_passes(named_target("x86-64-v3"), ["scalar-regions"])
    graph, counts = drawn(nodes), {}
    for number, step in enumerate(pipeline(claimed_ops(), target).passes):
        graph, counts[f"{number} {step.name}"] = count(step, graph)
    _, counts["plan"] = count(plan_memory, graph)
    _, counts["lower"] = count(lower_graph, graph, target)
    return counts


@pytest.mark.slow
@pytest.mark.parametrize(("fewer", "more"), SIZES)
def test_calls_grow_at_most_like_n_log_n(fewer: int, more: int) -> None:
    calls_by_step(50)  # loads modules
    few, many = calls_by_step(fewer), calls_by_step(more)
    most = more / fewer * math.log(more) / math.log(fewer)
    grown = {name: many[name] / few[name] for name in few if many[name] > FEWEST_CALLS}
    assert len(grown) > 20
    assert {name: ratio for name, ratio in grown.items() if ratio > most} == {}


def test_a_product_is_looked_at_alone_whatever_it_depends_on() -> None:
    # Rows of nine elements may be packed: the pass asks what each product depends on.
    step = pack_operands(named_target("x86-64-v3"))
    step(drawn(50, 9))  # loads modules
    few, some, many = (count(step, drawn(nodes, 9))[1] for nodes in (500, 1_000, 2_000))
    assert many < 2.2 * some < 2.2 * 2.2 * few
