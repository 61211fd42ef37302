"""What a choice writes into an array is chosen, not the array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax
from rlx.ir import ops
from rlx.ir.graph import Graph, Node
from rlx.ir.op import Trait
from rlx.ir.reference import evaluate
from rlx.passes.loops.hoist_updates import hoist_updates
from rlx.passes.rewrite import bodies_of
from rlx.passes.rewrites.common_subexpressions import common_subexpressions
from rlx.passes.rewrites.dead_code import dead_code
from rlx.passes.rewrites.update_in_place import update_in_place

X = np.array([[np.nan, -0.0, 1.5, 3.0], [np.inf, 5.0, -2.0, 0.0], [7.0, 8.0, 9.0, 1.0]] * 4)
Step = Callable[[Any, Any], Any]


def keep(x: Any) -> Any:
    return x


CHOICES: dict[str, Step] = {
    "an element or none": lambda i, x: lax.cond(i > 1, lambda x: x.at[i, 2].set(4.0), keep, x),
    "none or an element": lambda i, x: lax.cond(i > 1, keep, lambda x: x.at[i, 2].add(4.0), x),
    "either of two": lambda i, x: lax.cond(
        x[i, 1] > 2, lambda x: x.at[i, 0].multiply(2.0), lambda x: x.at[3, i].max(4.0), x
    ),
    "rows": lambda i, x: lax.cond(i == 2, lambda x: x.at[i].set(x[0] * 2), keep, x),
    "none, one or two": lambda i, x: lax.switch(
        i % 3,
        [
            keep,
            lambda x: x.at[i, 0].set(2.0),
            lambda x: x.at[0, 0].set(x[1, i]).at[1, i].set(x[0, 0]),
        ],
        x,
    ),
    "where": lambda i, x: rnp.where(i % 2 == 0, x.at[i, 1].set(1.0), x),
    "where none": lambda i, x: rnp.where(i % 2 == 0, x, x.at[i, 1].add(1.0)),
    "where of two": lambda i, x: rnp.where(x[i, 2] > 0, x.at[i, 1].set(1.0), x.at[0, i].set(2.0)),
    "an array and a number": lambda i, x: lax.cond(
        i > 1, lambda x: (x.at[i, 2].set(4.0), 1.0), lambda x: (x, 2.0), x
    )[0],
}


def graph_of(step: Step) -> Graph:
    graph, _ = rlx.jit(lambda x: lax.fori_loop(0, 4, step, x)).named_graph(X)
    return graph


def nodes_of(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for body in bodies_of(node.attrs):
            yield from nodes_of(body)


def choices_of_arrays(graph: Graph) -> list[str]:
    """Return the choices whose results are as large as `X`."""
    chosen = (node for node in nodes_of(graph) if node.op in (ops.switch, ops.where))
    return [n.op.name for n in chosen if any(r.type.elements == X.size for r in n.results)]


@pytest.mark.parametrize("name", CHOICES)
def test_blocks_are_chosen_and_results_are_the_same_bits(name: str) -> None:
    graph = graph_of(CHOICES[name])
    changed = hoist_updates(graph)
    assert choices_of_arrays(graph)
    assert not choices_of_arrays(changed)
    before, after = evaluate(graph, {"x": X}), evaluate(changed, {"x": X})
    assert [y.tobytes() for y in after] == [y.tobytes() for y in before]


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("name", CHOICES)
def test_loops_of_choices_are_right_and_so_are_their_gradients(name: str, backend: str) -> None:
    x = np.nan_to_num(X, nan=2.5, posinf=6.0)

    def f(x: Any) -> Any:
        return lax.fori_loop(0, 4, CHOICES[name], x)

    expected = rlx.jit(f, backend="reference")(x)
    np.testing.assert_array_equal(rlx.jit(f, backend=backend)(x), expected)
    slopes = rlx.grad(lambda x: (rnp.cos(f(x)) * x).sum())
    np.testing.assert_allclose(
        rlx.jit(slopes, backend=backend)(x), rlx.jit(slopes, backend="reference")(x), rtol=1e-13
    )


KEPT: dict[str, Step] = {
    "what was written is read": lambda i, x: lax.cond(
        i > 1, lambda x: x.at[i, 0].set(rnp.sum(x.at[i, 1].set(1.0))), lambda x: x * 2, x
    ),
    "another array": lambda i, x: lax.cond(i > 1, lambda x: (x + 1).at[i, 0].set(1.0), keep, x),
    "most of the array": lambda i, x: lax.cond(i > 1, lambda x: x.at[2:9].set(0.0), keep, x),
    "a truth for each": lambda i, x: rnp.where(x > 1, x.at[i, 1].set(1.0), x),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_choices_stay(name: str) -> None:
    graph = graph_of(KEPT[name])
    assert choices_of_arrays(hoist_updates(graph)) == choices_of_arrays(graph)


def test_an_index_out_of_range_is_reported_only_where_its_branch_is_taken() -> None:
    def f(x: Any, i: Any) -> Any:
        return lax.cond(x[0] > 0, lambda x: x.at[i].set(1.0), keep, x)

    for backend in ("reference", "llvm", "c"):
        g = rlx.jit(f, backend=backend)
        assert g(np.array([0.0, 2.0, 3.0, 4.0]), 7).tolist() == [0, 2, 3, 4]
        with pytest.raises(rlx.errors.IndexOutOfRangeError, match="7"):
            g(np.array([1.0, 2.0, 3.0, 4.0]), 7)


@pytest.mark.parametrize("name", ["an element or none", "either of two", "where", "where of two"])
def test_gradients_of_choices_in_loops_make_no_array_at_a_step(name: str) -> None:
    def f(x: Any) -> Any:
        return (lax.fori_loop(0, 4, CHOICES[name], x) * x).sum()

    graph, _ = rlx.jit(rlx.grad(f)).named_graph(X)
    for graph_pass in (dead_code, hoist_updates, update_in_place, hoist_updates, dead_code):
        graph = graph_pass(graph)
    bodies = [body for node in graph.nodes for body in bodies_of(node.attrs)]
    made = {
        n.op for b in bodies for n in nodes_of(b) for r in n.results if r.type.elements == X.size
    }
    assert len(bodies) > 1
    assert made <= {ops.input, ops.dynamic_update_slice, ops.reshape}


CHANGES: dict[str, Step] = {
    "set": lambda i, x: x.at[i].set(4.0),
    "add": lambda i, x: x.at[i].add(4.0),
    "multiply": lambda i, x: x.at[i].multiply(4.0),
    "max": lambda i, x: x.at[i].max(4.0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_index_is_checked_once_and_once_more_in_a_gradient(name: str) -> None:
    def f(x: Any, i: Any) -> Any:
        return lax.cond(x[0] > 0, lambda x: CHANGES[name](i, x), keep, x)

    def checks(g: Any) -> int:
        graph, _ = g.named_graph(X[:, 0], 2)
        for graph_pass in (hoist_updates, update_in_place, common_subexpressions, dead_code):
            graph = graph_pass(graph)
        return sum(node.op.has(Trait.MAY_FAULT) for node in nodes_of(graph))

    assert checks(rlx.jit(f)) == 1
    assert checks(rlx.jit(rlx.grad(lambda x, i: f(x, i).sum()))) <= 2
