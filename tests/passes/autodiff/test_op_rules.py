"""Derivatives of ops that have no records: packed operands, bodies, barriers; and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from rlx.ir import ops
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph, Value
from rlx.ir.layout import Panels
from rlx.passes.autodiff import grad_with_loss
from rlx.passes.autodiff.errors import NoDerivativeError
from rlx.passes.vmap import vmap
from rlx.tracing.apply import emit
from tests.passes.autodiff.checking import Case, check_first_order, check_second_order, tensors


def packed(columns: int, *, transposed: bool) -> Any:
    """Return `pack_panels` of sines, which has derivatives of second order."""
    return lambda x: ops.pack_panels(ops.sin(x), layout=Panels(columns), transposed=transposed)


def turned(x: Value) -> Any:
    cos, sin = (x.graph.constant(table) for table in tensors(20, (3, 2), (3, 2)))
    return ops.rope(ops.sin(x), cos, sin, head_dim=4)


def cell(x: Value, w: Value) -> tuple[Value, Value]:
    body = Graph("body")
    a, b = (body.input(f"b{i}", v.shape, v.dtype) for i, v in enumerate((x, w)))
    hidden = ops.tanh(a @ b)
    body.set_outputs([ops.exp(hidden) * 0.5, hidden])
    first, second = ops.checkpoint(x, w, body=body)
    return first, second


CASES = [
    Case(name, build, tensors(seed, *shapes))
    for seed, (name, build, shapes) in enumerate(
        (
            ("panels", packed(4, transposed=False), ((3, 6),)),
            ("panels transposed", packed(2, transposed=True), ((3, 2),)),
            ("rope by constant tables", turned, ((2, 3, 4),)),
            ("checkpoint", cell, ((2, 3), (3, 2))),
            ("barrier", lambda x, y: ops.sin(ops.barrier(x, y)) * y, ((2,), (2,))),
            ("stop_gradient", lambda x: ops.sin(x) + ops.stop_gradient(x) * 0.0, ((3,),)),
        )
    )
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_op_has_its_derivatives_of_first_and_second_order(case: Case) -> None:
    check_first_order(case)
    check_second_order(case)


@pytest.mark.parametrize("transform", [rlx.grad, lambda f: lambda x: rlx.jvp(f, (x,), (x,))])
def test_a_refused_derivative_is_an_error_where_it_is_taken(transform: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        marked = emit(ops.refuse_derivative, x, because="of no use")
        return y * marked + rlx.stop_gradient(marked)

    assert rlx.jit(f)(2.0, 3.0) == 8
    assert rlx.jit(rlx.vmap(f))(np.full(2, 2.0), np.full(2, 3.0)).tolist() == [8, 8]
    assert rlx.jit(rlx.grad(f, 1))(2.0, 3.0) == 2
    with pytest.raises(NoDerivativeError, match="of no use"):
        transform(lambda x: f(x, 3.0))(2.0)


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
