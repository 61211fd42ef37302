"""Uses of normalization by channel."""

from __future__ import annotations

from typing import Any

from rlx.ir import ops
from rlx.ir.op import OpDef
from tests.record_data import normal, positive, uniform
from tests.records import Maker, Operand, OpRecord, over_all_dtypes

_GROWTH = 32.0
_CASES: list[tuple[str, tuple[int, ...], int, Maker]] = [
    ("channels-first", (2, 4, 3, 5), 1, normal),
    ("channels-last", (2, 3, 5, 4), -1, normal),
    ("line", (3, 2, 7), 1, normal),
]


def _norm(
    op: OpDef, name: str, shape: tuple[int, ...], channel: int, make: Maker, **attributes: Any
) -> OpRecord:
    vector = (shape[channel],)
    return over_all_dtypes(
        op, name, Operand(shape, make), Operand(vector, positive), Operand(vector, normal),
        smooth=0 not in shape, growth=_GROWTH, eps=1e-5, **attributes,
    )  # fmt: skip


_BATCH = [
    record
    for name, shape, axis, make in [*_CASES, ("rows", (5, 3), -1, normal)]
    for record in (
        _norm(ops.batch_norm_training, name, shape, axis, make, axis=axis),
        over_all_dtypes(
            ops.batch_norm_inference, name, Operand(shape, make),
            *(Operand((shape[axis],), each) for each in (positive, normal, normal, positive)),
            smooth=True, growth=_GROWTH, axis=axis, eps=1e-5,
        ),
    )
]  # fmt: skip
_GROUP = [
    _norm(ops.group_norm, f"{name}-{groups}", shape, axis, make, axis=axis, num_groups=groups)
    for name, shape, axis, make in _CASES
    for groups in (1, 2)
]
_INSTANCE = [
    _norm(ops.instance_norm, name, shape, axis, make, axis=axis)
    for name, shape, axis, make in _CASES
]
_POSITIONS = [
    _norm(ops.layer_norm2d, name, shape, 1, normal)
    for name, shape in [("image", (2, 4, 3, 3)), ("line", (2, 3, 5))]
]
_EMPTY = [
    _norm(ops.group_norm, "empty-batch", (0, 4, 3), 1, normal, axis=1, num_groups=2),
    _norm(ops.layer_norm2d, "empty-batch", (0, 4, 3), 1, normal),
]

# A large mean: the variance of one pass would cancel to nothing.
_FAR = (
    Operand((2, 2, 9), uniform(999.0, 1001.0)), Operand((2,), positive), Operand((2,), normal),
)  # fmt: skip
_OFFSET = [
    OpRecord(op, "offset", _FAR, {"axis": 1, "eps": 1e-5, **more}, growth=1000.0)
    for op, more in [(ops.batch_norm_training, {}), (ops.group_norm, {"num_groups": 1})]
]

RECORDS: list[OpRecord] = [*_BATCH, *_GROUP, *_INSTANCE, *_POSITIONS, *_EMPTY, *_OFFSET]
