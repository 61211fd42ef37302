"""Uses of normalization and of softmax cross-entropy."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from tests.record_data import indices, normal, positive, uniform
from tests.records import Maker, Operand, OpRecord, over_all_dtypes

_GROWTH = 16.0

_CASES: list[tuple[str, tuple[int, ...], int, Maker, float]] = [
    ("last", (7, 17), -1, normal, 1e-5),
    ("rank-three", (2, 3, 33), 2, normal, 1e-12),
    ("first", (6, 4), 0, normal, 1e-5),
    ("middle", (2, 5, 3), 1, normal, 1e-6),
    ("size-one", (4, 1), -1, normal, 1e-5),
    ("empty-batch", (0, 4), -1, normal, 1e-5),
]


def _vector(shape: tuple[int, ...], axis: int, make: Maker) -> Operand:
    return Operand((shape[axis],), make)


_NORMS = [
    over_all_dtypes(
        op, f"{name}{suffix}", Operand(shape, make), _vector(shape, axis, positive),
        *([_vector(shape, axis, normal)] if beta else []), smooth=True, growth=_GROWTH, axis=axis,
        eps=eps,
    )
    for name, shape, axis, make, eps in _CASES
    for op, beta, suffix in [
        (ops.layer_norm, True, ""),
        (ops.rms_norm, True, ""),
        (ops.rms_norm, False, "-without-beta"),
    ]
]  # fmt: skip

# A large mean: the variance of one pass would cancel to nothing.
_OFFSET = OpRecord(
    ops.layer_norm, "offset",
    (Operand((3, 9), uniform(999.0, 1001.0)), Operand((9,), positive), Operand((9,), normal)),
    {"axis": -1, "eps": 1e-12}, growth=1000.0,
)  # fmt: skip

_LOSSES = [
    over_all_dtypes(op, f"{name}-{dtype}", *operands, smooth=True, growth=8.0)
    for name, batch, classes in [
        ("rows", (7,), 17),
        ("sequence", (2, 3), 5),
        ("one-class", (3,), 1),
        ("vector", (), 4),
        ("empty-batch", (0,), 4),
    ]
    for dtype in (DType.I32, DType.I64, DType.F32)
    for op, operands in [
        (
            ops.softmax_cross_entropy_with_logits,
            (Operand((*batch, classes), normal), Operand(batch, indices(classes), dtype)),
        ),
        (
            ops.softmax_cross_entropy_backward,
            (
                Operand((*batch, classes), normal),
                Operand(batch, indices(classes), dtype),
                Operand(batch, normal),
            ),
        ),
    ]
]

RECORDS: list[OpRecord] = [*_NORMS, _OFFSET, *_LOSSES]
