"""Which products go to a library, and what the graph says of them."""

from __future__ import annotations

import pytest

from rlx.codegen.schedule_printer import format_schedule
from rlx.ir import ops
from rlx.ir.graph import Graph, Node
from rlx.ir.lowering import Schedule
from rlx.ir.shape import Dim
from rlx.passes.layout.choices import Choice, Why
from rlx.passes.layout.use_blas import FEW_ROWS, LARGE, use_blas
from rlx.passes.pipeline import pipeline
from rlx.runtime.lower import claimed_ops, lower_for
from rlx.target import detect_target

EDGE = round(LARGE ** (1 / 3))


def product(
    a: tuple[int | Dim, ...],
    b: tuple[int | Dim, ...],
    dtype: str = "f32",
    *,
    transposed: bool = False,
) -> Graph:
    g = Graph("g")
    right = g.input("b", b, dtype)
    if transposed:
        right = g.transpose(right, perm=(1, 0))
    g.set_outputs([g.matmul(g.input("a", a, dtype), right)])
    return g


def products_of(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op in (ops.matmul, ops.stored_matmul)]


def is_left_to_the_library(graph: Graph) -> bool:
    (node,) = products_of(use_blas()(graph))
    return node.lowering == Schedule(library="blas")


def test_the_size_of_one_matrix_decides() -> None:
    assert EDGE**3 == LARGE
    assert is_left_to_the_library(product((EDGE, EDGE), (EDGE, EDGE)))
    assert not is_left_to_the_library(product((EDGE, EDGE), (EDGE, EDGE - 1)))
    assert not is_left_to_the_library(product((100, 8, 64), (100, 64, 64)))
    assert is_left_to_the_library(product((100, 8, 64), (64, 64)))  # one matrix of 800 rows


def test_few_rows_stay() -> None:
    assert is_left_to_the_library(product((FEW_ROWS, 512), (512, 512)))
    assert not is_left_to_the_library(product((FEW_ROWS - 1, 512), (512, 512)))


def test_types_that_have_no_function_stay() -> None:
    for dtype in ("f32", "f64", "c64", "c128"):
        assert is_left_to_the_library(product((EDGE, EDGE), (EDGE, EDGE), dtype))
    for dtype in ("f16", "bf16", "i32"):
        assert not is_left_to_the_library(product((EDGE, EDGE), (EDGE, EDGE), dtype))


def test_the_largest_extent_of_a_dim_decides() -> None:
    assert is_left_to_the_library(product((Dim("n", max=1000), 64), (64, 64)))
    assert not is_left_to_the_library(product((Dim("n", max=10), 64), (64, 64)))


def test_transposes_are_read_in_place() -> None:
    (node,) = products_of(use_blas()(product((64, 64), (64, 64), transposed=True)))
    assert node.op is ops.stored_matmul
    assert node.attribute("right")
    assert not node.attribute("left")


def test_the_choice_is_reported_with_its_size() -> None:
    seen: list[Choice] = []
    use_blas(lambda _node, choice: seen.append(choice))(product((64, 64), (64, 128)))
    assert [choice.why for choice in seen] == [Why.LARGE_PRODUCT]
    assert str(seen[0]).startswith(f"{64 * 64 * 128} multiply-adds: those of {LARGE}")


def test_what_follows_is_a_kernel_behind_the_call_and_the_schedule_shows_both() -> None:
    g = Graph("g")
    x, w, bias = g.input("x", (64, 64)), g.param("w", (64, 64)), g.param("bias", (64,))
    g.set_outputs([g.relu(g.add(g.matmul(x, w), g.expand(bias, shape=(64, 64))))])
    program = lower_for(g, detect_target(), blas="system")
    lines = format_schedule(program.schedule).splitlines()
    called = [line for line in lines if 'schedule(library = "blas")' in line]
    assert len(called) == 1
    assert "fused" not in called[0]
    assert any("fused" in line for line in lines[lines.index(called[0]) + 1 :])


@pytest.mark.parametrize("takes_products", [False, True])
def test_only_who_asks_has_them_called(*, takes_products: bool) -> None:
    passes = pipeline(claimed_ops(), detect_target(), takes_products=takes_products)
    done = passes.run(product((256, 256), (256, 256)))
    assert any(node.lowering == Schedule(library="blas") for node in done.nodes) is takes_products
