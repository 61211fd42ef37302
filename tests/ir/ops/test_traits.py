"""Traits are promises that default rules rely on; the records put them to the test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.ir.dtype import DType
from rlx.ir.op import OPS, Trait
from rlx.ir.reference import evaluate
from tests.records import OpRecord, records

Array = NDArray[Any]


def _with(trait: Trait, *, dtype: DType) -> list[OpRecord]:
    return [
        record
        for record in records()
        if record.op.has(trait) and dtype in record.dtypes and "edges" not in record.name
        and "nan" not in record.name
    ]  # fmt: skip


def _evaluated(record: OpRecord, operands: Sequence[Array], dtype: DType) -> list[Array]:
    return evaluate(record.graph(dtype), dict(zip(record.operand_names, operands, strict=True)))


def _operands(record: OpRecord, dtype: DType, seed: int) -> list[Array]:
    return list(record.inputs(dtype, seed).values())


@pytest.mark.whole
@pytest.mark.parametrize("record", _with(Trait.LINEAR, dtype=DType.F64), ids=lambda r: r.id)
def test_linear_ops_are_linear_in_all_operands_jointly(record: OpRecord) -> None:
    x, y = _operands(record, DType.F64, 1), _operands(record, DType.F64, 2)
    combined = _evaluated(record, [2 * a - 3 * b for a, b in zip(x, y, strict=True)], DType.F64)
    for total, of_x, of_y in zip(
        combined, _evaluated(record, x, DType.F64), _evaluated(record, y, DType.F64), strict=True
    ):
        np.testing.assert_allclose(total, 2 * of_x - 3 * of_y, rtol=1e-11, atol=1e-11)


@pytest.mark.whole
@pytest.mark.parametrize("record", _with(Trait.BILINEAR, dtype=DType.F64), ids=lambda r: r.id)
def test_bilinear_ops_are_linear_in_each_operand(record: OpRecord) -> None:
    a, b = _operands(record, DType.F64, 1)
    c, d = _operands(record, DType.F64, 2)
    (whole,) = _evaluated(record, [2 * a + c, b], DType.F64)
    (first,), (second,) = (_evaluated(record, [left, b], DType.F64) for left in (a, c))
    np.testing.assert_allclose(whole, 2 * first + second, rtol=1e-11, atol=1e-11)
    (whole,) = _evaluated(record, [a, 2 * b + d], DType.F64)
    (second,) = _evaluated(record, [a, d], DType.F64)
    np.testing.assert_allclose(whole, 2 * first + second, rtol=1e-11, atol=1e-11)


def test_commutative_ops_commute_over_every_dtype() -> None:
    for record in records():
        if record.op.has(Trait.COMMUTATIVE) and record.name in ("equal", "edges"):
            swapped = OpRecord(record.op, record.name, record.operands[::-1])
            for dtype in record.dtypes:
                a, b = _operands(record, dtype, 1)
                (forth,) = _evaluated(record, [a, b], dtype)
                (back,) = _evaluated(swapped, [b, a], dtype)
                # NumPy fuses a multiplication and an addition of complex parts, on one side.
                bound = 1e-6 if dtype.is_complex else 0.0
                np.testing.assert_allclose(
                    forth.astype(np.complex128), back.astype(np.complex128), bound, bound
                )


@pytest.mark.whole
@pytest.mark.parametrize("record", _with(Trait.MOVEMENT, dtype=DType.I64), ids=lambda r: r.id)
def test_movement_ops_give_only_elements_that_they_were_given(record: OpRecord) -> None:
    operands = _operands(record, DType.I64, 1)
    (moved,) = _evaluated(record, operands, DType.I64)
    given = {int(value) for operand in operands for value in operand.ravel()}
    given.add(int(record.attributes.get("value", 0)) if record.op.name == "pad" else 0)
    assert {int(value) for value in moved.ravel()} <= given


@pytest.mark.whole
@pytest.mark.parametrize(
    "record",
    [r for r in _with(Trait.ELEMENTWISE, dtype=DType.F32) if r.name == "tail"],
    ids=lambda r: r.id,
)
def test_elementwise_ops_read_no_other_element(record: OpRecord) -> None:
    operands = _operands(record, DType.F32, 1)
    (before,) = _evaluated(record, operands, DType.F32)
    changed = [operand.copy() for operand in operands]
    for operand in changed:
        operand[3, 5] = operand[0, 0]
    (after,) = _evaluated(record, changed, DType.F32)
    np.testing.assert_array_equal(after[3, 5], before[0, 0])
    after[3, 5] = before[3, 5]
    np.testing.assert_array_equal(after, before)


@pytest.mark.whole
@pytest.mark.parametrize("record", _with(Trait.WINDOWED, dtype=DType.F64), ids=lambda r: r.id)
def test_windows_slide_over_the_last_axes_but_the_inner_ones(record: OpRecord) -> None:
    """What is before the windows becomes what is inside them."""
    operands = _operands(record, DType.F64, 1)
    before = operands[0].ndim - len(record.attributes["kernel_size"])
    turned = before - record.attributes.get("inner", 0)
    moved = [np.moveaxis(x, range(turned), range(-turned, 0)) for x in operands]
    shapes = zip(record.operands, moved, strict=True)
    inside = replace(
        record,
        operands=tuple(replace(operand, shape=x.shape) for operand, x in shapes),
        attributes={**record.attributes, "inner": before},
    )
    (expected,) = _evaluated(record, operands, DType.F64)
    (found,) = _evaluated(inside, moved, DType.F64)
    np.testing.assert_allclose(
        found, np.moveaxis(expected, range(turned), range(-turned, 0)), rtol=1e-12
    )


def test_ops_that_reindex_give_elements_of_operand_0_and_all_of_them_but_for_a_subset() -> None:
    for record in records():
        if record.op.has(Trait.REINDEXES):
            for dtype in record.dtypes:
                operands = _operands(record, dtype, 1)
                (moved,) = _evaluated(record, operands, dtype)
                given, found = (
                    {x.tobytes() for x in each.ravel()} for each in (operands[0], moved)
                )
                assert found <= given, f"{record.id} {dtype}"
                whole = not record.op.has(Trait.SUBSET) and moved.size > 0
                assert not whole or found == given, f"{record.id} {dtype}"


def test_nonnegative_ops_give_no_negative_element() -> None:
    for record in records():
        if record.op.has(Trait.NONNEGATIVE):
            for dtype in record.dtypes:
                if dtype.is_float:
                    (result,) = _evaluated(record, _operands(record, dtype, 1), dtype)
                    signed = np.signbit(result) & ~np.isnan(result)
                    assert not signed.any(), f"{record.id} {dtype}"


@pytest.mark.whole
@pytest.mark.parametrize("record", _with(Trait.SCATTERS_SUM, dtype=DType.F64), ids=lambda r: r.id)
def test_what_scatters_a_sum_adds_each_element_of_operand_0_once(record: OpRecord) -> None:
    updates, indices = _operands(record, DType.F64, 1)
    (added,) = _evaluated(record, [updates, indices], DType.F64)
    np.testing.assert_allclose(added.sum(), updates.sum(), rtol=1e-12)


def test_views_keep_the_bytes_of_their_operand() -> None:
    for record in records():
        if record.op.has(Trait.VIEW):
            for dtype in record.dtypes:
                operands = _operands(record, dtype, 1)
                (viewed,) = _evaluated(record, operands, dtype)
                assert viewed.tobytes() == operands[0].tobytes(), f"{record.id} {dtype}"


def test_ops_that_promote_take_one_dtype_for_every_operand_but_a_condition() -> None:
    for op in OPS.values():
        if op.has(Trait.PROMOTES):
            assert not op.variadic
            assert set(op.operands) <= {"a", "b", "x", "w", "condition"}, op.name
