"""Type inference of movement ops, with static and symbolic extents."""

from __future__ import annotations

from typing import Any

import pytest

from rlx.errors import DTypeError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.op import OpDef, make_attrs
from rlx.ir.shape import Dim, Shape
from rlx.ir.types import TensorType

N, M = Dim("n", max=64), Dim("m", max=8)


def infer(op: OpDef, *shapes: Shape, **attributes: Any) -> Shape:
    """Return the shape of the only result for f32 operands of `shapes`."""
    operands = tuple(TensorType(DType.F32, shape) for shape in shapes)
    (result,) = op.infer_types(operands, make_attrs(op, attributes))
    return result.shape


@pytest.mark.parametrize(
    ("shape", "target", "expected"),
    [
        ((2, 6), (-1,), (12,)),
        ((2, 6), (3, -1, 2), (3, 2, 2)),
        ((0, 4), (0, 7), (0, 7)),
        ((1,), (), ()),
        ((N, 4), (-1,), (4 * N,)),
        ((N, 4), (2, -1), (2, 2 * N)),
        ((N, M, 4), (-1, 4), (N * M, 4)),
        ((N * M, 4), (N, M, 2, 2), (N, M, 2, 2)),
        ((2, N + 1), (-1, 2), (N + 1, 2)),
    ],
)
def test_reshape_resolves_minus_one_exactly(shape: Shape, target: Shape, expected: Shape) -> None:
    assert infer(ops.reshape, shape, shape=target) == expected


@pytest.mark.parametrize(
    ("shape", "target", "message"),
    [
        ((2, 6), (5, -1), "12 is not divisible by 5"),
        ((2, 6), (13,), r"\(2, 6\) has 12 elements and \(13,\) has 13"),
        ((2, 6), (-1, -1), "more than one -1"),
        ((2, 6), (0, -1), "not divisible by 0"),
        ((N, 4), (N + 1, 4), r"4\*n elements"),
        ((N, 4), (3, -1), r"4\*n is not divisible by 3"),
        ((2, 6), (-2, -6), "negative"),
    ],
)
def test_reshape_refuses_counts_that_do_not_match(
    shape: Shape, target: Shape, message: str
) -> None:
    with pytest.raises(ShapeError, match=message):
        infer(ops.reshape, shape, shape=target)


def test_transpose_needs_a_permutation() -> None:
    assert infer(ops.transpose, (2, N, 3), perm=(2, 0, 1)) == (3, 2, N)
    with pytest.raises(ShapeError, match=r"\(0, 0\) is not a permutation of the 2 axes"):
        infer(ops.transpose, (2, 3), perm=(0, 0))


def test_expand_stretches_ones_and_keeps_minus_one() -> None:
    assert infer(ops.expand, (1, N), shape=(M, 5, -1)) == (M, 5, N)
    with pytest.raises(ShapeError, match=r"\(2, 3\) does not broadcast to \(4, 3\)"):
        infer(ops.expand, (2, 3), shape=(4, 3))
    with pytest.raises(ShapeError, match="higher rank"):
        infer(ops.expand, (2, 3), shape=(3,))


def test_narrow_stays_inside_its_axis() -> None:
    assert infer(ops.narrow, (4, N), axis=-1, start=0, length=N) == (4, N)
    assert infer(ops.narrow, (4, N + 2), axis=1, start=N, length=2) == (4, 2)
    for start, length in [(3, 2), (-1, 2), (5, 0), (0, -1)]:
        with pytest.raises(ShapeError, match="reach outside axis 0 of extent 4"):
            infer(ops.narrow, (4, 3), axis=0, start=start, length=length)


def test_concat_sums_extents_and_demands_agreement_elsewhere() -> None:
    assert infer(ops.concat, (N, 3), (2, 3), (N, 3), axis=0) == (2 * N + 2, 3)
    with pytest.raises(ShapeError, match=r"operand 1 has shape \(3, 5\)"):
        infer(ops.concat, (2, 4), (3, 5), axis=0)
    mixed = (TensorType(DType.F32, (2,)), TensorType(DType.I32, (2,)))
    with pytest.raises(DTypeError, match="operand 1 has dtype i32 and operand 0 has f32"):
        ops.concat.infer_types(mixed, make_attrs(ops.concat, {"axis": 0}))


def test_pad_and_slice_compute_symbolic_extents() -> None:
    assert infer(ops.pad, (N, 3), low=(1, 0), high=(M, 2)) == (N + M + 1, 5)
    sliced = infer(ops.slice, (N, 9), start=(1, 1), stop=(N, 8), step=(1, 3))
    assert sliced == (N - 1, 3)
    with pytest.raises(ShapeError, match="must not be negative"):
        infer(ops.pad, (3,), low=(-1,), high=(0,))
    with pytest.raises(ShapeError, match="slice 0:5:1 of an axis of extent 4"):
        infer(ops.slice, (4,), start=(0,), stop=(5,), step=(1,))


def test_an_axis_out_of_range_is_named_with_the_rank() -> None:
    cases: list[tuple[OpDef, dict[str, Any]]] = [
        (ops.narrow, {"axis": 2, "start": 0, "length": 1}),
        (ops.concat, {"axis": 2}),
        (ops.reverse, {"axes": (2,)}),
        (ops.reduce_sum, {"axes": (2,)}),
        (ops.cumsum, {"axis": 2}),
        (ops.softmax, {"axis": -3}),
    ]
    for op, attributes in cases:
        with pytest.raises(ShapeError, match="is out of range for rank 2"):
            infer(op, (3, 4), **attributes)
