"""Why a product, an attention or a system got its kernel."""

from __future__ import annotations

import pytest

from rlx.ir import ops
from rlx.ir.graph import Graph, Node
from rlx.ir.lowering import Library, Schedule
from rlx.ir.shape import Dim
from rlx.passes.layout.choices import Choice, Why
from rlx.passes.layout.pack_operands import pack_operands
from rlx.passes.layout.tile_attention import tile_attention
from rlx.passes.layout.use_lapack import choose_library
from rlx.passes.rewrite import GraphPass
from rlx.target import named_target

TARGET = named_target("x86-64-v3")


class Seen(list[tuple[Node, Choice]]):
    def __call__(self, node: Node, choice: Choice) -> None:
        self.append((node, choice))

    def only(self) -> Choice:
        ((_, choice),) = self
        return choice


def product(a: tuple[int | Dim, ...], b: tuple[int | Dim, ...], leaf: str, dtype: str) -> Graph:
    g = Graph("g")
    right = g.param("b", b, dtype) if leaf == "param" else g.input("b", b, dtype)
    g.set_outputs([g.matmul(g.input("a", a, dtype), right)])
    return g


def chosen(
    a: tuple[int | Dim, ...], b: tuple[int | Dim, ...], leaf: str = "input", dtype: str = "f32"
) -> Choice:
    seen = Seen()
    pack_operands(TARGET, seen)(product(a, b, leaf, dtype))
    return seen[0][1]


def test_weights_are_packed_once() -> None:
    choice = chosen((8, 64), (64, 64), "param")
    assert choice.why is Why.PACKED_ONCE
    assert isinstance(choice.lowering, Schedule)


def test_a_batch_of_transposes_of_one_matrix_is_copied() -> None:
    g = Graph("g")
    x, w = g.input("x", (2, 24, 40)), g.param("w", (24, 64))
    g.set_outputs([g.matmul(g.transpose(x, perm=(0, 2, 1)), w)])
    seen = Seen()
    packed = pack_operands(TARGET, seen)(g)
    assert seen.only().why is Why.PACKED_ONCE
    assert [node.op.name for node in packed.nodes[2:]] == ["transpose", "pack_panels", "matmul"]


def test_a_matrix_of_one_panel_is_not_packed() -> None:
    for b in ("param", "input"):
        choice = chosen((32, 64), (64, 16), b)
        assert choice.why is Why.ONE_PANEL
        assert isinstance(choice.lowering, Schedule)
        assert choice.lowering.columns == 16
        graph = pack_operands(TARGET)(product((32, 64), (64, 16), b, "f32"))
        assert "pack_panels" not in [node.op.name for node in graph.nodes]


def test_activations_are_packed_where_rows_pay_for_it() -> None:
    choice = chosen((200, 64), (64, 64))
    assert choice.why is Why.PACKED
    assert str(choice) == (
        "b is packed at every call: 200 rows, 819200 multiply-adds; it pays from 4 rows, 8192 on"
    )


def test_a_symbolic_number_of_columns_is_tiled_for_the_largest() -> None:
    n = Dim("n", max=64)
    for columns in (64, n):
        assert chosen((200, 64), (64, columns)).why is Why.PACKED
        assert chosen((12, 64), (64, columns)).why is Why.IN_PLACE
    assert chosen((2, 64), (64, n)).why is Why.IN_PLACE
    assert chosen((32, 64), (64, Dim("n", max=16))).why is not Why.ONE_PANEL


def test_few_rows_read_an_activation_unpacked() -> None:
    choice = chosen((12, 64), (64, 64))
    assert choice.why is Why.IN_PLACE
    assert isinstance(choice.lowering, Schedule)
    assert "has 12 rows of a, up to 24" in str(choice)


def test_more_rows_read_it_unpacked_if_a_cache_holds_a_panel_of_it() -> None:
    assert "has 64 rows of a, up to 128" in str(chosen((64, 64), (64, 64)))
    assert chosen((64, 2048), (2048, 1024)).why is Why.PACKED  # rows in few sets of the cache


@pytest.mark.parametrize("rows", [(16,), (4, 4)])
def test_the_transpose_of_a_larger_matrix_that_changes_is_not_packed(rows: tuple[int, ...]) -> None:
    g = Graph("linear")
    x, w = g.input("x", (*rows, 64)), g.input("w", (128, 64))
    g.set_outputs([g.matmul(x, g.transpose(w, perm=(1, 0)))])
    made = pack_operands(TARGET)(g)
    (product,) = [node for node in made.nodes if node.op.name in ("matmul", "stored_matmul")]
    assert product.operands[0].node.name == "w"
    assert "transpose" in [node.op.name for node in made.nodes]
    assert made.outputs[0].shape == (*rows, 128)
    few = Graph("narrow")
    x, w = few.input("x", (64, 64)), few.input("w", (10, 64))
    few.set_outputs([few.matmul(x, few.transpose(w, perm=(1, 0)))])
    assert pack_operands(TARGET)(few).outputs[0].op.name != "transpose"


def test_an_activation_streams_past_very_few_rows() -> None:
    choice = chosen((2, 64), (64, 64))
    assert choice.why is Why.STREAMED
    assert isinstance(choice.lowering, Schedule)
    assert choice.lowering.left == "registers"
    assert "has 2 rows of a, up to 4" in str(choice)


def test_small_products_are_plain_loops() -> None:
    choice = chosen((2, 3), (3, 4))
    assert (choice.why, choice.lowering) == (Why.SMALL, None)


def test_small_weights_are_read_in_place() -> None:
    choice = chosen((8, 4), (4, 8), "param")
    assert str(choice) == "plain loops: b has 32 elements; packing weights pays from 256 on"


def test_sums_of_one_term_are_elementwise() -> None:
    for a, b in (((8, 1), (1, 64)), ((3, 8, 1), (1, 8))):
        assert chosen(a, b).why is Why.ONE_TERM
        graph = pack_operands(TARGET)(product(a, b, "input", "f32"))
        names = [node.op.name for node in graph.nodes[2:]]
        assert names == ["mul", "constant", "add"]  # 0.0, with which sums begin


def test_a_param_that_a_run_replaces_is_not_packed_in_setup() -> None:
    """Packing it would be done in every run, however few rows it has."""
    g = Graph("g")
    x, w = g.input("x", (1, 40)), g.param("w", (40, 40))
    product = g.matmul(x, g.transpose(w, perm=(1, 0)))
    next_w = w - 1.0
    for donated, why in ((None, Why.PACKED_ONCE), ({w: next_w}, Why.SMALL)):
        g.set_outputs([product, next_w], donated=donated)
        seen = Seen()
        pack_operands(TARGET, seen)(g)
        assert seen.only().why is why


def test_reasons_of_types() -> None:
    assert chosen((8, 8), (8, 8), dtype="i32").why is Why.DTYPE
    assert chosen((8, 8), (8, 8), dtype="bf16").why is Why.WIDENED
    assert chosen((8, 8), (8, 0)).why is Why.COLUMNS
    assert chosen((2, 1, 8, 8), (3, 8, 8)).why is Why.BATCHES


def attention(head: int) -> Graph:
    g = Graph("g")
    q, k, v = (g.input(name, (1, 2, 16, head)) for name in "qkv")
    g.set_outputs([g.attention(q, k, v, num_heads=2, head_dim=head)])
    return g


def seen_by(graph_pass: GraphPass, graph: Graph, seen: Seen) -> Choice:
    graph_pass(graph)
    return seen.only()


def test_attention_is_tiled_where_a_vector_divides_the_head() -> None:
    seen = Seen()
    assert seen_by(tile_attention(TARGET, seen), attention(32), seen).why is Why.QUERIES
    odd = Seen()
    choice = seen_by(tile_attention(TARGET, odd), attention(3), odd)
    assert (choice.why, choice.lowering) == (Why.NO_QUERIES, None)


def test_large_systems_go_to_a_library_that_is_there() -> None:
    assert choose_library(ops.solve, 500, lambda: True).lowering == Library("lapack")
    assert choose_library(ops.solve, 500, lambda: False).why is Why.NO_LIBRARY
    large = {ops.solve: 192, ops.cholesky: 192, ops.lu: 192, ops.eigh: 24, ops.svd: 48, ops.qr: 64}
    for op, extent in large.items():
        assert choose_library(op, extent, lambda: True).why is Why.LARGE_SYSTEM
        assert str(choose_library(op, extent - 1, lambda: True)).endswith(
            f"{extent - 1} rows, below {extent} it is as fast as a library"
        )
