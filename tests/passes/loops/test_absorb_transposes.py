"""Small loops read matrices as stored, instead of transposed copies."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.ir.verify import verify
from rlx.passes.autodiff import grad_with_loss
from rlx.passes.loops.absorb_transposes import absorb_transposes
from rlx.passes.rewrites.dead_code import dead_code
from tests.loop_programs import Types, graph_of

SMALL = ((2, 3), "f64")


def turned(size: int) -> Graph:
    """Return a scan of a row vector times the transpose of a matrix."""
    types: Types = {"c": ((1, size), "f64"), "w": ((size, size), "f64")}
    body = graph_of("step", types, lambda c, w: ops.matmul(c, w))

    def loop(c: Value, w: Value) -> list[Value]:
        across = ops.transpose(w, perm=(1, 0))
        return list(ops.scan(c, across, body=body, length=5, num_carries=1, num_consts=1))

    return graph_of("turned", types, loop)


def passed_on(*, shown: bool) -> Graph:
    """Return two scans, of which the second reads transposed rows of the first."""
    first = graph_of(
        "first", {"c": SMALL}, lambda c: [c * 0.5 + 1.0, ops.transpose(c, perm=(1, 0))]
    )
    second = graph_of(
        "second",
        {"t": ((), "f64"), "row": ((3, 2), "f64")},
        lambda t, row: t * 0.9 + ops.reduce_sum(row * row, axes=(0, 1)),
    )

    def loop(c: Value) -> list[Value]:
        last, rows = ops.scan(c, body=first, length=4, num_carries=1)
        total = ops.scan(ops.reduce_sum(last, axes=(0, 1)), rows, body=second, length=4,
                         num_carries=1)[0]  # fmt: skip
        return [total, rows] if shown else [total]

    return graph_of("passed_on", {"c": SMALL}, loop)


def same(graph: Graph, after: Graph) -> None:
    verify(after)
    random = np.random.default_rng(6)
    feeds = {
        str(leaf.node.name): random.standard_normal(leaf.type.static_shape) for leaf in graph.inputs
    }
    pairs = zip(evaluate(after, feeds), evaluate(graph, feeds), strict=True)
    for found, wanted in pairs:
        np.testing.assert_array_equal(found, wanted)


def outer_transposes(graph: Graph) -> int:
    return sum(node.op is ops.transpose for node in dead_code(graph).nodes)


def test_a_transposed_matrix_is_read_in_place() -> None:
    graph = turned(3)
    after = absorb_transposes(graph)
    assert (outer_transposes(graph), outer_transposes(after)) == (1, 0)
    same(graph, after)


def test_large_matrices_are_transposed_once() -> None:
    graph = turned(24)
    assert outer_transposes(absorb_transposes(graph)) == 1


def test_rows_for_a_later_loop_are_stored_as_they_are() -> None:
    graph = passed_on(shown=False)
    after = absorb_transposes(graph)
    stacked = next(node for node in after.nodes if node.op is ops.scan).results[1]
    assert stacked.type.static_shape == (4, 2, 3)
    same(graph, after)


def test_rows_that_are_results_keep_their_form() -> None:
    graph = passed_on(shown=True)
    assert absorb_transposes(graph) is graph


def test_the_gradient_of_a_product_stores_carries_and_no_transposes() -> None:
    body = graph_of("step", {"c": SMALL, "w": ((3, 3), "f64")}, lambda c, w: ops.matmul(c, w))

    def loss(c: Value, w: Value) -> Value:
        last = ops.scan(c, w, body=body, length=5, num_carries=1, num_consts=1)[0]
        return ops.reduce_sum(last * last, axes=(0, 1))

    graph = grad_with_loss(graph_of("loss", {"c": SMALL, "w": ((3, 3), "f64")}, loss), ["c", "w"])
    after = absorb_transposes(graph)
    same(graph, after)
    (recording,) = (n for n in after.nodes if n.op is ops.scan and n.attribute("residuals"))
    (_, stored) = recording.attribute("body").outputs
    assert stored is recording.attribute("body").inputs[0]


def test_a_matrix_and_its_transpose_are_both_read_by_their_names() -> None:
    square: Types = {"c": ((3, 3), "f64"), "w": ((3, 3), "f64")}
    types: Types = {"c": ((3, 3), "f64"), "t": ((3, 3), "f64"), "w": ((3, 3), "f64")}
    body = graph_of("step", types, lambda c, t, w: ops.matmul(c, t) + ops.matmul(w, c))

    def loop(c: Value, w: Value) -> list[Value]:
        across = ops.transpose(w, perm=(1, 0))
        return list(ops.scan(c, across, w, body=body, length=3, num_carries=1, num_consts=2))

    graph = graph_of("loop", square, loop)
    after = dead_code(absorb_transposes(graph))
    assert outer_transposes(after) == 0
    same(graph, after)
