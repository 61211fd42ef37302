"""Calls with stated derivatives give way to their bodies before anything walks over their rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.runtime.compile
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.passes.rewrite import bodies_of
from rlx.passes.rewrites.inline_calls import inline_calls


@rlx.custom_jvp
def cube(x: Any) -> Any:
    return x * x * x


@cube.defjvp
def _cube_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return cube(x), 3 * x * x * t


def twice_in_a_loop(x: Any) -> Any:
    """A call outside a loop, and one in a branch within it."""
    return rlx.fori_loop(0, 3, lambda i, v: rlx.cond(i > 1, cube, lambda u: u / 2, v), cube(x))


def calls(graph: Graph) -> int:
    """Return how many calls there are, in bodies, too."""
    inner = sum(calls(body) for node in graph.nodes for body in bodies_of(node.attrs))
    return inner + sum(node.op is ops.custom_call for node in graph.nodes)


def test_bodies_replace_calls_inside_of_loops_and_outside() -> None:
    graph = rlx.jit(twice_in_a_loop).graph(np.float64(1.5))
    inlined = inline_calls(graph)
    assert calls(graph) >= 2
    assert not calls(inlined)
    assert [value.node.name for value in inlined.inputs] == [v.node.name for v in graph.inputs]
    feeds = {str(graph.inputs[0].node.name): np.asarray(1.5)}
    np.testing.assert_array_equal(evaluate(inlined, feeds), evaluate(graph, feeds))
    np.testing.assert_array_equal(evaluate(inlined, feeds), [(1.5**3 / 4) ** 3])


def test_a_graph_without_calls_stays_itself() -> None:
    graph = rlx.jit(lambda x: rlx.fori_loop(0, 3, lambda _, v: v * 2, x)).graph(np.float64(1.5))
    assert inline_calls(graph) is graph


def test_the_driver_never_sees_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a special function's second slopes are a hundred times what runs."""
    seen: list[Graph] = []
    compile_graph = rlx.runtime.compile.compile

    def watched(graph: Graph, **how: Any) -> Any:
        seen.append(graph)
        return compile_graph(graph, **how)

    monkeypatch.setattr(rlx.runtime.compile, "compile", watched)
    found = rlx.jit(rlx.grad(twice_in_a_loop), backend="reference")(np.float64(1.5))
    np.testing.assert_allclose(found, 9 * 1.5**8 / 64)
    assert len(seen) == 1
    assert not calls(seen[0])
