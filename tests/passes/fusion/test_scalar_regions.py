"""Regions of small arrays: which nodes join, within which budget."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.parser import parse_graph
from rlx.passes.fusion.scalar_regions import find_regions, scalar_regions
from rlx.passes.pipeline import pipeline
from rlx.target import named_target
from tests.passes.text import assert_becomes, assert_unchanged

SERVER = named_target("x86-64-v3")
MANY = 10_000


def graph(text: str) -> Graph:
    return parse_graph("graph @case {\n" + text + "\n}\n")


def test_products_and_a_system_become_one_region_with_its_constants() -> None:
    text = """
        %0: f32[2, 2] = input "p"
        %1: f32[2, 2] = input "r"
        %2: f32[2, 2] = constant structural [1.0, 0.0, 0.0, 2.0]
        %3: f32[2, 2] = matmul %2, %0
        %4: f32[2, 2] = matmul %3, %2
        %5: f32[2, 2] = add %4, %1
        %6: f32[2, 2] = solve %5, %3
        return %6
        """
    region = f"%2: f32[2, 2] = scalar_region %0, %1 {{body = graph @case_scalars {{{text}}}}}"
    leaves = text.strip().splitlines()[:2]
    assert_becomes(scalar_regions(SERVER), text, "\n".join([*leaves, region, "return %2"]))


@pytest.mark.parametrize(
    "text",
    [
        # Two kernels are as fast alone.
        """
        %0: f32[4, 4] = input "p"
        %1: f32[4, 4] = matmul %0, %0
        %2: f32[4, 4] = matmul %1, %1
        return %2
        """,
        # A batch of many is better in vectors.
        """
        %0: f32[64, 4, 4] = input "p"
        %1: f32[64, 4, 4] = matmul %0, %0
        %2: f32[64, 4, 4] = matmul %1, %0
        %3: f32[64, 4, 4] = matmul %2, %0
        return %3
        """,
        # More than some unknowns are not spelled out, and what is left is too little.
        """
        %0: f32[8, 8] = input "a"
        %1: f32[8] = input "b"
        %2: f32[8, 8] = matmul %0, %0
        %3: f32[8] = solve %2, %1 {vector = true}
        %4: f32[] = reduce_sum %3 {axes = (0,)}
        return %4
        """,
    ],
)
def test_what_is_no_region(text: str) -> None:
    assert_unchanged(scalar_regions(SERVER), text)


def test_a_large_value_on_the_way_keeps_regions_apart() -> None:
    found = find_regions(
        graph(
            """
            %0: f32[4, 4] = input "p"
            %1: f32[4, 4] = matmul %0, %0
            %2: f32[4, 4] = matmul %1, %0
            %3: f32[4, 4] = matmul %2, %0
            %4: f32[64, 4, 4] = expand %3 {shape = (64, 4, 4)}
            %5: f32[64, 4, 4] = sin %4
            %6: f32[4, 4] = reduce_sum %5 {axes = (0,)}
            %7: f32[4, 4] = matmul %6, %3
            %8: f32[4, 4] = matmul %7, %0
            %9: f32[4, 4] = matmul %8, %0
            return %9
            """
        ),
        MANY,
        MANY,
    )
    assert [[node.op for node in region] for region in found] == [
        [ops.matmul] * 3,
        [ops.matmul] * 3,
    ]


def test_the_budget_of_the_target_is_kept() -> None:
    chain = graph(
        """
        %0: f32[8, 8] = input "p"
        %1: f32[8, 8] = matmul %0, %0
        %2: f32[8, 8] = matmul %1, %0
        %3: f32[8, 8] = matmul %2, %0
        return %3
        """
    )
    assert find_regions(chain, 3 * 8**3, 8**3)
    assert not find_regions(chain, 3 * 8**3 - 1, 8**3)
    assert not find_regions(chain, 3 * 8**3, 8**3 - 1)
    small = named_target("cortex-m4")
    assert small.scalar_budget < SERVER.scalar_budget
    assert SERVER.scalar_fold < 8**3 <= small.scalar_fold, "vectors are faster, where there are any"


def test_long_axes_stay_loops_where_code_counts() -> None:
    def program(extent: int) -> Graph:
        return graph(
            f"""
            %0: f32[4, 4] = input "p"
            %1: f32[4, {extent}] = input "x"
            %2: f32[4, {extent}] = matmul %0, %1
            %3: f32[4, {extent}] = matmul %0, %2
            %4: f32[4, {extent}] = matmul %0, %3
            return %4
            """
        )

    small = named_target("cortex-m4")
    assert scalar_regions(small)(program(small.scalar_axis)).nodes[-1].op is ops.scalar_region
    longer = program(small.scalar_axis + 1)
    assert scalar_regions(small)(longer) is longer
    roomy = replace(small, is_small=False)
    assert scalar_regions(roomy)(longer).nodes[-1].op is ops.scalar_region


def test_bodies_of_loops_have_regions_too() -> None:
    loop = """
        %0: f32[2, 2] = input "p"
        %1: f32[2, 2] = input "a"
        %2: f32[2, 2] = scan %0, %1 {body = graph @body {
          %0: f32[2, 2] = input "p"
          %1: f32[2, 2] = input "a"
          %2: f32[2, 2] = matmul %1, %0
          %3: f32[2, 2] = matmul %2, %1
          %4: f32[2, 2] = solve %3, %1
          return %4
        }, length = 4, num_carries = 1, num_consts = 1}
        return %2
        """
    done = scalar_regions(SERVER)(graph(loop))
    (body,) = (node.attribute("body") for node in done.nodes if node.op is ops.scan)
    assert [node.op for node in body.nodes if node.op is not ops.input] == [ops.scalar_region]


def test_bodies_with_known_zeros_become_regions_before_loops_are_kernels() -> None:
    def program(zeros: str) -> Graph:
        return graph(
            f"""
            %0: f32[2, 2] = input "p"
            %1: f32[2, 2] = scan %0 {{body = graph @body {{
              %0: f32[2, 2] = input "p"
              %1: f32[2, 2] = constant {zeros}[1.0, 0.0, 0.0, 2.0]
              %2: f32[2, 2] = matmul %1, %0
              %3: f32[2, 2] = matmul %2, %1
              %4: f32[2, 2] = matmul %3, %0
              return %4
            }}, length = 4, num_carries = 1, num_consts = 0}}
            return %1
            """
        )

    small = named_target("cortex-m4")
    early = scalar_regions(small, sparse_only=True)
    (body,) = (n.attribute("body") for n in early(program("structural ")).nodes if n.op is ops.scan)
    assert body.nodes[-1].op is ops.scalar_region
    for text, target in (("", small), ("structural ", SERVER)):
        given = program(text)
        assert scalar_regions(target, sparse_only=True)(given) is given


def test_known_zeros_must_leave_out_more_than_is_spelled_out_with_them() -> None:
    """Each product leaves out 132 terms, each addition is twelve operations."""

    def program(additions: int) -> Graph:
        diagonal = ", ".join(str(float(i == j)) for i in range(12) for j in range(12))
        lines = [
            '%0: f32[12, 1] = input "x"',
            f"%1: f32[12, 12] = constant structural [{diagonal}]",
            *(f"%{2 + n}: f32[12, 1] = matmul %1, %{n and 1 + n}" for n in range(3)),
            *(f"%{5 + n}: f32[12, 1] = add %{4 + n}, %0" for n in range(additions)),
            f"return %{4 + additions}",
        ]
        return graph("\n".join(lines))

    small = named_target("cortex-m4")
    assert scalar_regions(small)(program(33)).nodes[-1].op is ops.scalar_region
    longer = program(34)
    assert scalar_regions(small)(longer) is longer


def test_what_depends_on_params_alone_stays_in_setup() -> None:
    text = """
        %0: f32[4, 4] = param "w"
        %1: f32[4, 4] = matmul %0, %0
        %2: f32[4, 4] = matmul %1, %0
        %3: f32[4, 4] = matmul %2, %0
        return %3
        """
    assert_unchanged(scalar_regions(SERVER), text)


def test_the_pipeline_forms_regions_for_targets_of_any_size() -> None:
    chain = graph(
        """
        %0: f32[2, 2] = input "p"
        %1: f32[2, 2] = matmul %0, %0
        %2: f32[2, 2] = matmul %1, %0
        %3: f32[2, 2] = matmul %2, %0
        return %3
        """
    )
    for target in (SERVER, replace(SERVER, is_small=True), named_target("cortex-m0")):
        done = pipeline((), target).run(chain)
        assert [node.op for node in done.nodes if node.op is not ops.input] == [ops.scalar_region]


def test_constants_that_others_read_stay_theirs() -> None:
    text = """
        %0: f32[2, 2] = input "p"
        %1: f32[64, 2] = input "x"
        %2: f32[2, 2] = constant [1.0, 0.0, 0.0, 2.0]
        %3: f32[2, 2] = matmul %0, %2
        %4: f32[2, 2] = matmul %3, %0
        %5: f32[2, 2] = matmul %4, %0
        %6: f32[64, 2] = matmul %1, %2
        return %5, %6
        """
    done = scalar_regions(SERVER)(graph(text))
    (region,) = (node for node in done.nodes if node.op is ops.scalar_region)
    assert len(region.results) == 1
    assert sum(node.op is ops.constant for node in done.nodes) == 1
