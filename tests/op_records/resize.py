"""Uses of resizing, of blocks of space as channels, and of rotary embedding over images."""

from __future__ import annotations

from typing import Any

from rlx.ir import ops
from rlx.ir.dtype import DType
from tests.record_data import indices, normal
from tests.records import Operand, OpRecord, over_all_dtypes

_TWO = (DType.F32, DType.F64)
_CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "nearest": ((1, 2, 3, 4), {"size": (5, 8)}),
    "linear": ((1, 2, 3, 4), {"size": (5, 7), "mode": "linear"}),
    "cubic": ((2, 5, 4), {"size": (7, 3), "mode": "cubic"}),
    "linear-twice": ((1, 2, 3, 4), {"size": (6, 12), "mode": "linear"}),
    "linear-corners": (
        (2, 4), {"size": (7,), "mode": "linear", "coordinates": "align_corners"}
    ),
    "channels-last": ((1, 3, 4, 2), {"size": (6, 5), "mode": "linear", "inner": 1}),
    "crop": (
        (2, 6),
        {"size": (4,), "mode": "linear", "coordinates": "tf_crop_and_resize",
         "region": ((-0.2, 0.7),), "extrapolation": 3.0},
    ),
    "antialias": ((2, 9), {"size": (4,), "mode": "linear", "antialias": True}),
    "empty-batch": ((0, 2, 3), {"size": (4,), "mode": "linear"}),
}  # fmt: skip
_RESIZES = [
    OpRecord(
        ops.resize, name, (Operand(shape, normal),), attributes, _TWO, smooth=0 not in shape,
        growth=16.0,
    )
    for name, (shape, attributes) in _CASES.items()
]  # fmt: skip
_LOW = OpRecord(
    ops.resize, "low-precision", (Operand((2, 4), normal),), {"size": (7,), "mode": "linear"},
    (DType.F16, DType.BF16), growth=4.0,
)  # fmt: skip
_BLOCKS = [
    over_all_dtypes(
        op, order, Operand(shape, normal), smooth=True, growth=0.0, block=2, order=order
    )
    for op, shape in [(ops.depth_to_space, (2, 8, 2, 3)), (ops.space_to_depth, (2, 2, 4, 6))]
    for order in ("dcr", "crd")
]
_DOUBLED = over_all_dtypes(
    ops.resize_nearest_2x, "image", Operand((2, 3, 2, 3), normal), smooth=True, growth=0.0
)
_AXIAL = OpRecord(
    ops.axial_rope2d, "grid", (Operand((2, 12, 16), normal),),
    {"end_x": 3, "end_y": 2, "head_dim": 8, "num_heads": 2, "repeat_factor": 2}, _TWO,
    smooth=True, growth=4.0,
)  # fmt: skip

_SAMPLES = [
    over_all_dtypes(
        ops.resample, f"{name}-{dtype}", Operand(shape, normal),
        Operand((taps, size), indices(shape[axis]), dtype), Operand((taps, size), normal),
        smooth=0 not in shape, growth=16.0, axis=axis,
    )
    for name, shape, axis, taps, size in [
        ("rows-side-by-side", (2, 4, 5), -1, 2, 7),
        ("one-row", (5,), 0, 3, 4),
        ("columns", (3, 4, 6), 1, 2, 9),
        ("no-rows", (0, 3), 1, 1, 2),
        ("nothing-of-nothing", (2, 0), 1, 2, 0),
    ]
    for dtype in (DType.I32, DType.F32)
]  # fmt: skip

RECORDS: list[OpRecord] = [*_RESIZES, *_SAMPLES, _LOW, *_BLOCKS, _DOUBLED, _AXIAL]
