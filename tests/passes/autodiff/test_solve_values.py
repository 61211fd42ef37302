"""Derivatives of linear systems against known values and JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.ir import ops
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph
from rlx.passes.autodiff import grad_with_loss
from rlx.passes.vmap import vmap

Array = NDArray[Any]

A = np.array([[2.0, 1, 0], [1, 3, 1], [0, 1, 2]])
B = np.array([1.0, 2, 3])


def solve_graph(a: Array, b: Array, *, vector: bool) -> Graph:
    graph = Graph("system")
    left, right = (graph.input(n, x.shape, as_dtype(x.dtype)) for n, x in (("a", a), ("b", b)))
    graph.set_outputs([graph.solve(left, right, vector=vector)])
    return graph


def test_vmap_over_right_hand_sides_factors_a_shared_matrix_once() -> None:
    batched = vmap(solve_graph(A, B, vector=True), {"b": 0}, size=7)
    (solve,) = (node for node in batched.nodes if node.op is ops.solve)
    assert [operand.shape for operand in solve.operands] == [(3, 3), (3, 7)]


def test_small_vector_systems_have_their_gradient_in_one_kernel() -> None:
    graph = grad_with_loss(solve_graph(A, B, vector=True), ["a", "b"])
    assert [node.op.name for node in graph.nodes if node.op.family == "linalg"] == [
        "solve",
        "solve_backward",
    ]
