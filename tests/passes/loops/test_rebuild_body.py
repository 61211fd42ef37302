"""Bodies made from others: inputs in any order, names of their own, outputs that are chosen."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.types import TensorType
from rlx.passes.loops.rebuild_body import BodyBuilder, free_name


def a_body() -> Graph:
    body = Graph("body")
    c, x = body.input("c", (), "f32"), body.input("x", (), "f32")
    body.set_outputs([c + x, ops.exp(x)])
    return body


def test_inputs_are_in_the_order_in_which_they_were_kept_and_added() -> None:
    body = a_body()
    built = BodyBuilder(body)
    built.keep(body.inputs[1:])
    built.add("k", TensorType(DType.F32, (3,)))
    built.keep(body.inputs[:1])
    built.copy()
    assert [value.node.name for value in built.finished().inputs] == ["x", "k", "c"]


def test_a_new_input_does_not_take_the_name_of_one_that_is_kept_later() -> None:
    body = a_body()
    built = BodyBuilder(body)
    names = [built.add("x", TensorType(DType.F32, ())).node.name for _ in range(2)]
    assert names == ["x_1", "x_2"]


def test_a_value_that_is_given_is_not_computed() -> None:
    body = a_body()
    built = BodyBuilder(body)
    built.keep(body.inputs)
    exponential = body.outputs[1]
    built.value_map[exponential] = built.add("exp", exponential.type)
    built.copy()
    finished = built.finished()
    assert finished.outputs[1] is finished.inputs[2]
    assert not any(node.op is ops.exp for node in finished.nodes)


def test_only_wanted_nodes_are_copied_and_only_chosen_outputs_returned() -> None:
    body = a_body()
    built = BodyBuilder(body)
    built.keep(body.inputs)
    built.copy(lambda node: node.op is ops.add)
    finished = built.finished(body.outputs[:1])
    assert [node.op for node in finished.nodes if node.operands] == [ops.add]
    assert len(finished.outputs) == 1


def test_free_names_are_numbered() -> None:
    assert free_name("a", {"b"}) == "a"
    assert free_name("a", {"a", "a_1"}) == "a_2"
