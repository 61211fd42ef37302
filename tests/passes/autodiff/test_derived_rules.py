"""An op needs one rule: the other mode, and every order, follow from it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from rlx.errors import InternalError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.lazy_table import LazyTable
from rlx.ir.op import OpDef
from rlx.ir.reference import evaluate
from rlx.passes.autodiff import (
    MissingGradientError,
    NoDerivativeError,
    grad_with_loss,
    jvp_in_graph,
    registry,
    vjp_in_graph,
)
from rlx.passes.autodiff.registry import Differential, Pullback, Pushforward
from rlx.passes.rewrites.dead_code import dead_code

X = np.array([0.5, -1.5])


class Declared:
    """Ops made for one test, with rules that disappear after it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch

    def op(self, name: str, like: OpDef = ops.sin, **changes: Any) -> OpDef:
        return dataclasses.replace(like, name=name, **changes)

    def rule(self, where: Any, definition: OpDef, rule: Any) -> None:
        self.patch.setitem(where._rules, definition.name, rule)


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Declared:
    return Declared(monkeypatch)


def derivatives(op: OpDef) -> tuple[Value, Value]:
    """Return the cotangent for a cotangent of ones, and the tangent for a tangent of ones."""
    graph = Graph()
    x = graph.input("x", (2,), "f64")
    y = op(x)
    ones = graph.constant(np.ones(2))
    pulled, pushed = vjp_in_graph(graph, [y], [x], [ones]), jvp_in_graph(graph, [y], [x], [ones])
    assert pulled[0] is not None
    assert pushed[0] is not None
    return pulled[0], pushed[0]


def values(*outputs: Value) -> list[Any]:
    """Evaluate what does not need the made-up op itself."""
    graph = outputs[0].graph
    graph.set_outputs(outputs)
    return evaluate(dead_code(graph), {"x": X})


def test_tangents_follow_from_a_pullback_by_transposing_it_twice(declared: Declared) -> None:
    cube = declared.op("cube")

    def cube_vjp(at: Pullback, x: Value) -> Any:
        return at.cotangent * (3.0 * x * x)

    declared.rule(registry.vjp, cube, cube_vjp)
    pulled, pushed = derivatives(cube)
    (again,) = jvp_in_graph(pulled.graph, [pushed], [pulled.graph.leaf("x")], [pulled])
    assert again is not None
    first, second, third = values(pulled, pushed, again)
    np.testing.assert_allclose(first, 3 * X**2)
    np.testing.assert_allclose(second, 3 * X**2)
    np.testing.assert_allclose(third, 18 * X**3)


def test_cotangents_follow_from_tangents_by_transposition(declared: Declared) -> None:
    cube = declared.op("cube")

    def cube_jvp(at: Pushforward, x: Value) -> Any:
        return at.tangent * (3.0 * x * x)

    declared.rule(registry.jvp, cube, cube_jvp)
    for result in values(*derivatives(cube)):
        np.testing.assert_allclose(result, 3 * X**2)


def test_formula_gives_both_modes(declared: Declared) -> None:
    cube = declared.op("cube", decompose=lambda x: x * x * x)
    for result in values(*derivatives(cube)):
        np.testing.assert_allclose(result, 3 * X**2)


def test_rule_may_leave_a_case_to_the_formula(declared: Declared) -> None:
    cube = declared.op("cube", decompose=lambda x: x * x * x)
    declared.rule(registry.vjp, cube, lambda *_: registry.BY_FORMULA)
    for result in values(*derivatives(cube)):
        np.testing.assert_allclose(result, 3 * X**2)


def test_missing_rule_inside_a_formula_names_both_ops_and_the_users_line(
    declared: Declared,
) -> None:
    mystery = declared.op("mystery")
    outer = declared.op("outer", decompose=lambda x: mystery(x) * 2.0)
    with pytest.raises(NoDerivativeError, match="outer: mystery has no reverse-mode") as caught:
        derivatives(outer)
    assert caught.value.source is not None
    assert caught.value.source.file == __file__


def test_reason_for_having_no_derivative_is_part_of_the_error(declared: Declared) -> None:
    drawn = declared.op("drawn")
    declared.patch.setattr(registry.facts, "_reasons", LazyTable("no derivative"))
    registry.nondifferentiable(drawn, because="it draws random numbers")
    with pytest.raises(NoDerivativeError, match="it draws random numbers"):
        derivatives(drawn)


def test_derivative_of_a_wrong_type_or_count_is_a_fault_of_the_rule(declared: Declared) -> None:
    wrong = declared.op("wrong")
    declared.rule(registry.vjp, wrong, lambda at, _: ops.reduce_sum(at.cotangent, axes=(0,)))
    with pytest.raises(InternalError, match=r"has type f64\[2\].*a rule gave f64\[\]"):
        derivatives(wrong)
    declared.rule(registry.vjp, wrong, lambda at, _: (at.cotangent, at.cotangent))
    with pytest.raises(InternalError, match="gave 2 derivatives for 1"):
        derivatives(wrong)


def test_straight_through_ops_carry_f32_cotangents_through_i8(declared: Declared) -> None:
    codes = declared.op("codes", infer=lambda x: x.with_dtype(DType.I8))
    back = declared.op("back", infer=lambda x: x.with_dtype(DType.F32))
    for op in (codes, back):
        declared.rule(registry.facts, op, Differential((lambda v, *_: v,)))
    declared.rule(registry.straight_through, codes, None)
    graph = Graph()
    x = graph.input("x", (2,), "f32")
    middle = codes(x)
    graph.set_outputs([back(middle)])
    step = grad_with_loss(graph, [x, middle])
    assert step.outputs[1] is step.outputs[2] is step.leaf("d_output")


def test_i8_input_that_nothing_reaches_is_missing_or_zero_in_f32() -> None:
    graph = Graph()
    x, codes = graph.input("x", (2,), "f32"), graph.input("codes", (3,), "i8")
    graph.set_outputs([x * ops.reduce_sum(ops.cast(codes, to=DType.F32), axes=(0,))])
    with pytest.raises(MissingGradientError, match="'codes'"):
        grad_with_loss(graph, [codes])
    assert grad_with_loss(graph, [codes], missing="zero").outputs[1].dtype is DType.F32
