"""Uses of movement ops and `iota`."""

from __future__ import annotations

from typing import Any

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.op import OpDef
from rlx.ir.types import TensorType
from tests.record_data import normal
from tests.records import Operand, OpRecord, over_all_dtypes

_CASES: list[tuple[OpDef, str, list[tuple[int, ...]], dict[str, Any]]] = [
    (ops.reshape, "flatten", [(3, 4, 5)], {"shape": (-1,)}),
    (ops.reshape, "split", [(6, 7)], {"shape": (2, 3, 7)}),
    (ops.reshape, "to-scalar", [(1, 1)], {"shape": ()}),
    (ops.reshape, "empty", [(0, 4)], {"shape": (2, 0)}),
    (ops.transpose, "matrix", [(7, 17)], {"perm": (1, 0)}),
    (ops.transpose, "rotate", [(2, 3, 5)], {"perm": (2, 0, 1)}),
    (ops.transpose, "heads", [(2, 3, 4, 5)], {"perm": (0, 2, 1, 3)}),
    (ops.transpose, "identity", [(3, 4)], {"perm": (0, 1)}),
    (ops.transpose, "scalar", [()], {"perm": ()}),
    (ops.transpose, "empty", [(0, 3)], {"perm": (1, 0)}),
    (ops.expand, "leading", [(5,)], {"shape": (3, 5)}),
    (ops.expand, "inner", [(3, 1, 4)], {"shape": (3, 7, 4)}),
    (ops.expand, "scalar", [()], {"shape": (2, 3)}),
    (ops.expand, "kept", [(1, 4)], {"shape": (2, 3, -1)}),
    (ops.expand, "to-empty", [(1, 4)], {"shape": (0, 4)}),
    (ops.narrow, "first-axis", [(9, 4)], {"axis": 0, "start": 2, "length": 5}),
    (ops.narrow, "last-axis", [(7, 17)], {"axis": -1, "start": 3, "length": 9}),
    (ops.narrow, "middle-axis", [(2, 6, 3)], {"axis": 1, "start": 4, "length": 2}),
    (ops.narrow, "nothing", [(2, 6)], {"axis": 1, "start": 6, "length": 0}),
    (ops.concat, "rows", [(2, 3), (1, 3), (4, 3)], {"axis": 0}),
    (ops.concat, "columns", [(3, 2), (3, 5)], {"axis": -1}),
    (ops.concat, "middle", [(2, 1, 3), (2, 4, 3)], {"axis": 1}),
    (ops.concat, "one", [(3, 2)], {"axis": 0}),
    (ops.concat, "with-empty", [(0, 3), (2, 3)], {"axis": 0}),
    (ops.reverse, "last", [(3, 7)], {"axes": (1,)}),
    (ops.reverse, "all", [(2, 3, 5)], {"axes": (0, 1, -1)}),
    (ops.reverse, "none", [(2, 3)], {"axes": ()}),
    (ops.pad, "both-sides", [(3, 4)], {"low": (1, 0), "high": (2, 3), "value": 1}),
    (ops.pad, "nothing", [(3, 4)], {"low": (0, 0), "high": (0, 0)}),
    (ops.pad, "empty", [(0, 2)], {"low": (1, 1), "high": (1, 0)}),
    (ops.slice, "every-other", [(9,)], {"start": (1,), "stop": (8,), "step": (2,)}),
    (ops.slice, "block", [(7, 17)], {"start": (2, 0), "stop": (7, 17), "step": (3, 5)}),
    (ops.slice, "nothing", [(4, 3)], {"start": (2, 0), "stop": (2, 3), "step": (1, 1)}),
]

_TYPES = (DType.F32, DType.F64, DType.F16, DType.BF16, DType.I8, DType.I32, DType.I64)
_IOTA_SHAPES: dict[str, tuple[tuple[int, ...], int]] = {
    "vector": ((17,), 0),
    "rows": ((4, 3), 0),
    "columns": ((4, 3), -1),
    "empty": ((0,), 0),
}

RECORDS: list[OpRecord] = [
    over_all_dtypes(
        op, name, *(Operand(shape, normal) for shape in shapes), smooth=True, growth=0.0,
        **attributes,
    )
    for op, name, shapes, attributes in _CASES
] + [
    OpRecord(
        ops.iota, f"{name}-{dtype}", (), {"type": TensorType(dtype, shape), "axis": axis},
        dtypes=(dtype,), growth=0.0,
    )
    for name, (shape, axis) in _IOTA_SHAPES.items()
    for dtype in _TYPES
] + [
    OpRecord(ops.extent, f"{value}", (), {"value": value}, dtypes=(DType.I64,), growth=0.0)
    for value in (0, 7)
]  # fmt: skip
