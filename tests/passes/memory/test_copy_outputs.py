"""Outputs that need bytes of their own get a copy; others do not."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.passes.memory.copy_outputs import copy_outputs
from tests.passes.text import assert_becomes, assert_unchanged


def test_an_output_that_is_an_input_is_copied() -> None:
    assert_becomes(
        copy_outputs,
        '  %0: f32[4] = input "x"\n  return %0',
        '  %0: f32[4] = input "x"\n  %1: f32[4] = expand %0 {shape = (4,)}\n  return %1',
    )


def test_the_second_of_two_equal_outputs_is_copied() -> None:
    assert_becomes(
        copy_outputs,
        '  %0: f32[4] = input "x"\n  %1: f32[4] = exp %0\n  return %1, %1',
        """
          %0: f32[4] = input "x"
          %1: f32[4] = exp %0
          %2: f32[4] = expand %1 {shape = (4,)}
          return %1, %2
        """,
    )


def test_disjoint_parts_of_one_value_stay() -> None:
    assert_unchanged(
        copy_outputs,
        """
          %0: f32[4] = input "x"
          %1: f32[4] = exp %0
          %2: f32[2] = narrow %1 {axis = 0, start = 0, length = 2}
          %3: f32[2] = narrow %1 {axis = 0, start = 2, length = 2}
          return %2, %3
        """,
    )


def test_a_donation_that_fits_stays() -> None:
    graph = Graph("fits")
    state, x = graph.param("state", (4,)), graph.input("x", (4,))
    new = ops.add(state, x)
    graph.set_outputs([new], donated={state: new})
    assert copy_outputs(graph) is graph


def test_a_leaf_that_replaces_itself_stays() -> None:
    graph = Graph("itself")
    state = graph.param("state", (4,))
    graph.set_outputs([state], donated={state: state})
    assert copy_outputs(graph) is graph


def test_of_several_outputs_that_are_a_leaf_the_donated_one_stays() -> None:
    graph = Graph("itself")
    state = graph.param("state", (4,))
    graph.set_outputs([state, state], donated={state: state})
    graph.donations = {"state": 1}
    after = copy_outputs(graph)
    assert [output.op.name for output in after.outputs] == ["expand", "param"]
    assert after.donations == {"state": 1}


def test_an_update_that_reads_its_leaf_out_of_place_is_copied_last() -> None:
    graph = Graph("reversed")
    state = graph.param("state", (4,))
    new = ops.reverse(state, axes=(0,))
    graph.set_outputs([new], donated={state: new})
    after = copy_outputs(graph)
    assert [node.op.name for node in after.nodes] == ["param", "reverse", "expand"]
    assert after.donations == {"state": 0}
