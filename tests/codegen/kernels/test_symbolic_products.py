"""Products whose batch axes are symbolic and broadcast."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim, Shape
from rlx.runtime.compile import compile as compile_graph

N, M = Dim("n", max=8), Dim("m", max=8)
EXTENTS = {N: 5, M: 3}

CASES: tuple[tuple[Shape, Shape], ...] = (
    ((N, 3, 4), (1, 4, 5)),
    ((N, 3, 4), (4, 5)),
    ((1, 3, 4), (N, 4, 5)),
    ((1, 2, 3, 4), (N, 1, 4, 5)),
    ((N, 1, 3, 4), (1, M, 4, 5)),
    ((N, 1, 2, 3, 4), (M, 2, 4, 5)),
)


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("shapes", CASES, ids=str)
def test_symbolic_batch_axes_broadcast(shapes: tuple[Shape, Shape], backend: str) -> None:
    graph = Graph("product")
    a, b = (graph.input(name, shape) for name, shape in zip("ab", shapes, strict=True))
    graph.set_outputs([ops.matmul(a, b)])
    rng = np.random.default_rng(0)
    feeds = {
        name: rng.standard_normal([e if isinstance(e, int) else EXTENTS[e] for e in shape]).astype(
            np.float32
        )
        for name, shape in zip("ab", shapes, strict=True)
    }
    (expected,) = evaluate(graph, feeds)
    (found,) = compile_graph(graph, backend=backend).run(feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
