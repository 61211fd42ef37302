"""Names of parts of a program."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp

X = np.ones(3)


def test_nodes_belong_to_the_scopes_that_are_open() -> None:
    def inner(x: Any) -> Any:
        return rnp.cos(x)

    def program(x: Any) -> Any:
        with rlx.named_scope("encoder"):
            x = rlx.named_call(inner, name="head")(rnp.sin(x))
        return rlx.named_call(inner)(rnp.exp(x))

    nodes = rlx.make_graph(program)(X).nodes
    found = [(node.op.name, node.scope) for node in nodes if node.op.name != "input"]
    assert found == [
        ("sin", "encoder"), ("cos", "encoder.head"), ("exp", None), ("cos", "inner"),
    ]  # fmt: skip


def test_scopes_mean_nothing_outside_of_a_trace() -> None:
    with rlx.named_scope("at once"):
        assert rlx.named_call(np.sum)(X) == 3.0


def test_what_is_known_is_computed_while_tracing() -> None:
    def program(x: Any) -> Any:
        with rlx.ensure_compile_time_eval():
            count = int(rnp.sum(rnp.arange(4)))
        return rnp.tile(x, count)

    assert rlx.jit(program)(X).shape == (18,)


def test_types_of_results_come_with_the_graph() -> None:
    graph, types = rlx.make_graph(lambda x: (x + 1, {"sum": x.sum()}), return_shape=True)(X)
    assert graph.outputs[0].shape == types[0].shape == X.shape
    assert (types[1]["sum"].shape, types[1]["sum"].dtype) == ((), X.dtype)
