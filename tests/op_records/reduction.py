"""Uses of reductions, running sums and the softmax family."""

from __future__ import annotations

from typing import Any

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.op import OpDef
from tests.record_data import EDGES, edges, exactly, normal, separate, ties, uniform
from tests.records import Maker, Operand, OpRecord, over_all_dtypes

_FLOATS = tuple(d for d in DType if d.is_float and not d.is_storage)
_FOLDS: dict[OpDef, Maker] = {
    ops.reduce_sum: normal,
    ops.reduce_mean: normal,
    ops.reduce_max: separate,
    ops.reduce_min: separate,
    ops.reduce_prod: uniform(0.8, 1.2),
}
_EXACT = {ops.reduce_max, ops.reduce_min}
_AXES: dict[str, tuple[tuple[int, ...], tuple[int, ...], bool]] = {
    "last": ((7, 17), (1,), False),
    "last-kept": ((7, 17), (-1,), True),
    "first": ((33, 5), (0,), False),
    "middle": ((3, 4, 5), (1,), False),
    "apart": ((3, 4, 5), (0, 2), False),
    "all": ((3, 4, 5), (0, 1, 2), False),
    "none": ((3, 4), (), False),
    "long": ((2, 131), (1,), False),
    "size-one": ((4, 1), (1,), True),
    "over-empty": ((3, 0), (1,), False),
    "of-empty": ((0, 3), (1,), False),
}
_RUNNING_EXACT = {ops.cummax, ops.cummin}
_SUM_GROWTH = 16.0  # sums of up to 131 terms, in any order


def _folds(op: OpDef, make: Maker) -> list[OpRecord]:
    growth = 0.0 if op in _EXACT else _SUM_GROWTH
    found = [
        over_all_dtypes(
            op, name, Operand(shape, make), smooth=True, growth=growth, axes=axes,
            keepdims=keepdims,
        )
        for name, (shape, axes, keepdims) in _AXES.items()
    ]  # fmt: skip
    found.append(over_all_dtypes(op, "edges", Operand((EDGES, 1), edges), growth=growth, axes=(1,)))
    return [*found, over_all_dtypes(op, "ties", Operand((5, 9), ties), growth=growth, axes=(1,))]


_NAN, _INF = float("nan"), float("inf")
_WITH_NAN = [[1.0, _NAN, 3.0], [_NAN, _INF, -_INF], [-_INF, -_INF, -_INF], [_INF, 0.0, -0.0]]


def _with_nan(op: OpDef, **attributes: Any) -> OpRecord:
    operand = Operand((4, 3), exactly(_WITH_NAN))
    return OpRecord(op, "nan", (operand,), attributes, _FLOATS, growth=_SUM_GROWTH)


_SEARCHES = [
    over_all_dtypes(op, name, Operand(shape, make), growth=0.0, axis=axis, keepdims=keepdims)
    for op in (ops.argmax, ops.argmin)
    for name, shape, make, axis, keepdims in [
        ("last", (7, 17), separate, -1, False),
        ("first", (33, 3), separate, 0, True),
        ("ties", (6, 9), ties, 1, False),
        ("middle", (2, 5, 3), ties, 1, False),
        ("empty-batch", (0, 3), normal, 1, False),
    ]
]

_RUNNING = [
    over_all_dtypes(
        ops.cumsum, f"{name}{'-exclusive' * exclusive}{'-reverse' * reverse}",
        Operand(shape, normal), smooth=True, growth=_SUM_GROWTH, axis=axis, exclusive=exclusive,
        reverse=reverse,
    )
    for name, shape, axis in [
        ("last", (3, 17), -1), ("first", (9, 2), 0), ("middle", (2, 4, 3), 1), ("empty", (2, 0), 1)
    ]
    for exclusive in (False, True)
    for reverse in (False, True)
]  # fmt: skip

_RUNNING_FOLDS = [
    over_all_dtypes(
        op, f"{name}{'-reverse' * reverse}", Operand(shape, make), smooth=shape != (2, 0),
        growth=0.0 if op in _RUNNING_EXACT else _SUM_GROWTH, axis=axis, reverse=reverse,
    )
    for op, make in {
        ops.cumprod: uniform(0.8, 1.2), ops.cummax: separate, ops.cummin: separate
    }.items()
    for name, shape, axis in [
        ("last", (3, 17), -1), ("first", (9, 2), 0), ("middle", (2, 4, 3), 1), ("empty", (2, 0), 1)
    ]
    for reverse in (False, True)
]  # fmt: skip

_SOFTMAXES = [
    over_all_dtypes(op, name, Operand(shape, make), smooth=smooth, growth=4.0, axis=axis)
    for op in (ops.softmax, ops.log_softmax)
    for name, shape, make, axis, smooth in [
        ("last", (7, 17), normal, -1, True),
        ("long", (3, 131), normal, 1, True),
        ("first", (5, 3), normal, 0, True),
        ("middle", (2, 5, 3), normal, 1, True),
        ("size-one", (4, 1), normal, 1, True),
        ("empty-batch", (0, 3), normal, 1, False),
        ("large", (3, 7), uniform(-90.0, 90.0), 1, False),
    ]
]

_LOGSUMEXPS = [
    over_all_dtypes(
        ops.logsumexp, name, Operand(shape, make), smooth=smooth, growth=4.0, axes=axes,
        keepdims=keepdims,
    )
    for name, shape, make, axes, keepdims, smooth in [
        ("last", (7, 17), normal, (1,), False, True),
        ("kept", (3, 4, 5), normal, (0, 2), True, True),
        ("large", (3, 7), uniform(-90.0, 90.0), (1,), False, False),
        ("over-empty", (3, 0), normal, (1,), False, False),
    ]
]  # fmt: skip

_ALONG_ONE_AXIS = (ops.argmax, ops.argmin, ops.softmax, ops.log_softmax, ops.cumsum)

RECORDS: list[OpRecord] = [
    *(record for op, make in _FOLDS.items() for record in _folds(op, make)),
    *(_with_nan(op, axes=(1,)) for op in (*_FOLDS, ops.logsumexp)),
    *(_with_nan(op, axis=1) for op in _ALONG_ONE_AXIS),
    *_SEARCHES,
    *_RUNNING,
    *_RUNNING_FOLDS,
    *(_with_nan(op, axis=1) for op in (ops.cumprod, ops.cummax, ops.cummin)),
    *_SOFTMAXES,
    *_LOGSUMEXPS,
]
