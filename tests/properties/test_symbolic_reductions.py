"""Reductions over symbolic extents and their derivatives: reference, LLVM and C agree."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.op import OPS
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim, Shape
from rlx.ir.shape import evaluate as evaluate_extent
from rlx.passes.autodiff import grad, grad_with_loss
from rlx.runtime.compile import compile as compile_graph

N, M = Dim("n", min=1, max=9), Dim("m", min=1, max=6)
EXTENTS = {"n": 7, "m": 5}

CASES: tuple[tuple[Shape, tuple[int, ...]], ...] = (
    ((N,), (0,)),
    ((N, 3), (0,)),
    ((3, N), (1,)),
    ((3, N), (0, 1)),
    ((N, M), (0,)),
    ((N, M), (0, 1)),
    ((N + 1, 2, M), (0, 2)),
)

FOLDS = ("reduce_sum", "reduce_mean", "reduce_prod", "reduce_max", "reduce_min", "logsumexp")

Operand = Callable[[Value, Value, Shape], Value]

OPERANDS: dict[str, Operand] = {
    "array": lambda x, _, __: x,
    "scalar": lambda _, s, shape: ops.expand(s, shape=shape),
    "both": lambda x, s, shape: ops.sin(x) * ops.expand(s, shape=shape),
}


def first_order(fold: str, shape: Shape, axes: tuple[int, ...], operand: Operand) -> Graph:
    """Return the graph of a loss, its derivative by `x` and by the scalar `s`."""
    graph = Graph("symbolic")
    x, s = graph.input("x", shape), graph.input("s", ())
    folded = OPS[fold](operand(x, s, shape), axes=axes)
    graph.set_outputs([total(folded * folded)])
    return grad_with_loss(graph, ["x", "s"], missing="zero")


def second_order(graph: Graph) -> Graph:
    """Return the derivatives of the sum of the squared derivatives."""
    _, dx, ds = graph.outputs
    graph.set_outputs([total(dx * dx) + ds * ds])
    return grad(graph, ["x", "s"], missing="zero")


def total(x: Value) -> Value:
    return ops.reduce_sum(x, axes=tuple(range(x.rank)))


def feeds_of(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    shapes = {str(v.node.name): v.shape for v in graph.inputs}
    return {
        name: rng.uniform(0.5, 1.0, [evaluate_extent(e, EXTENTS) for e in shape]).astype(np.float32)
        for name, shape in shapes.items()
    }


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("fold", FOLDS)
def test_reductions_over_symbolic_extents_have_two_derivatives(
    fold: str, case: int, backend: str
) -> None:
    shape, axes = CASES[case]
    operand = list(OPERANDS.values())[(FOLDS.index(fold) + case) % len(OPERANDS)]
    first = first_order(fold, shape, axes, operand)
    second = second_order(first_order(fold, shape, axes, operand))
    for graph in (first, second):
        feeds = feeds_of(graph)
        expected = evaluate(graph, feeds)
        found = compile_graph(graph, backend=backend).run(feeds)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)
