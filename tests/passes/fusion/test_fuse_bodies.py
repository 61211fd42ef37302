"""Bodies of loops and branches are fused like graphs of their own."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.passes.fusion.fuse import fuse
from tests.loop_programs import Types, everywhere, graph_of

WIDE = ((200,), "f64")


def chain(c: Value) -> Value:
    return ops.exp(c * 0.1) - c


def looped() -> Graph:
    """Return a scan whose body is large for registers, and ends in a branch."""
    types: Types = {"c": WIDE}
    branches = (graph_of("left", types, chain), graph_of("right", types, lambda c: c * 2.0 + 1.0))

    def step(c: Value, which: Value) -> Value:
        (value,) = ops.switch(which, chain(c), branches=branches)
        return value

    body = graph_of("step", {**types, "which": ((), "i32")}, step)

    def loop(c: Value, which: Value) -> Value:
        last: Value = ops.scan(c, which, body=body, length=4, num_carries=1)[0]
        return last

    return graph_of("looped", {**types, "which": ((4,), "i32")}, loop)


def plain_ops(graph: Graph) -> set[str]:
    return {node.op.name for node in graph.nodes} & {"add", "sub", "mul", "exp"}


def test_chains_in_bodies_of_loops_and_branches_become_one_node() -> None:
    (scan,) = [node for node in fuse()(looped()).nodes if node.op is ops.scan]
    body: Graph = scan.attribute("body")
    (switch,) = [node for node in body.nodes if node.op is ops.switch]
    for graph in (body, *switch.attribute("branches")):
        assert not plain_ops(graph)
        assert sum(node.op is ops.fused for node in graph.nodes) == 1


def test_fused_bodies_compute_the_same() -> None:
    feeds = {"c": np.linspace(0, 1, 200), "which": np.array([0, 1, 0, 1], np.int32)}
    everywhere(looped(), feeds)


def test_what_follows_sums_of_short_rows_keeps_its_vectors() -> None:
    def roots(shape: tuple[int, ...]) -> Graph:
        return graph_of(
            "roots",
            {"x": (shape, "f64")},
            lambda x: ops.sqrt(ops.reduce_sum(x * x, axes=(len(shape) - 1,))),
        )

    short, long = (fuse()(roots(shape)) for shape in ((64, 3), (64, 32)))
    assert [node.op.name for node in short.nodes] == ["input", "fused", "sqrt"]
    assert [node.op.name for node in long.nodes] == ["input", "fused"]
