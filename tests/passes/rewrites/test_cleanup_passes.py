"""dead-code, common-subexpressions, fold-constants, decompose, legalize, unfuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.errors import InternalError, UnsupportedError
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.passes.lowering.legalize import legalize, require_supported
from rlx.passes.rewrite import apply_rewrites, rewrite
from rlx.passes.rewrites.common_subexpressions import common_subexpressions
from rlx.passes.rewrites.dead_code import dead_code
from rlx.passes.rewrites.decompose import decompose
from rlx.passes.rewrites.fold_constants import fold_constants
from tests.passes.text import assert_becomes, assert_unchanged


def test_dead_code_goes_and_leaves_stay() -> None:
    assert_becomes(
        dead_code,
        """
          %0: f32[4] = input "x"
          %1: f32[4] = param "unused"
          %2: f32[4] = exp %0
          %3: f32[4] = neg %0
          return %3
        """,
        """
          %0: f32[4] = input "x"
          %1: f32[4] = param "unused"
          %2: f32[4] = neg %0
          return %2
        """,
    )


def test_dead_code_returns_a_live_graph_itself() -> None:
    assert_unchanged(dead_code, '  %0: f32[4] = input "x"\n  %1: f32[4] = exp %0\n  return %1')


def test_equal_nodes_are_computed_once_in_either_order_of_a_commutative_op() -> None:
    assert_becomes(
        common_subexpressions,
        """
          %0: f32[4] = input "x"
          %1: f32[4] = input "y"
          %2: f32[4] = add %0, %1
          %3: f32[4] = add %1, %0
          %4: f32[4] = sub %0, %1
          %5: f32[4] = sub %1, %0
          return %2, %3, %4, %5
        """,
        """
          %0: f32[4] = input "x"
          %1: f32[4] = input "y"
          %2: f32[4] = add %0, %1
          %3: f32[4] = sub %0, %1
          %4: f32[4] = sub %1, %0
          return %2, %2, %3, %4
        """,
    )


def test_constants_merge_by_their_bits() -> None:
    graph = Graph("bits")
    x = graph.input("x", (2,))
    zeros = [graph.constant(0.0), graph.constant(-0.0), graph.constant(0.0)]
    graph.set_outputs([ops.add(x, zero) for zero in zeros])
    after = common_subexpressions(graph)
    assert sum(node.op is ops.constant for node in after.nodes) == 2
    assert after.outputs[0] is after.outputs[2]
    assert after.outputs[0] is not after.outputs[1]


def test_leaves_of_equal_type_do_not_merge() -> None:
    assert_unchanged(
        common_subexpressions,
        '  %0: f32[4] = input "x"\n  %1: f32[4] = input "y"\n  return %0, %1',
    )


def test_a_sum_of_constants_is_a_constant() -> None:
    assert_becomes(
        fold_constants,
        """
          %0: f32[] = constant [2.0]
          %1: f32[] = constant [3.0]
          %2: f32[] = add %0, %1
          return %2
        """,
        """
          %0: f32[] = constant [5.0]
          return %0
        """,
    )


def test_folding_keeps_the_dtype() -> None:
    graph = Graph("half")
    third = ops.div(graph.constant(1.0, "f16"), graph.constant(3.0, "f16"))
    graph.set_outputs([third])
    folded = fold_constants(graph).outputs[0].node.attribute("value").array
    assert folded.dtype == np.float16
    assert folded == np.float16(1 / 3)


def test_an_expanded_constant_is_not_stored_in_full() -> None:
    graph = Graph("large")
    graph.set_outputs([ops.expand(graph.constant(1.0), shape=(1000, 1000))])
    assert fold_constants(graph) is graph


def test_params_are_not_folded() -> None:
    graph = Graph("weights")
    graph.set_outputs([ops.exp(graph.param("w", (2,)))])
    assert fold_constants(graph) is graph


def test_what_fails_at_run_time_is_left_to_fail_there() -> None:
    graph = Graph("fault")
    table = graph.constant(np.zeros(3, np.float32))
    graph.set_outputs([ops.gather(table, graph.constant(np.array([7])), axis=0)])
    assert fold_constants(graph) is graph


def test_a_composite_becomes_its_formula_unless_it_is_claimed() -> None:
    text = '  %0: f32[4] = input "x"\n  %1: f32[4] = log_sigmoid %0\n  return %1'
    assert_unchanged(decompose({"log_sigmoid"}), text)
    assert_becomes(
        decompose(),
        text,
        """
          %0: f32[4] = input "x"
          %1: f32[] = constant [0.0]
          %2: f32[4] = minimum %0, %1
          %3: f32[4] = abs %0
          %4: f32[4] = neg %3
          %5: f32[4] = exp %4
          %6: f32[4] = log1p %5
          %7: f32[4] = sub %2, %6
          return %7
        """,
    )


def test_formulas_of_formulas_are_decomposed_to_the_end() -> None:
    graph = Graph("nested")
    graph.set_outputs([ops.log_sigmoid(graph.input("x", (4,)))])
    assert all(node.op.decompose is None for node in decompose()(graph).nodes)


def test_legalize_drops_stop_gradient() -> None:
    graph = Graph("stopped")
    x = graph.input("x", (4,))
    graph.set_outputs([ops.exp(ops.stop_gradient(x))])
    assert [node.op.name for node in legalize(graph).nodes] == ["input", "exp"]


def test_what_a_backend_lacks_is_named_with_counts() -> None:
    graph = Graph("tiny")
    x = graph.input("x", (4,))
    graph.set_outputs([ops.relu(ops.add(ops.exp(x), ops.exp(x)))])
    with pytest.raises(UnsupportedError, match=r"'c' cannot run 2 nodes .*: exp \(2\)"):
        require_supported(graph, "c", {"add", "relu"})


def test_rules_that_undo_each_other_are_reported() -> None:
    @rewrite(ops.exp)
    def forth(node: Node) -> Value:
        return ops.tanh(node.operands[0])

    @rewrite(ops.tanh)
    def back(node: Node) -> Value:
        return ops.exp(node.operands[0])

    graph = Graph("endless")
    graph.set_outputs([ops.exp(graph.input("x", (4,)))])
    with pytest.raises(InternalError, match="do not come to an end"):
        apply_rewrites(graph, [forth, back])


def test_a_rule_that_changes_the_type_is_reported() -> None:
    @rewrite(ops.exp)
    def wrong(node: Node) -> Value:
        return ops.reshape(node.operands[0], shape=(2, 2))

    graph = Graph("retyped")
    graph.set_outputs([ops.exp(graph.input("x", (4,)))])
    with pytest.raises(InternalError, match=r"exp of type f32\[4\] by a value of type f32\[2, 2\]"):
        apply_rewrites(graph, [wrong])


def test_a_rule_is_applied_where_it_may_change_a_node_and_no_other_graph_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @rewrite(ops.exp, when=lambda node: node.result.shape == (2,))
    def of_two(node: Node) -> Value:
        return ops.tanh(node.operands[0])

    def looped(extent: int) -> Graph:
        body = Graph("body")
        body.set_outputs([ops.exp(body.input("c", (extent,)))])
        graph = Graph("outer")
        top = ops.exp(graph.input("x", (4,)))
        found = graph.scan(graph.input("c", (extent,)), body=body, length=3, num_carries=1)
        graph.set_outputs([top, *found])
        return graph

    copied: list[str] = []
    original = Graph.append

    def counted(graph: Graph, *args: Any, **kwargs: Any) -> tuple[Value, ...]:
        copied.append(graph.name)
        return original(graph, *args, **kwargs)

    three, two = looped(3), looped(2)
    monkeypatch.setattr(Graph, "append", counted)
    assert apply_rewrites(three, [of_two]).graph is three
    assert not copied
    changed = apply_rewrites(two, [of_two]).graph
    (scan,) = (node for node in changed.nodes if node.op is ops.scan)
    assert [node.op.name for node in scan.attribute("body").nodes] == ["input", "tanh"]
    assert [node.op.name for node in changed.nodes][:2] == ["input", "exp"]
