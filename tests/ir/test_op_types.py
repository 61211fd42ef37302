"""A call of an op has a type: a value, or a tuple of values where it has several results."""

from __future__ import annotations

from typing import assert_type

from rlx.ir import ops
from rlx.ir.declaration import MultiResultOp, SingleResultOp
from rlx.ir.graph import Graph, Value
from rlx.ir.op import OPS


def test_calls_give_what_their_types_say() -> None:
    x = Graph("types").input("x", (4, 3))
    one = assert_type(ops.softmax(x, axis=1), Value)
    several = assert_type(ops.qr(x), tuple[Value, ...])
    assert isinstance(one, Value)
    assert [type(each) for each in several] == [Value, Value]


def test_the_class_of_an_op_says_how_many_results_it_has() -> None:
    for definition in OPS.values():
        expected = SingleResultOp if definition.results == 1 else MultiResultOp
        assert type(definition) is expected
