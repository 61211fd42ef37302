"""Row regions: which kernels join, and what keeps them apart."""

from __future__ import annotations

import pytest

from rlx.ir import ops
from rlx.ir.parser import parse_graph
from rlx.passes.fusion.fuse import fuse
from rlx.passes.fusion.row_regions import row_regions
from rlx.passes.rewrite import GraphPass
from rlx.target import Target, named_target
from tests.passes.text import assert_becomes, assert_unchanged

SERVER, CHIP = named_target("x86-64-v3"), named_target("cortex-m4")

SOFTMAX = """
    %0: f32[512, 64] = input "x"
    %1: f32[512, 1] = reduce_max %0 {axes = (1,), keepdims = true}
    %2: f32[512, 64] = sub %0, %1
    %3: f32[512, 64] = exp %2
    %4: f32[512, 1] = reduce_sum %3 {axes = (1,), keepdims = true}
    %5: f32[512, 64] = div %3, %4
    return %5
    """


def joined(text: str, target: Target = SERVER) -> list[str]:
    """Return the ops of a graph once it is fused and regions are formed."""
    graph = parse_graph("graph @case {\n" + text + "\n}\n")
    done = row_regions(target)(fuse()(graph))
    return [node.op.name for node in done.nodes if node.op is not ops.input]


def test_a_softmax_becomes_one_region() -> None:
    input_, *_ = SOFTMAX.strip().splitlines()
    region = f"%1: f32[512, 64] = row_region %0 {{body = graph @case_rows {{{SOFTMAX}}}}}"
    both = GraphPass("both", lambda graph: fuse().rewrite(graph).then(row_regions(SERVER)))
    named = SOFTMAX
    assert_becomes(both, named, "\n".join([input_, region, "return %1"]))


def normalized(shape: str, axis: int, numbers: str, dtype: str = "f32", between: str = "") -> str:
    """Return the text of a division by sums along an axis, which are changed on the way."""
    keeps, read = "true" if numbers.count(",") == shape.count(",") else "false", 2 if between else 1
    declared = "dim n in 0..128" if "n" in shape else ""
    return f"""
        {declared}
        %0: {dtype}[{shape}] = input "x"
        %1: {dtype}[{numbers}] = reduce_sum %0 {{axes = ({axis},), keepdims = {keeps}}}
        {between}
        %{read + 1}: {dtype}[{shape}] = div %0, %{read}
        return %{read + 1}
        """


@pytest.mark.parametrize(
    ("shape", "axis", "numbers"),
    [
        ("512, 64", 1, "512, 1"),
        ("6, 100000", 1, "6, 1"),
        ("n, 64", 1, "n, 1"),
        ("512, n", 1, "512, 1"),
        ("300, 512", 0, "512"),
        ("16, 3, 50, 50", 1, "16, 1, 50, 50"),
        ("n, 512", 0, "1, 512"),
        ("64, 300, 1", 1, "64, 1, 1"),
    ],
)
def test_rows_and_columns_become_regions(shape: str, axis: int, numbers: str) -> None:
    assert joined(normalized(shape, axis, numbers)) == ["row_region"]


@pytest.mark.parametrize(
    "text",
    [
        # Nothing reads a row again with what was folded of it.
        """
        %0: f32[512, 64] = input "x"
        %1: f32[512, 64] = exp %0
        %2: f32[512, 1] = reduce_max %0 {axes = (1,), keepdims = true}
        return %1, %2
        """,
        # Element j of every row is divided by the number of row j.
        normalized("64, 64", 1, "64"),
        # So it is by a transpose, and i of a column by that of column i.
        normalized("64, 64", 1, "64, 1", between="%2: f32[1, 64] = transpose %1 {perm = (1, 0)}"),
        normalized("64, 64", 0, "64", between="%2: f32[64, 1] = reshape %1 {shape = (64, 1)}"),
        # The numbers are read in another order.
        normalized("512, 64", 1, "512, 1", between="%2: f32[512, 1] = reverse %1 {axes = (0,)}"),
        # Rows too long to stay in the second cache, too short for vectors, too few for threads.
        normalized("6, 200000", 1, "6, 1"),
        normalized("600, 3", 1, "600, 1"),
        normalized("3, 16384", 1, "3, 1"),
        # Columns that are long, too few for vectors or for threads.
        normalized("4000, 512", 0, "512"),
        normalized("64, 32, 8", 1, "64, 1, 8"),
        normalized("1000, 128", 0, "128"),
        # The one row's number is folded apart, with a shape that no number of rows has.
        """
        %0: f32[1, 512] = input "x"
        %1: f32[1] = input "scale"
        %2: f32[] = reduce_sum %0 {axes = (0, 1)}
        %3: f32[1] = mul %2, %1
        %4: f32[1, 512] = fused %3, %0 {body = graph @mul {
          %0: f32[1] = input "a"
          %1: f32[1, 512] = input "b"
          %2: f32[1, 1] = reshape %0 {shape = (1, 1)}
          %3: f32[1, 512] = mul %2, %1
          return %3
        }}
        return %4
        """,
        # Complex numbers have no machine type.
        normalized("512, 64", 1, "512, 1", dtype="c64"),
    ],
)
def test_what_is_no_region(text: str) -> None:
    assert_unchanged(row_regions(SERVER), text)


def test_columns_stay_apart_where_the_stack_is_small() -> None:
    assert joined(normalized("300, 512", 0, "512"), CHIP) == ["reduce_sum", "div"]


def test_elements_join_the_axis_along_which_they_are_folded() -> None:
    text = """
        %0: f32[128, 128] = input "x"
        %1: f32[128, 128] = abs %0
        %2: f32[128] = reduce_sum %1 {axes = (0,)}
        %3: f32[128, 128] = sub %1, %2
        %4: f32[128, 1] = reduce_max %3 {axes = (1,), keepdims = true}
        %5: f32[128, 128] = sub %3, %4
        return %5
        """
    assert joined(text) == ["row_region", "row_region"]


@pytest.mark.parametrize("shape", ["2048, 32", "32, 64"])
def test_functions_of_short_rows_and_small_arrays_are_left_to_longer_vectors(shape: str) -> None:
    rows, _, _ = shape.partition(", ")
    text = SOFTMAX.replace("512, 64", shape).replace("512, 1]", f"{rows}, 1]")
    assert joined(text) == ["reduce_max", "fused", "row_region"]
    assert joined(text, CHIP) == ["row_region"], "it has no vectors"


def test_a_product_between_two_normalizations_keeps_them_apart() -> None:
    text = """
        %0: f32[8, 64] = input "x"
        %1: f32[64, 64] = input "w"
        %2: f32[8, 1] = reduce_sum %0 {axes = (1,), keepdims = true}
        %3: f32[8, 64] = div %0, %2
        %4: f32[8, 64] = matmul %3, %1
        %5: f32[8, 1] = reduce_max %4 {axes = (1,), keepdims = true}
        %6: f32[8, 64] = mul %4, %5
        %7: f32[8, 64] = sub %6, %3
        return %7
        """
    assert joined(text) == ["row_region", "matmul", "row_region"]


def test_numbers_of_rows_are_computed_once_for_a_row() -> None:
    text = """
        %0: f32[8, 64] = input "x"
        %1: f32[8, 1] = reduce_sum %0 {axes = (1,), keepdims = true}
        %2: f32[8] = reduce_max %0 {axes = (1,)}
        %3: f32[8, 1] = reshape %2 {shape = (8, 1)}
        %4: f32[8, 1] = add %1, %3
        %5: f32[8, 1] = tanh %4
        %6: f32[8, 64] = mul %0, %5
        return %6, %5
        """
    assert joined(text) == ["row_region"]


def test_a_region_with_more_values_than_a_fusion_is_split() -> None:
    reads = "\n".join(f'%{i}: f32[8, 64] = input "x{i}"' for i in range(24))
    sums = "\n".join(
        f"%{24 + i}: f32[8, 64] = add %{23 + i if i else 0}, %{i + 1}" for i in range(23)
    )
    text = f"""
        {reads}
        {sums}
        %47: f32[8, 1] = reduce_sum %46 {{axes = (1,), keepdims = true}}
        %48: f32[8, 64] = div %46, %47
        return %48
        """
    assert joined(text) == ["fused", "row_region"]


def test_a_chain_of_normalizations_is_split_into_bodies_of_some_size() -> None:
    lines = ['%0: f32[8, 64] = input "x"']
    for at in range(0, 300, 3):
        lines += [
            f"%{at + 1}: f32[8, 1] = reduce_sum %{at} {{axes = (1,), keepdims = true}}",
            f"%{at + 2}: f32[8, 64] = div %{at}, %{at + 1}",
            f"%{at + 3}: f32[8, 64] = abs %{at + 2}",
        ]
    assert joined("\n".join([*lines, "return %300"])) == ["row_region"] * 4


def test_an_operand_of_a_fold_may_have_another_shape_than_what_is_folded() -> None:
    text = """
        %0: f32[512, 64] = input "x"
        %1: f32[64] = input "v"
        %2: f32[64] = tanh %1
        %3: f32[512, 64] = mul %0, %2
        %4: f32[512, 1] = reduce_sum %3 {axes = (1,), keepdims = true}
        %5: f32[512, 64] = div %0, %4
        return %5, %2
        """
    assert joined(text) == ["tanh", "row_region"]


def test_numbers_of_rows_in_another_shape_join_no_region() -> None:
    graph = parse_graph("""graph @case {
    %0: f32[1, 25, 64] = input "x"
    %1: f32[1, 25, 1] = input "scale"
    %2: f32[25] = fused %0, %1 {body = graph @part {
      %0: f32[1, 25, 64] = input "x"
      %1: f32[1, 25, 1] = input "scale"
      %2: f32[1, 25, 1] = reduce_sum %0 {axes = (2,), keepdims = true}
      %3: f32[1, 25, 1] = mul %2, %1
      %4: f32[25] = reshape %3 {shape = (25,)}
      return %4
    }}
    return %2
    }
    """)
    assert [node.op.name for node in row_regions(SERVER)(graph).nodes] == [
        "input",
        "input",
        "fused",
    ]
