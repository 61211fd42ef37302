"""Every op that is recorded: derivatives exist, pair, and match differences where it is smooth."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from rlx.ir.dtype import DType
from rlx.ir.op import OPS
from rlx.ir.reference import evaluate
from rlx.passes.autodiff import grad_with_loss
from rlx.passes.autodiff.registry import facts, is_covered
from rlx.passes.rewrites.dead_code import dead_code
from tests.passes.autodiff.checking import Case, check_first_order, check_second_order
from tests.records import OpRecord, records


def differentiable(record: OpRecord) -> bool:
    if DType.F64 not in record.dtypes or facts.reason(record.op) is not None:
        return False
    results = record.graph(DType.F64).outputs
    moves = any(dtype.is_differentiable for dtype in record.operand_dtypes(DType.F64))
    flows = [result.dtype for result in results if result.dtype.is_differentiable]
    # A cast to a narrower float has rounding of its own; it is tested by itself.
    return moves and flows != [] and set(flows) == {DType.F64}


def case_of(record: OpRecord) -> Case:
    apply: Any = functools.partial(record.op, **record.attributes)
    arrays = tuple(record.inputs(DType.F64).values())
    fixed = tuple(i for i, operand in enumerate(record.operands) if operand.dtype is not None)
    return Case(record.id, apply, arrays, record.smooth, tolerance=2e-5, fixed=fixed)


CASES = [record for record in records() if differentiable(record)]


def each(chosen: list[OpRecord]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("record", chosen, ids=lambda record: record.id)


def test_every_op_has_a_derivative_a_formula_or_a_reason_to_have_none() -> None:
    sources = {"input", "param", "constant", "iota", "extent"}
    assert [op.name for op in OPS.values() if op.name not in sources and not is_covered(op)] == []


@pytest.mark.whole
@each(CASES)
def test_recorded_op_has_its_first_derivatives(record: OpRecord) -> None:
    case = case_of(record)
    results = evaluate(case.graph(), case.feeds)
    if all(np.isfinite(array).all() for array in (*results, *case.arrays) if array.size):
        check_first_order(case)


@pytest.mark.whole
@each([record for record in CASES if record.smooth])
def test_recorded_op_has_its_second_derivatives(record: OpRecord) -> None:
    check_second_order(case_of(record))


@pytest.mark.whole
@each(CASES)
def test_backward_program_of_a_recorded_op_has_no_dead_code(record: OpRecord) -> None:
    case = case_of(record)
    graph = case.graph()
    graph.set_outputs(graph.outputs[:1])
    step = grad_with_loss(graph, case.wrt, missing="zero")
    assert dead_code(step) is step
