"""What leaves a loop: what every step computes alike, unless it may end the run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.passes.loops.invariant_code_motion import loop_invariant_code_motion

Build = Callable[[Value], Value]


def loop(build: Build) -> Graph:
    """`c + build(w)`, five times."""
    body = Graph("body")
    c, w = body.input("c", (4, 4)), body.input("w", (4, 4))
    body.set_outputs([c + build(w)])
    graph = Graph("loop")
    operands = graph.input("c", (4, 4)), graph.input("w", (4, 4))
    graph.set_outputs(ops.scan(*operands, body=body, length=5, num_carries=1, num_consts=1))
    return graph


def moved(build: Build) -> bool:
    after = loop_invariant_code_motion(loop(build))
    return any(node.op not in (ops.input, ops.scan) for node in after.nodes)


LEAVE: dict[str, Build] = {
    "exp": ops.exp,
    "matmul": lambda w: ops.matmul(w, w),
    "softmax": lambda w: ops.softmax(w, axis=-1),
    "attention": lambda w: ops.attention(w, w, w, num_heads=1, head_dim=4),
    "cumsum": lambda w: ops.cumsum(w, axis=0),
    "pad": lambda w: ops.pad(ops.narrow(w, axis=0, start=0, length=3), low=(1, 0), high=(0, 0)),
}
STAY: dict[str, Build] = {
    "solve": lambda w: ops.solve(w, w),
    "inv": ops.inv,
    "gather": lambda w: ops.gather(w, w.graph.constant([3, 2, 1, 0], "i32"), axis=0),
    "narrow": lambda w: ops.narrow(w, axis=0, start=0, length=1),
    "broadcast": lambda w: ops.expand(ops.narrow(w, axis=0, start=1, length=1), shape=(4, 4)),
}


@pytest.mark.parametrize("name", LEAVE)
def test_what_is_the_same_at_every_step_leaves(name: str) -> None:
    assert moved(LEAVE[name])


@pytest.mark.parametrize("name", STAY)
def test_what_may_fail_or_costs_nothing_stays(name: str) -> None:
    assert not moved(STAY[name])
