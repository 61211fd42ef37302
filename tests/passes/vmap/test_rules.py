"""What rules must not do: repeat what is shared, move what need not move, mix examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from rlx.errors import IndexOutOfRangeError, InternalError, NoRuleError, ShapeError
from rlx.ir import ops
from rlx.ir.declaration import op
from rlx.ir.graph import Graph, Value
from rlx.ir.layout import Panels
from rlx.ir.lowering import Schedule
from rlx.ir.op import OPS, OpDef, Trait, make_attrs
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim
from rlx.ir.types import TensorType
from rlx.ir.verify import verify
from rlx.passes.rewrite import with_lowering
from rlx.passes.vmap import ImpureOpError, sweep, vmap
from rlx.passes.vmap.batching import Batching
from rlx.passes.vmap.registry import kind_of
from tests.passes.vmap.checking import assert_is_loop, looped, tensors

SIZE = 3


def graph_of(build: Callable[..., Any], *shapes: tuple[int, ...]) -> Graph:
    graph = Graph("case")
    inputs = [graph.input(f"x{i}", shape, "f64") for i, shape in enumerate(shapes)]
    graph.set_outputs([build(*inputs)])
    return graph


def op_counts(graph: Graph) -> Counter[str]:
    return Counter(node.op.name for node in graph.nodes if not node.op.has(Trait.LEAF))


@pytest.mark.parametrize(
    ("build", "shapes", "expected"),
    [
        (ops.add, [(2, 3), (2, 3)], {"add": 1}),
        (ops.matmul, [(2, 3), (3, 4)], {"matmul": 1}),
        (lambda x, g: ops.layer_norm(x, g, g, axis=-1, eps=1e-5), [(2, 3), (3,)],
         {"layer_norm": 1}),
        (lambda x, _: ops.logsumexp(x, axes=(-1,)), [(2, 3), (3,)], {"logsumexp": 1}),
        (lambda x, _: ops.gelu(x), [(2, 3), (3,)], {"gelu": 1}),
        (lambda x, w: ops.where(w > 0.0, x, w), [(2, 3), (3,)], {"gt": 1, "where": 1}),
        (lambda x, w: ops.barrier(x, w), [(2, 3), (3,)], {"barrier": 1}),
        (lambda x, _: ops.attention(x, x, x, num_heads=1, head_dim=3), [(2, 3), (3,)],
         {"attention": 1}),
        (lambda x, _: ops.dynamic_slice(x, x.graph.constant([0, 1]), sizes=(1, 1)),
         [(2, 3), (3,)], {"dynamic_slice": 1, "concat": 1}),
    ],
)  # fmt: skip
def test_batched_program_has_no_more_ops_than_its_example(
    build: Callable[..., Any], shapes: list[tuple[int, ...]], expected: dict[str, int]
) -> None:
    assert op_counts(vmap(graph_of(build, *shapes), {"x0": 0}, size=SIZE)) == expected


def test_norm_of_a_shared_value_is_taken_once_for_all_gains() -> None:
    def build(x: Value, gamma: Value, beta: Value) -> Any:
        return ops.layer_norm(x, gamma, beta, axis=0, eps=1e-5)

    graph = graph_of(build, (4, 2), (4,), (4,))
    batched = vmap(graph, {"x1": 0}, size=SIZE)
    folds = [node for node in batched.nodes if node.op.has(Trait.REDUCTION)]
    assert {node.operands[0].shape for node in folds} == {(4, 2)}
    x, gamma, beta = tensors(1, (4, 2), (SIZE, 4), (4,))
    assert_is_loop(graph, {"x0": x, "x1": gamma, "x2": beta}, {"x1": 0}, SIZE)


def test_nodes_that_no_example_differs_in_are_copied() -> None:
    graph = graph_of(lambda x, w: x * ops.exp(ops.sin(w)), (2, 3), (3,))
    batched = vmap(graph, {"x0": 0}, size=SIZE)
    assert {n.op.name: n.result.shape for n in batched.nodes if n.op in (ops.exp, ops.sin)} == {
        "exp": (3,),
        "sin": (3,),
    }


def indexed(build: Callable[..., Any], indices: str = "i64") -> Graph:
    graph = Graph("indexed")
    x, i = graph.input("x", (2, 4), "f64"), graph.input("i", (2,), indices)
    graph.set_outputs([build(x, i)])
    return graph


INDEXED: list[Callable[..., Any]] = [
    lambda x, i: ops.gather(x, i, axis=0),
    lambda x, i: ops.gather_backward(x, i, axis=0, size=2),
    lambda x, i: ops.scatter_add(x, i, size=2),
]


@pytest.mark.parametrize("build", INDEXED, ids=["gather", "gather_backward", "scatter_add"])
@pytest.mark.parametrize("bad", [-1, 2, 5])
def test_index_into_a_neighbor_is_still_an_error(build: Callable[..., Any], bad: int) -> None:
    (x,) = tensors(2, (SIZE, 2, 4))
    indices = np.array([[0, 1], [1, bad], [0, 0]])
    batched = vmap(indexed(build), {"x": 0, "i": 0}, size=SIZE)
    with pytest.raises(IndexOutOfRangeError):
        evaluate(batched, {"x": x, "i": indices})


@pytest.mark.parametrize("build", INDEXED, ids=["gather", "gather_backward", "scatter_add"])
def test_index_that_is_no_number_is_still_an_error(build: Callable[..., Any]) -> None:
    (x,) = tensors(3, (SIZE, 2, 4))
    indices = np.array([[0, 1], [1, np.nan], [0, 0]], np.float32)
    batched = vmap(indexed(build, "f32"), {"x": 0, "i": 0}, size=SIZE)
    with pytest.raises(IndexOutOfRangeError):
        evaluate(batched, {"x": x, "i": indices})


def test_starts_of_each_example_are_clamped_by_themselves() -> None:
    def build(x: Value, i: Value) -> Any:
        return ops.dynamic_slice(x, i, sizes=(1, 3))

    (x,) = tensors(4, (SIZE, 2, 4))
    starts = np.array([[-5, 9], [1, 1], [9, -9]])
    assert_is_loop(indexed(build), {"x": x, "i": starts}, {"x": 0, "i": 0}, SIZE)


@pytest.mark.parametrize("batched", [("a",), ("b",), ("a", "b")])
@pytest.mark.parametrize(
    ("a_shape", "b_shape"), [((4, 3), (3, 8)), ((2, 4, 3), (2, 3, 8)), ((4, 3), (2, 3, 8))]
)
def test_packed_product_is_a_loop(
    batched: tuple[str, ...], a_shape: tuple[int, ...], b_shape: tuple[int, ...]
) -> None:
    graph = Graph("packed")
    a, b = graph.input("a", a_shape, "f64"), graph.input("b", b_shape, "f64")
    packed, attrs = ops.pack_panels(b, layout=Panels(4)), make_attrs(ops.matmul, {})
    tile = Schedule(rows=2, columns=4, lanes=4, order=("batch", "rows", "panels"))
    graph.set_outputs(graph.append(ops.matmul, (a, packed), attrs, lowering=tile))
    verify(graph)
    plain = dict(zip("ab", tensors(5, (SIZE, *a_shape), (SIZE, *b_shape)), strict=True))
    feeds = {name: array if name in batched else array[0] for name, array in plain.items()}
    assert_is_loop(graph, feeds, dict.fromkeys(batched, 0), SIZE)


def test_tiled_attention_is_batched_as_attention() -> None:
    def attended(q: Value) -> Value:
        return ops.attention(q, q, q, num_heads=2, head_dim=4)

    graph = graph_of(attended, (2, 5, 8))
    node = graph.outputs[0].node
    graph.set_outputs(with_lowering(node, Schedule(rows=4, columns=4, lanes=4)))
    batched = vmap(graph, [0], size=SIZE)
    assert op_counts(batched)["attention"] == 1
    assert all(node.lowering is None for node in batched.nodes)
    (data,) = tensors(6, (SIZE, 2, 5, 8))
    given = evaluate(batched, {"x0": data})[0]
    expected = looped(graph_of(attended, (2, 5, 8)), {"x0": data}, {"x0": 0}, SIZE)[0]
    np.testing.assert_allclose(given, expected, rtol=1e-12, atol=1e-12)


def test_a_narrow_norm_with_batched_gains_rounds_once() -> None:
    graph = Graph("narrow")
    x, g = graph.input("x", (2, 8), "bf16"), graph.input("g", (8,), "bf16")
    graph.set_outputs([ops.layer_norm(x, g, g, axis=-1, eps=1e-5)])
    x_data, g_data = (t.astype(x.dtype.numpy) for t in tensors(7, (2, 8), (SIZE, 8)))
    assert_is_loop(graph, {"x": x_data, "g": g_data}, {"g": 0}, SIZE, rtol=8e-3, atol=0.0)


@pytest.fixture
def declare() -> Iterator[Callable[..., OpDef]]:
    """Declare ops for one test."""
    before = set(OPS)

    def declared(name: str, *traits: Trait) -> OpDef:
        def infer(x: TensorType) -> TensorType:
            return x

        infer.__name__ = name
        return op("custom", *traits)(infer)

    yield declared
    for name in set(OPS) - before:
        del OPS[name]


def test_pure_op_without_a_rule_is_applied_to_each_example(
    declare: Callable[..., OpDef],
) -> None:
    definition = declare("ruleless")
    batched = vmap(graph_of(definition, (2,)), [0], size=SIZE)
    assert kind_of(definition) is None
    assert op_counts(batched)["ruleless"] == SIZE
    assert batched.outputs[0].shape == (SIZE, 2)


def test_op_without_a_rule_is_repeated_a_symbolic_number_of_times(
    declare: Callable[..., OpDef],
) -> None:
    graph, n = graph_of(declare("repeated_in_a_loop"), (2,)), Dim("n", max=4)
    batched = vmap(graph, [0], size=n)
    assert op_counts(batched)["scan"] == 1
    assert batched.outputs[0].shape == (n, 2)
    with pytest.raises(ShapeError, match="n has no upper bound"):
        vmap(graph, [0], size=Dim("n"))


def test_impure_op_is_refused_where_examples_differ(declare: Callable[..., OpDef]) -> None:
    graph = graph_of(declare("draw_like", Trait.IMPURE), (2,))
    with pytest.raises(ImpureOpError, match="draw_like") as caught:
        vmap(graph, [0], size=SIZE)
    assert isinstance(caught.value, NoRuleError)
    assert vmap(graph, [None], None, size=SIZE).outputs[0].shape == (2,)


def test_dead_nodes_ask_for_no_rule(declare: Callable[..., OpDef]) -> None:
    graph = Graph("dead")
    x = graph.input("x", (2,), "f64")
    declare("draw_dead", Trait.IMPURE)(x)
    graph.set_outputs([ops.exp(x)])
    assert op_counts(vmap(graph, [0], size=SIZE)) == {"exp": 1}


def test_rule_that_loses_the_batch_axis_is_our_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_example(_at: Batching, x: Value) -> Value:
        return ops.narrow(x, axis=0, start=0, length=1)

    monkeypatch.setattr(sweep, "rule_of", lambda _definition: first_example)
    with pytest.raises(InternalError, match=r"rule of exp gave f64\[1, 2\] where f64\[3, 2\]"):
        vmap(graph_of(ops.exp, (2,)), [0], size=SIZE)


@pytest.mark.parametrize("size", [2, 8])
@pytest.mark.parametrize(
    ("definition", "attributes"),
    [
        (ops.all_reduce, {"reduction": "sum"}),
        (ops.all_gather, {}),
        (ops.collective_broadcast, {"root": 1}),
    ],
)
def test_collectives_are_mapped_over_as_many_examples_as_their_axis_has_members(
    definition: OpDef, attributes: dict[str, Any], size: int
) -> None:
    graph = Graph("members")
    x = graph.input("x", (3,), "f32")
    graph.set_outputs([definition(x, axis_name="i", axis_size=4, **attributes)])
    with pytest.raises(ShapeError, match=f"'i' has 4 members, and vmap maps {size} examples"):
        vmap(graph, [0], size=size, axis_name="i")


def test_an_axis_has_index_and_size() -> None:
    graph = Graph("index")
    graph.set_outputs([graph.axis_index(axis_name="i", axis_size=4)])
    with pytest.raises(ShapeError, match="'i' has 4 members, and vmap maps 5 examples"):
        vmap(graph, [], size=5, axis_name="i")
