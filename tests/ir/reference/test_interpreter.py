"""Feeds, symbolic extents, single-node folding and evaluation by decomposition."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rlx.errors import IndexOutOfRangeError, InputError
from rlx.ir import ops
from rlx.ir.dtype import DType, as_dtype
from rlx.ir.graph import Graph
from rlx.ir.op import OPS, Trait
from rlx.ir.reference import evaluate, fold, reference
from rlx.ir.shape import Dim
from tests.ir.reference.running import f32
from tests.records import OpRecord, records


def _graph() -> Graph:
    n = Dim("n", max=9)
    graph = Graph("model")
    x = graph.input("x", (n, 4))
    w = graph.param("w", (4, 2 * n + 1))
    graph.set_outputs([graph.matmul(x, w), graph.reshape(x, shape=(2, -1))])
    return graph


def test_symbols_are_bound_from_the_feeds() -> None:
    x, w = np.ones((3, 4), np.float32), np.ones((4, 7), np.float32)
    product, halves = evaluate(_graph(), {"x": x, "w": w})
    assert (product.shape, halves.shape) == ((3, 7), (2, 6))


def test_a_symbol_is_solved_from_a_linear_extent() -> None:
    n = Dim("n", max=9)
    graph = Graph("padded")
    x = graph.input("x", (2 * n + 1,))
    graph.set_outputs([graph.iota(type=x.type.with_shape((n,)))])
    np.testing.assert_array_equal(evaluate(graph, {"x": np.zeros(7, "f4")})[0], [0, 1, 2])


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (3, 4)}, "missing: w"),
        ({"x": (3, 4), "w": (4, 7), "y": (1,)}, "unknown: y"),
        ({"x": (3, 4, 1), "w": (4, 7)}, "of rank 2"),
        ({"x": (3, 5), "w": (4, 7)}, "'x' has shape (3, 5); it must be (n, 4) with n = 3"),
        ({"x": (3, 4), "w": (4, 8)}, "'w' has shape (4, 8); it must be (4, 2*n+1) with n = 3"),
        ({"x": (10, 4), "w": (4, 21)}, "'x' sets n = 10; it must be in [0, 9]"),
    ],
)
def test_feeds_that_do_not_fit_are_refused(
    shapes: dict[str, tuple[int, ...]], message: str
) -> None:
    feeds = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    with pytest.raises(InputError, match=re.escape(message)):
        evaluate(_graph(), feeds)


def test_a_feed_of_another_dtype_is_refused() -> None:
    with pytest.raises(InputError, match="'x' has dtype float64; it must be f32"):
        evaluate(_graph(), {"x": np.zeros((3, 4)), "w": np.zeros((4, 7), "f4")})


def test_a_run_time_fault_names_the_line_that_built_the_node() -> None:
    graph = Graph("lookup")
    table, index = graph.input("t", (3,)), graph.input("i", (1,), "i32")
    graph.set_outputs([graph.gather(table, index)])
    with pytest.raises(IndexOutOfRangeError, match=r"gather: .*\n  at .*test_interpreter.py"):
        evaluate(graph, {"t": f32(1, 2, 3), "i": np.array([3], np.int32)})


def test_fold_evaluates_one_node() -> None:
    graph = Graph("fold")
    values, indices = graph.topk(graph.input("x", (3,)), k=2)
    folded, positions = fold(values.node, [f32(1, 3, 2)])
    np.testing.assert_array_equal(folded, [3, 2])
    np.testing.assert_array_equal(positions, [1, 2])
    assert indices.dtype is as_dtype(positions.dtype)


def test_every_op_has_a_meaning() -> None:
    without = [
        name
        for name, op in OPS.items()
        if op not in reference and op.decompose is None and reference.reason(op) is None
    ]
    assert without == []


def test_every_op_with_a_meaning_of_its_own_has_a_record() -> None:
    recorded = {record.op.name for record in records()}
    unrecorded = [
        name
        for name, op in OPS.items()
        if name not in recorded and op in reference and not op.has(Trait.FUSED)
        if op.family != "custom"  # of users, such as other tests
    ]
    holding_graphs = {"scan", "while_loop", "switch"}  # see tests/codegen/test_loops.py
    # tests/distributed has those of several ranks
    of_several_ranks = {op.name for op in OPS.values() if op.family == "collective"}
    foreign = {op.name for op in OPS.values() if op.has(Trait.FOREIGN)}  # tests/test_ffi.py
    assert set(unrecorded) <= holding_graphs | of_several_ranks | foreign


_DECOMPOSED = [record for record in records() if record.op.decompose is not None]


@pytest.mark.whole
@pytest.mark.parametrize("record", _DECOMPOSED, ids=lambda record: record.id)
def test_decomposition_agrees_with_the_reference(record: OpRecord) -> None:
    for dtype in record.dtypes:
        _compare_with_decomposition(record, dtype)


def _compare_with_decomposition(record: OpRecord, dtype: DType) -> None:
    graph, feeds = record.graph(dtype), record.inputs(dtype)
    expected = evaluate(graph, feeds)
    node = graph.outputs[0].node
    assert record.op.decompose is not None
    result = record.op.decompose(*node.operands, **node.attrs.as_dict())
    graph.set_outputs(result if isinstance(result, tuple) else (result,))
    for ours, other in zip(evaluate(graph, feeds), expected, strict=True):
        assert ours.dtype == other.dtype
        bound = record.tolerance(as_dtype(other.dtype))
        wide = np.complex128 if np.iscomplexobj(other) else np.float64
        np.testing.assert_allclose(
            ours.astype(wide), other.astype(wide), rtol=bound.rtol, atol=bound.atol
        )


def test_movement_keeps_the_bits_of_a_low_precision_nan() -> None:
    bits = np.array([0x7E01, 0xFE55, 0x7C01, 0x3C00], np.uint16)
    graph = Graph("bits")
    x = graph.input("x", (2, 2), "f16")
    flipped = graph.reverse(graph.transpose(x, perm=(1, 0)), axes=(0, 1))
    graph.set_outputs([graph.gather(ops.concat(flipped, axis=0), np.array([0, 1]))])
    (moved,) = evaluate(graph, {"x": bits.view(np.float16).reshape(2, 2)})
    expected = bits.reshape(2, 2).T[::-1, ::-1]
    np.testing.assert_array_equal(moved.view(np.uint16), expected)
