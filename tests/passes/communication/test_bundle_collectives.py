"""Small sums become one: which, in which order, and with the same results."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx.distributed import Mesh, P, shard_map, simulate
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.passes.communication.bundle_collectives import bundle_collectives

X = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


def graph_of(fun: Any, *args: Any) -> Graph:
    """Return what each of two ranks would run."""
    graph: Graph = simulate(lambda: _traced(fun, args), 2)[0]
    return graph


def _traced(fun: Any, args: tuple[Any, ...]) -> Graph:
    return shard_map(fun, Mesh({"ranks": 2}), (P(),) * len(args), P()).graph(*args)


def sums(graph: Graph) -> list[Any]:
    return [node for node in graph.nodes if node.op.name == "all_reduce"]


def test_independent_sums_are_one() -> None:
    graph = graph_of(
        lambda x: (rlx.distributed.psum(x, "ranks"), rlx.distributed.psum(rnp.sin(x[0]), "ranks")),
        X,
    )
    (total,) = sums(bundle_collectives(graph))
    assert total.result.shape == (28,)


def test_a_sum_that_needs_another_stays_behind_it() -> None:
    def twice(x: Any) -> Any:
        once = rlx.distributed.psum(x, "ranks")
        return rlx.distributed.psum(once * x, "ranks"), rlx.distributed.psum(x[0], "ranks")

    shapes = [node.result.shape for node in sums(bundle_collectives(graph_of(twice, X)))]
    assert shapes == [(28,), (6, 4)]


def test_other_reductions_and_dtypes_are_left_alone() -> None:
    def mixed(x: Any) -> Any:
        counted = rlx.distributed.psum(rnp.arange(3) + rlx.distributed.axis_index("ranks"), "ranks")
        return rlx.distributed.psum(x, "ranks"), rlx.distributed.pmax(x, "ranks"), counted

    graph = graph_of(mixed, X)
    assert bundle_collectives(graph) is graph


def test_large_sums_are_left_alone() -> None:
    large = np.zeros((160, 160), np.float32)
    graph = graph_of(
        lambda x: (rlx.distributed.psum(x, "ranks"), rlx.distributed.psum(2.0 * x, "ranks")), large
    )
    assert bundle_collectives(graph) is graph


def test_results_stay_the_same_to_the_bit() -> None:
    def step(x: Any) -> Any:
        return rlx.distributed.psum((x, rnp.sin(x[0]), rnp.sum(x)), "ranks")

    def program() -> Any:
        mesh = Mesh({"ranks": 2})
        graph = shard_map(step, mesh, (P(),), P()).graph(X)
        names = [str(leaf.node.name) for leaf in graph.inputs]
        arrays: list[Any] = [*mesh.communicators.values(), X]
        feeds = dict(zip(names, arrays, strict=True))
        return evaluate(graph, feeds), evaluate(bundle_collectives(graph), feeds)

    for before, after in zip(*simulate(program, 2)[0], strict=True):
        np.testing.assert_array_equal(before, after)
