"""Policies of `checkpoint`: what is kept, what is computed again, and that nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.ir.graph import Graph
from rlx.passes.rewrites.common_subexpressions import common_subexpressions
from rlx.passes.rewrites.dead_code import dead_code
from rlx.passes.rewrites.decompose import decompose
from rlx.passes.rewrites.simplify import simplify

POLICIES = rlx.checkpoint_policies
X = np.linspace(-1.0, 1.0, 15).reshape(3, 5)
W = np.linspace(-0.5, 0.7, 25).reshape(5, 5)


def layer(x: Any, w: Any) -> Any:
    """A product, an exponential named "weights", and a sine after them."""
    weights = rlx.checkpoint_name(rnp.exp(rnp.tanh(x @ w)), "weights")
    return rnp.sin(rnp.sin(weights) @ rnp.sin(weights).T)


def counts(policy: Any) -> dict[str, int]:
    """Return how often ops are computed in the step, as it is planned."""
    loss = rlx.checkpoint(lambda x, w: rnp.sum(layer(x, w)), policy=policy)
    graph: Graph = rlx.make_graph(rlx.value_and_grad(loss, (0, 1)))(X, W)
    for run in (decompose(claimed=()), simplify, common_subexpressions, dead_code):
        graph = run(graph)
    names = [node.op.name for node in graph.nodes]
    return {name: names.count(name) for name in ("matmul", "tanh", "exp")}


KEPT: dict[str, tuple[Any, dict[str, int]]] = {
    "none": (None, {"matmul": 8, "tanh": 2, "exp": 2}),
    "nothing": (POLICIES.nothing_saveable, {"matmul": 8, "tanh": 2, "exp": 2}),
    "everything": (POLICIES.everything_saveable, {"matmul": 6, "tanh": 1, "exp": 1}),
    "dots": (POLICIES.dots_saveable, {"matmul": 6, "tanh": 2, "exp": 2}),
    "dots of weights": (
        POLICIES.dots_with_no_batch_dims_saveable, {"matmul": 6, "tanh": 2, "exp": 2},
    ),
    "a name": (POLICIES.save_only_these_names("weights"), {"matmul": 8, "tanh": 2, "exp": 1}),
    "another name": (POLICIES.save_only_these_names("q"), {"matmul": 8, "tanh": 2, "exp": 2}),
    "names but one": (
        POLICIES.save_any_names_but_these("weights"), {"matmul": 8, "tanh": 2, "exp": 2},
    ),
    "all but a name": (
        POLICIES.save_anything_except_these_names("weights"), {"matmul": 6, "tanh": 1, "exp": 1},
    ),
    "both": (
        POLICIES.save_from_both_policies(
            POLICIES.dots_saveable, POLICIES.save_only_these_names("weights")
        ),
        {"matmul": 6, "tanh": 2, "exp": 1},
    ),
    "of ours": (lambda node: node.op.name == "tanh", {"matmul": 7, "tanh": 1, "exp": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_a_policy_says_what_is_computed_again(name: str) -> None:
    policy, expected = KEPT[name]
    assert counts(policy) == expected


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("name", KEPT)
def test_a_policy_changes_no_derivative(name: str) -> None:
    def loss(x: Any, w: Any) -> Any:
        return rnp.sum(layer(x, w))

    kept = rlx.checkpoint(policy=KEPT[name][0])(loss)
    for one, other in zip(
        rlx.jit(rlx.grad(kept, (0, 1)))(X, W), rlx.grad(loss, (0, 1))(X, W), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        rlx.hessian(kept)(X, W), rlx.hessian(loss)(X, W), rtol=1e-10, atol=1e-12
    )
    rows = rlx.vmap(rlx.grad(kept), (0, None))(X[:, None], W)
    np.testing.assert_allclose(rows, rlx.vmap(rlx.grad(loss), (0, None))(X[:, None], W), rtol=1e-12)


def test_batched_products_have_a_batch_axis() -> None:
    stacked = np.stack([W, W])
    policy = POLICIES.dots_with_no_batch_dims_saveable
    loss = rlx.checkpoint(lambda x: rnp.sum(rnp.sin(x @ x) @ W), policy=policy)
    graph = rlx.make_graph(rlx.grad(loss))(stacked)
    forward = next(node for node in graph.nodes if node.op.name == "checkpoint")
    assert forward.attrs.as_dict()["kept"] == 1


def test_static_arguments_are_no_arrays() -> None:
    def power(x: Any, how: str) -> Any:
        return rnp.sum(x**3 if how == "cube" else x)

    kept = rlx.checkpoint(power, static_argnums=(1,))
    np.testing.assert_allclose(rlx.grad(kept)(X, "cube"), 3 * X**2)


def test_a_name_is_a_string() -> None:
    with pytest.raises(InputError, match="the name is 3"):
        rlx.checkpoint_name(X, 3)  # type: ignore[arg-type]
