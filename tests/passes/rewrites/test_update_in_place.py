"""Sums with arrays that are zero but for a block become updates of that block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.passes.rewrites import update_in_place as module
from rlx.passes.rewrites.update_in_place import update_in_place

SIZE = 50


def in_zeros(x: Value, block: Value, start: Value) -> Value:
    zeros = ops.expand(x.graph.constant(0, x.dtype), shape=x.shape)
    return ops.dynamic_update_slice(zeros, block, start)


def scattered(x: Value, value: Value, index: Value) -> Value:
    return ops.scatter_add(value, index, size=x.shape[0])


SUMS: dict[str, Callable[[Value, Value, Value], Value]] = {
    "a block": lambda x, u, i: x + in_zeros(x, u, i),
    "a block first": lambda x, u, i: in_zeros(x, u, i) + x,
    "an element": lambda x, u, i: x + scattered(x, u, i),
    "a sum of blocks": lambda x, u, i: x + (in_zeros(x, u, i) + scattered(x, 2 * u, i)),
    "through a reshape": lambda x, u, i: ops.reshape(
        ops.reshape(x, shape=(5, 10)) + ops.reshape(scattered(x, u, i), shape=(5, 10)),
        shape=(SIZE,),
    ),
}


def graph_of(formula: Callable[[Value, Value, Value], Value]) -> Graph:
    graph = Graph("sum")
    x, u = graph.input("x", (SIZE,), "f64"), graph.input("u", (1,), "f64")
    graph.set_outputs([formula(x, u, graph.input("i", (1,), "i64"))])
    return graph


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_with_a_block_is_an_update_of_it(name: str) -> None:
    graph = graph_of(SUMS[name])
    changed = update_in_place(graph)
    feeds = {"x": np.arange(float(SIZE)), "u": np.ones(1), "i": np.array([7])}
    np.testing.assert_array_equal(evaluate(changed, feeds)[0], evaluate(graph, feeds)[0])
    whole = [n for n in changed.nodes if n.op is ops.add and n.result.type.elements == SIZE]
    assert not whole


def test_the_sum_of_two_blocks_alone_stays() -> None:
    graph = graph_of(lambda x, u, i: in_zeros(x, u, i) + scattered(x, u, i))
    assert update_in_place(graph) is graph


def test_sums_of_many_are_looked_at_in_a_time_that_grows_with_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look, looks = module._is_sparse, 0

    def counting(value: Value, *depth: int) -> bool:
        nonlocal looks
        looks += 1
        return look(value, *depth)

    monkeypatch.setattr(module, "_is_sparse", counting)

    def chain(x: Value, u: Value, i: Value) -> Value:
        total = in_zeros(x, u, i)
        for _ in range(150):
            total = total + scattered(x, u, i)
        return total

    changed = update_in_place(graph_of(chain))
    assert len(changed.nodes) < 20 * 150
    assert looks < 40 * 150
