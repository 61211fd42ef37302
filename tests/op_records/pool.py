"""Uses of pooling."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.op import OPS
from rlx.ir.ops.pool_geometry import window_axes, windowed_shape
from tests.record_data import EDGES, edges, exactly, normal, separate, ties, uniform
from tests.records import Maker, Operand, OpRecord, over_all_dtypes

_CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "square": ((2, 3, 6, 8), {"kernel_size": (2, 2), "stride": (2, 2)}),
    "overlapping": ((2, 7, 9), {"kernel_size": (3, 3), "stride": (2, 1), "padding": (1, 1)}),
    "uneven-padding": ((1, 5, 6), {"kernel_size": (3, 2), "padding": ((0, 2), (1, 0))}),
    "dilated": ((2, 9, 7), {"kernel_size": (2, 3), "dilation": (3, 2), "padding": (1, 2)}),
    "ceil": (
        (1, 2, 6, 7),
        {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 0), "ceil_mode": True},
    ),
    "channels-last": (
        (2, 5, 6, 3),
        {"kernel_size": (3, 2), "stride": (2, 2), "padding": (1, 1), "inner": 1},
    ),
    "line": ((3, 19), {"kernel_size": (4,), "stride": (3,), "padding": (2,)}),
    "volume": (
        (1, 2, 4, 3, 5),
        {"kernel_size": (2, 3, 2), "stride": (2, 1, 3), "padding": (1, 1, 0)},
    ),
    "beyond-the-window": ((1, 4), {"kernel_size": (2,), "padding": (3,), "stride": (2,)}),
    "stride-beyond": ((2, 11), {"kernel_size": (2,), "stride": (4,)}),
    "long-window": ((2, 40), {"kernel_size": (30,), "stride": (5,), "padding": (4,)}),
    "size-one": ((2, 1, 1), {"kernel_size": (1, 1)}),
    "empty-batch": ((0, 3, 4), {"kernel_size": (2, 2)}),
    "empty-image": ((2, 0, 5), {"kernel_size": (2, 3), "stride": (1, 2), "padding": (1, 0)}),
}  # fmt: skip
_FOLDS: dict[str, tuple[Maker, float]] = {
    "max_pool": (separate, 0.0),
    "min_pool": (separate, 0.0),
    "sum_pool": (normal, 16.0),
    "mean_pool": (normal, 16.0),
    "prod_pool": (uniform(0.8, 1.2), 32.0),
}
_FEW = ("overlapping", "channels-last", "ceil", "empty-batch", "empty-image")
"""Cases for the pools that differ from others in their fold alone."""
_TWO = (DType.F32, DType.F64)
_NAN, _INF = float("nan"), float("inf")
_WITH_NAN = [[1.0, _NAN, 3.0, _NAN], [-_INF, -_INF, -_INF, 2.0], [_INF, 0.0, -0.0, -_INF]]


def _pools() -> list[OpRecord]:
    found = []
    for name, (make, growth) in _FOLDS.items():
        op = OPS[name]
        for case, (shape, attributes) in _CASES.items():
            if op is not ops.max_pool and case not in _FEW:
                continue
            record = over_all_dtypes(
                op, case, Operand(shape, make), smooth=0 not in shape, growth=growth, **attributes
            )
            found.append(record if case == "overlapping" else replace(record, dtypes=_TWO))
        if growth == 0:  # where sums and products overflow or cancel depends on the order
            operand = Operand((EDGES, 3), edges)
            found.append(over_all_dtypes(op, "edges", operand, growth=growth, kernel_size=(2, 2)))
        found.append(_with_nan(op, growth))
    return found


def _with_nan(op: Any, growth: float) -> OpRecord:
    operand = Operand((3, 4), exactly(_WITH_NAN))
    floats = tuple(d for d in DType if d.is_float and not d.is_storage)
    return OpRecord(op, "nan", (operand,), {"kernel_size": (2,)}, floats, growth=growth)


_MEANS = [
    OpRecord(ops.mean_pool, f"{case}-{divisor}", (Operand(shape, normal),),
             {**attributes, "divisor": divisor}, smooth=True, growth=16.0)
    for case in ("overlapping", "ceil", "beyond-the-window", "channels-last")
    for shape, attributes in [_CASES[case]]
    for divisor in ("padded", "inside")
]  # fmt: skip


def _windowed(shape: tuple[int, ...], attributes: dict[str, Any]) -> tuple[int, ...]:
    axes = window_axes(shape, **attributes)
    found = windowed_shape(shape, axes, attributes.get("inner", 0))
    return tuple(extent for extent in found if isinstance(extent, int))


_BY_POSITION = [
    record
    for data, make in (("", separate), ("-ties", ties))
    for case, (shape, attributes) in _CASES.items()
    if not data or case in ("overlapping", "channels-last", "volume")
    for record in (
        OpRecord(
            ops.max_pool_take, f"{case}{data}",
            (Operand(shape, make, DType.F32), Operand(shape, normal)), attributes,
            (DType.F32, DType.F64, DType.I64), growth=0.0,
        ),
        OpRecord(
            ops.max_pool_backward, f"{case}{data}",
            (Operand(shape, make), Operand(_windowed(shape, attributes), normal)), attributes,
            smooth=not data and 0 not in shape, growth=16.0,
        ),
    )
]  # fmt: skip
_NANS = [
    OpRecord(
        ops.max_pool_take, "nan", (Operand((3, 4), exactly(_WITH_NAN)), Operand((3, 4), normal)),
        {"kernel_size": (2,)}, growth=0.0,
    ),
    OpRecord(
        ops.max_pool_backward, "nan",
        (Operand((3, 4), exactly(_WITH_NAN)), Operand((3, 3), normal)), {"kernel_size": (2,)},
    ),
]  # fmt: skip

RECORDS: list[OpRecord] = [*_pools(), *_MEANS, *_BY_POSITION, *_NANS]
