"""Products over symbolic extents: batches that broadcast, and columns of `b` in tiles."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.codegen.kernels.build import thunk_body
from rlx.codegen.schedule import Thunk
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.lowering import Schedule
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim, Shape
from rlx.ir.shape import evaluate as evaluate_extent
from rlx.runtime.compile import compile as compile_graph
from rlx.runtime.executable import Executable

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


WIDE = Dim("n", max=150)
COLUMNS = (1, 15, 16, 33, 96, 149, 150)
PACKED, IN_PLACE = "packed at every call", "b is not packed"

BY_COLUMNS: tuple[tuple[Shape, Shape, bool, str], ...] = (
    ((40, 70), (70, WIDE), False, PACKED),
    ((40, 70), (WIDE, 70), True, PACKED),
    ((2, 3, 9, 70), (70, WIDE), False, PACKED),
    ((40, 1100), (1100, WIDE), False, PACKED),
    ((3, 30, 70), (3, 70, WIDE), False, PACKED),
    ((30, 70), (3, WIDE, 70), True, PACKED),
    ((WIDE, 20), (WIDE, 20), True, PACKED),
    ((13, 90), (90, WIDE), False, IN_PLACE),
    ((3, 5, 90), (3, 90, WIDE), False, IN_PLACE),
    ((30, 70), (70, 2 * WIDE + 1), False, PACKED),
)


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("case", BY_COLUMNS, ids=str)
def test_a_symbolic_number_of_columns_takes_tiles(
    case: tuple[Shape, Shape, bool, str], backend: str
) -> None:
    a_shape, b_shape, transposed, how = case
    graph = Graph("product")
    a, b = (graph.input(name, shape) for name, shape in zip("ab", case[:2], strict=True))
    order = (*range(b.rank - 2), b.rank - 1, b.rank - 2)
    right = ops.transpose(b, perm=order) if transposed else b
    graph.set_outputs([ops.relu(ops.matmul(a, right) - 1.0)])
    run = compile_graph(graph, backend=backend, threads=2)
    assert isinstance(run, Executable)
    thunks = [thunk for thunk in run.schedule.thunks if isinstance(thunk, Thunk)]
    kinds = [thunk.kind for thunk in thunks]
    assert kinds == (["pack_panels", "fused"] if how is PACKED else ["fused"])
    lowerings = [node.lowering for node in thunk_body(thunks[-1]).nodes]
    assert any(isinstance(lowering, Schedule) for lowering in lowerings)
    rng = np.random.default_rng(0)
    for n in COLUMNS:
        feeds = {
            name: rng.standard_normal([evaluate_extent(e, {"n": n}) for e in shape]).astype("f4")
            for name, shape in (("a", a_shape), ("b", b_shape))
        }
        (expected,) = evaluate(graph, feeds)
        (found,) = run.run(feeds)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-4)


def test_columns_of_a_symbolic_number_have_the_same_bits_on_any_number_of_threads() -> None:
    graph = Graph("product")
    a, b = graph.input("a", (130, 300)), graph.input("b", (300, Dim("n", max=700)))
    graph.set_outputs([ops.matmul(a, b)])
    rng = np.random.default_rng(0)
    feeds = {
        "a": rng.standard_normal((130, 300)).astype(np.float32),
        "b": rng.standard_normal((300, 451)).astype(np.float32),
    }
    found = [compile_graph(graph, backend="llvm", threads=t).run(feeds)[0] for t in (1, 2, 3)]
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])
