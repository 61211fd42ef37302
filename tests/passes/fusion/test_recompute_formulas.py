"""Long formulas are computed again for a later kernel that reads many of their values."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.codegen.lower import lower_graph
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.passes.fusion.recompute_formulas import recompute_formulas
from rlx.passes.pipeline import pipeline
from rlx.runtime.lower import claimed_ops
from rlx.scipy import special
from rlx.target import detect_target

ROWS = 64


def sorted_gammaln(x: Any) -> Any:
    return rnp.sum(rnp.sort(special.gammaln(x), axis=1) * x)


def sorted_digamma(x: Any) -> Any:
    return rnp.sum(rnp.sort(special.digamma(x), axis=0) * x)


def scanned_gammaln(x: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        return rnp.sum(rnp.sort(special.gammaln(c + row))) * row, c

    return rnp.sum(rlx.scan(step, x[0], x[:3])[1])


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("function", [sorted_gammaln, sorted_digamma, scanned_gammaln])
def test_a_gradient_after_another_kernel_is_right_and_stores_few_temporaries(
    function: Callable[..., Any],
) -> None:
    x = np.random.default_rng(1).uniform(0.6, 3, (ROWS, ROWS)).astype(np.float32)
    graph = rlx.jit(rlx.grad(function)).graph(x)
    done = pipeline(claimed_ops(), detect_target()).run(graph)
    assert lower_graph(done).plan.arena_bytes < 12 * x.nbytes
    (found,) = rlx.compile(graph)(x)
    (expected,) = evaluate(graph, {str(graph.inputs[0].node.name): x})
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)


def chain(length: int, readers: int) -> Graph:
    """Return a chain of sines whose last is sorted, and the sort times `readers` of them."""
    graph = Graph("chain")
    values = [graph.input("x", (8, 16))]
    for _ in range(length):
        values.append(ops.sin(values[-1]))
    total = ops.sort(values[-1])
    for value in values[1 : 1 + readers]:
        total = total * value
    graph.set_outputs([total])
    return graph


def test_values_of_a_long_formula_are_computed_again() -> None:
    graph = chain(length=9, readers=8)
    done = recompute_formulas()(graph)
    assert sum(node.op is ops.sin for node in done.nodes) == 9 + 8
    assert [node.operands[0] for node in done.nodes if node.op is ops.barrier] == [*done.inputs]
    x = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(done, {"x": x})[0], evaluate(graph, {"x": x})[0])


def test_few_values_are_stored() -> None:
    graph = chain(length=9, readers=2)
    assert recompute_formulas()(graph) is graph


def test_values_that_others_read_too_are_stored() -> None:
    graph = chain(length=9, readers=8)
    graph.set_outputs([*graph.outputs, *(node.result for node in graph.nodes[1:9])])
    assert recompute_formulas()(graph) is graph


def test_formulas_of_many_operands_are_stored() -> None:
    graph = Graph("sums")
    operands = [ops.sort(graph.input(f"x{i}", (8, 16))) for i in range(8)]
    sines = [ops.sin(operand) for operand in operands]
    total = ops.sort(ops.add(sines[0], sines[1]))
    for sine in sines:
        total = total * sine
    graph.set_outputs([total])
    assert recompute_formulas()(graph) is graph


def many_chains(count: int) -> Graph:
    """Return a sort times all values of many chains of sines, one product after another."""
    graph = Graph("chains")
    values = []
    for number in range(count):
        value = graph.input(f"x{number}", (8, 16))
        for _ in range(8):
            value = ops.sin(value)
            values.append(value)
    total = ops.sort(values[7])
    for value in values:
        total = total * value
    graph.set_outputs([total])
    return graph


def test_calls_are_in_proportion_to_formulas_that_one_chain_reads() -> None:
    def calls(count: int) -> int:
        graph, profile = many_chains(count), cProfile.Profile()
        assert profile.runcall(recompute_formulas(), graph) is not graph
        found: Any = pstats.Stats(profile)
        return int(found.total_calls)

    assert calls(80) < 5 * calls(20)
