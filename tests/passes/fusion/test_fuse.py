"""Fusion: what joins what, and that every body keeps the contract of `rlx.ir.ops.fused`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.ops.fused import anchor_of, anchors_of, are_siblings, is_pointwise
from rlx.ir.reference import evaluate
from rlx.passes.fusion.fuse import fuse
from rlx.passes.fusion.policy import FusionPolicy
from rlx.passes.rewrites.simplify import simplify
from tests.passes.models import encoder, prepared
from tests.passes.text import assert_unchanged, built
from tests.properties.typed_graphs import f32_graphs

_QUICK = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def _ops(graph: Graph) -> list[str]:
    """Return what runs, in order: a fusion as the ops of its body joined by `+`."""
    return [_label(node) for node in graph.nodes if not node.op.has(Trait.LEAF)]


def _label(node: Node) -> str:
    if node.op is not ops.fused:
        return node.op.name
    body: Graph = node.attribute("body")
    return "+".join(n.op.name for n in body.nodes if not n.op.has(Trait.LEAF))


SQUARE, ROWS = (4, 4), (8, 4)
FUSED: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], list[str]]] = {
    "a chain is one region": (lambda a, b, c: ops.relu((a + b) * c), [(8,)], ["add+mul+relu"]),
    "a diamond is one region": (
        lambda x: ops.sin(y := ops.exp(x)) * ops.cos(y), [(8,)], ["exp+sin+cos+mul"],
    ),
    "siblings that read one value share a region": (
        lambda x: [ops.exp(x), ops.sin(x)], [(8,)], ["exp+sin"],
    ),
    "a path through an outside node is not closed into a cycle": (
        lambda x: ops.tanh(y := ops.exp(x)) + ops.transpose(y, perm=(1, 0)), [SQUARE],
        ["exp+tanh", "transpose", "add"],
    ),
    "bias, activation and residual join the product": (
        lambda x, w, wb: ops.relu(ops.matmul(x, w) + wb) + x, [ROWS, SQUARE, (4,)],
        ["matmul+add+relu+add"],
    ),
    "a bias declared late joins, too": (
        lambda x, w: ops.matmul(x, w) + x.graph.param("b", (4,)), [ROWS, SQUARE], ["matmul+add"],
    ),
    "values before a product are computed once and stay outside": (
        lambda x, w: ops.matmul(y := ops.exp(ops.neg(x)), w) + y, [SQUARE],
        ["neg+exp", "matmul+add"],
    ),
    "what only feeds a reduction joins it": (
        lambda x, t: ops.reduce_mean((d := x - t) * d, axes=(0, 1)) * 0.5, [ROWS],
        ["sub+mul+reduce_mean+mul"],
    ),
    "a value that others read is not computed again in a reduction": (
        lambda x: [ops.reduce_sum(y := ops.exp(x), axes=(1,)), ops.reverse(y, axes=(0,))], [ROWS],
        ["exp", "reduce_sum", "reverse"],
    ),
    "costly values are not put before a kernel that reads several times": (
        lambda x: ops.softmax(ops.tanh(x), axis=-1), [ROWS], ["tanh", "softmax"],
    ),
    "an epilogue of the reduced shape joins": (
        lambda x: x * ops.rsqrt(ops.reduce_mean(x * x, axes=(1,), keepdims=True) + 1e-6), [ROWS],
        ["mul+reduce_mean+add+rsqrt", "mul"],
    ),
    "integers and complex values fuse like reals": (
        lambda x: [(i := x.graph.input("i", (8,), "i64")) * (i + i),
                   ops.conj((z := x.graph.input("z", (8,), "c64")) * z), x],
        [(8,)], ["add+mul", "mul+conj"],
    ),
}  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("case", FUSED)
def test_what_runs_after_fusion(case: str) -> None:
    formula, shapes, expected = FUSED[case]
    assert _ops(fuse()(simplify(built(formula, *shapes)))) == expected


def test_a_lone_op_stays() -> None:
    assert_unchanged(fuse(), '  %0: f32[4] = input "x"\n  %1: f32[4] = relu %0\n  return %1')


def test_a_value_with_other_readers_becomes_a_further_result() -> None:
    graph = Graph("several")
    x = graph.input("x", (4, 4))
    y = ops.exp(x)
    graph.set_outputs([ops.neg(y), ops.matmul(y, y)])
    after = fuse()(graph)
    assert _ops(after) == ["exp+neg", "matmul"]
    assert len(after.outputs[0].node.results) == 2


def test_each_product_of_a_sum_adds_to_those_before_it() -> None:
    graph = Graph("sum")
    x, y = graph.input("x", (5, 8, 4)), graph.input("y", (5, 4, 8))
    rows = [[ops.narrow(z, axis=0, start=i, length=1) for z in (x, y)] for i in range(5)]
    total = ops.matmul(*rows[0])
    for row in rows[1:]:
        total = total + ops.matmul(*row)
    graph.set_outputs([ops.relu(total)])
    found = [name for name in _ops(fuse()(simplify(graph))) if "matmul" in name]
    assert found == ["matmul", *["matmul+add"] * 3, "matmul+add+relu"]


def test_a_residual_sum_joins_the_norm_and_is_a_result_if_read() -> None:
    graph = Graph("residual")
    x, r = graph.input("x", (8, 4)), graph.input("r", (8, 4))
    g, b = graph.param("g", (4,)), graph.param("b", (4,))
    total = x + r
    graph.set_outputs([ops.layer_norm(total, g, b, axis=-1, eps=1e-5), total])
    after = fuse()(graph)
    assert _ops(after) == ["add+layer_norm"]
    assert [output.node for output in after.outputs] == [after.outputs[0].node] * 2


def test_scalar_constants_go_into_bodies_and_long_ones_do_not() -> None:
    graph = Graph("constants")
    x = graph.input("x", (4,))
    graph.set_outputs([ops.exp(x * 3.0) + np.arange(4, dtype=np.float32)])
    (node,) = (n for n in fuse()(graph).nodes if n.op is ops.fused)
    body: Graph = node.attribute("body")
    constants = [n for n in body.nodes if n.op is ops.constant]
    assert [n.result.shape for n in constants] == [()]
    assert len(node.operands) == 2


def test_bodies_stay_within_the_limit() -> None:
    graph = Graph("long")
    x: Value = graph.input("x", (4,))
    for _ in range(40):
        x = ops.tanh(x)
    graph.set_outputs([x])
    after = fuse(FusionPolicy(largest_body=16))(graph)
    assert [len(label.split("+")) for label in _ops(after)] == [16, 16, 8]


def test_the_fused_node_keeps_the_name_of_its_result() -> None:
    graph = Graph("named")
    x = graph.input("x", (4,))
    (logits,) = graph.append(ops.tanh, (ops.exp(x),), ops.tanh.attrs(), name="logits")
    graph.set_outputs([logits])
    assert fuse()(graph).outputs[0].node.name == "logits"


def test_an_encoder_layer_runs_few_kernels() -> None:
    labels = _ops(prepared(encoder(layers=1)))
    assert "add" not in labels
    assert labels.count("layer_norm") == 2


@pytest.mark.slow
@given(f32_graphs())
@_QUICK
def test_every_body_keeps_the_contract(graph: Graph) -> None:
    for node in fuse()(simplify(graph)).nodes:
        if node.op is ops.fused:
            _check_contract(node)


def _check_contract(node: Node) -> None:
    body: Graph = node.attribute("body")
    anchor = anchor_of(body)
    computing = [n for n in body.nodes if not n.op.has(Trait.LEAF)]
    assert not body.params
    assert not body.donations
    assert len({v.node.name for v in body.inputs}) == len(body.inputs)
    others = [n for n in computing if not is_pointwise(n) and not n.op.has(Trait.MOVEMENT)]
    assert len(others) <= 1 or are_siblings(others)
    read = {operand for n in body.nodes for operand in n.operands}
    assert set(body.inputs) <= read
    for n in body.nodes:
        assert n.op is not ops.constant or n.result.type.elements == 1
    shape = body.outputs[0].shape if anchor is None else anchor.result.shape
    assert len(set(body.outputs)) == len(body.outputs)
    for output in body.outputs:
        assert output.shape == shape
        assert not output.op.has(Trait.LEAF)
    for other in anchors_of(body):
        assert not _ancestors(other) & {result for a in anchors_of(body) for result in a.results}
    _check_work(body, shape)


def _check_work(body: Graph, shape: tuple[object, ...]) -> None:
    before: set[Value] = set()
    anchors = anchors_of(body)
    anchor = anchors[0] if anchors else None
    for anchor in anchors:
        assert all(o.op is ops.input for o in anchor.operands[1:])
        before |= _ancestors(anchor)
        if not anchor.op.has(Trait.PROLOGUE):
            assert anchor.operands[0].op is ops.input
    moving = (n for n in body.nodes if n.op.has(Trait.MOVEMENT) and not is_pointwise(n))
    recomputed = {value for n in moving for value in _ancestors(n)}
    for n in body.nodes:
        if n in anchors or not n.op.has(Trait.ELEMENTWISE) or n.result in recomputed:
            continue
        in_prologue = n.result in before and anchor is not None
        wanted = anchor.operands[0].shape if in_prologue and anchor is not None else shape
        assert n.result.shape == wanted


def _ancestors(node: Node) -> set[Value]:
    found: set[Value] = set()
    waiting = [node]
    while waiting:
        for operand in waiting.pop().operands:
            if operand not in found:
                found.add(operand)
                waiting.append(operand.node)
    return found


def test_what_reads_nothing_but_scalars_is_no_body() -> None:
    graph = Graph("scalars")
    ones = ops.expand(graph.constant(1.0), shape=(3, 4))
    total = ops.reduce_sum(ones, axes=(1,))
    graph.set_outputs([ops.exp(total) + total])
    after = fuse()(graph)
    assert ops.fused not in [node.op for node in after.nodes]
    np.testing.assert_array_equal(evaluate(after, {})[0], evaluate(graph, {})[0])
