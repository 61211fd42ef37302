"""Long sums of alike terms become sums over arrays, whose values are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.ir.verify import verify
from rlx.passes.fusion.reroll_reductions import reroll_reductions

COUNT = 40


def sum_of(term: Callable[[Value, Value, int], Value], count: int = COUNT) -> Graph:
    """Return `term(x, w, 0) + term(x, w, 1) + ...` of an f64[64] and an f64."""
    graph = Graph("sum")
    x, w = graph.input("x", (64,), "f64"), graph.input("w", (), "f64")
    total = term(x, w, 0)
    for index in range(1, count):
        total = total + term(x, w, index)
    graph.set_outputs([total])
    return graph


def element(x: Value, index: int) -> Value:
    return ops.reshape(ops.narrow(x, axis=0, start=index, length=1), shape=())


def bell(x: Value, w: Value, index: int) -> Value:
    away = element(x, index) - w * (1.0 + 0.01 * index)
    return ops.exp(-away * away)


def scattered(x: Value, w: Value, index: int) -> Value:
    return ops.tanh(element(x, 7 * index % 61) * w)


def of_two_kinds(x: Value, w: Value, index: int) -> Value:
    return bell(x, w, index) if index % 2 else scattered(x, w, index)


def of_many_kinds(x: Value, w: Value, index: int) -> Value:
    for _ in range(index):
        w = ops.sin(w)
    return w * element(x, index)


def values(graph: Graph) -> list[Any]:
    x = np.random.default_rng(1).standard_normal(64)
    return list(evaluate(graph, {"x": x, "w": np.array(0.3)}))


@pytest.mark.parametrize("term", [bell, scattered, of_two_kinds])
def test_the_sum_is_the_same_of_far_fewer_nodes(
    term: Callable[[Value, Value, int], Value],
) -> None:
    graph = sum_of(term)
    gathered = reroll_reductions(graph)
    verify(gathered)
    assert len(gathered.nodes) < 30 < len(graph.nodes) / 4
    np.testing.assert_allclose(values(gathered), values(graph), rtol=1e-13)


def test_terms_that_share_no_form_stay_as_written() -> None:
    graph = sum_of(of_many_kinds)
    assert reroll_reductions(graph) is graph


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_sums_of_16_bit_floats_are_rounded_at_each_addition(dtype: str) -> None:
    graph = Graph("sum")
    x = graph.input("x", (64,), dtype)
    total = element(x, 0)
    for index in range(1, COUNT):
        total = total + element(x, index)
    graph.set_outputs([total])
    rows = np.full(64, 1 / 3).astype(total.dtype.numpy)
    rows[0] = 4096  # in bf16 and f16 a third is lost next to it
    found = rlx.compile(graph, backend="llvm").run({"x": rows})[0]
    assert found == evaluate(graph, {"x": rows})[0] == 4096


def test_short_sums_stay_as_written() -> None:
    graph = sum_of(bell, count=8)
    assert reroll_reductions(graph) is graph


def test_a_partial_sum_that_is_read_elsewhere_stays_a_value() -> None:
    graph = Graph("sums")
    x, w = graph.input("x", (64,), "f64"), graph.input("w", (), "f64")
    half = bell(x, w, 0)
    for index in range(1, 20):
        half = half + bell(x, w, index)
    total = half
    for index in range(20, 40):
        total = total - bell(x, w, index)
    graph.set_outputs([total, half])
    gathered = reroll_reductions(graph)
    assert len(gathered.nodes) < 40
    np.testing.assert_allclose(values(gathered), values(graph), rtol=1e-13)


def test_terms_of_vectors_and_of_rows_are_batched() -> None:
    def loss(weights: Any, rows: Any, labels: Any) -> Any:
        total = 0.0
        for index in range(24):
            guess = rnp.tanh(rows[index] @ weights)
            total = total + (guess - labels[index]) ** 2
        return total

    random = np.random.default_rng(2)
    weights, rows, labels = (random.standard_normal(s) for s in ((3,), (24, 3), (24,)))
    guess = np.tanh(rows @ weights)
    expected = (2 * (guess - labels) * (1 - guess**2)) @ rows
    slope = rlx.jit(rlx.grad(loss))
    np.testing.assert_allclose(slope(weights, rows, labels), expected, rtol=1e-12)
    assert len(slope.graph(weights, rows, labels).nodes) < 60


def test_compile_work_does_not_grow_with_the_number_of_terms() -> None:
    def loss(w: Any, x: Any) -> Any:
        terms = [rnp.log(1.0 + rnp.exp(w * x[i] * (i + 1.0))) for i in range(x.shape[0])]
        return sum(terms[1:], terms[0])

    slope = rlx.jit(rlx.grad(loss))
    few, many = (len(slope.graph(0.5, np.ones(count)).nodes) for count in (20, 200))
    assert few == many


def test_a_value_that_is_a_term_twice_counts_twice() -> None:
    graph = Graph("sum")
    x, w = graph.input("x", (64,), "f64"), graph.input("w", (), "f64")
    terms = [bell(x, w, index) for index in range(20)]
    total = terms[0]
    for term in [*terms[1:], terms[0], terms[3]]:
        total = total + term
    graph.set_outputs([total])
    gathered = reroll_reductions(graph)
    assert len(gathered.nodes) < len(graph.nodes) / 4
    np.testing.assert_allclose(values(gathered), values(graph), rtol=1e-13)
