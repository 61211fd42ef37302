"""Uses of quantization."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.op import OpDef
from tests.record_data import normal, uniform
from tests.records import Array, Operand, OpRecord

_F32 = (DType.F32,)


def _codes(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Return integers over the range of i8, in i32 four times that."""
    limit = 128 if dtype is DType.I8 else 500
    return rng.integers(-limit, limit, shape).astype(dtype.numpy)


_CASES: list[tuple[str, tuple[int, ...], int | None]] = [
    ("tensor", (37,), None),
    ("first", (3, 17), 0),
    ("middle", (2, 5, 3), 1),
    ("last", (2, 3, 5), -1),
    ("one", (1,), None),
    ("empty", (0, 3), 1),
]


def _count(shape: tuple[int, ...], axis: int | None) -> int:
    return 1 if axis is None else shape[axis]


def _use(
    op: OpDef, name: str, *operands: Operand, growth: float = 0.0, **attributes: Any
) -> OpRecord:
    return OpRecord(op, name, operands, attributes, dtypes=_F32, growth=growth)


_QUANTIZED = [
    _use(op, name, operand, scales=tuple(0.05 + 0.01 * c for c in range(_count(shape, axis))),
         zero_points=tuple(3 - 2 * c for c in range(_count(shape, axis))), axis=axis)
    for name, shape, axis in _CASES
    for op, operand in [
        (ops.quantize, Operand(shape, uniform(-8.0, 8.0))),
        (ops.dequantize, Operand(shape, _codes, DType.I8)),
    ]
]  # fmt: skip

_FAKE = [
    record
    for name, shape, axis in _CASES[:4]
    for bits in (8, 4, 2)
    for scale in [Operand((_count(shape, axis),), uniform(0.01, 0.5))]
    for x, dy in [(Operand(shape, normal), Operand(shape, normal))]
    for record in [
        _use(ops.fake_quantize, f"{name}-{bits}", x, growth=4.0, bits=bits, axis=axis),
        _use(ops.fake_quantize, f"{name}-{bits}-fixed", x, scale, bits=bits, axis=axis),
        _use(ops.fake_quantize_ema, f"{name}-{bits}", x, scale, growth=4.0, decay=0.9, bits=bits,
             axis=axis),
        _use(ops.fake_quantize_lsq, f"{name}-{bits}", x, scale, bits=bits, axis=axis),
        _use(ops.fake_quantize_lsq_backward_x, f"{name}-{bits}", x, scale, dy, bits=bits,
             axis=axis),
        _use(ops.fake_quantize_lsq_backward_scale, f"{name}-{bits}", x, scale, dy, growth=16.0,
             bits=bits, axis=axis),
    ]
]  # fmt: skip

_BACKWARD = [
    _use(ops.fake_quantize_backward, f"{through}-{name}", Operand(shape, normal),
         Operand(shape, normal), growth=8.0, bits=4, axis=axis, straight_through=through)
    for through in ("identity", "clipped_identity", "tanh", "hard_tanh")
    for name, shape, axis in _CASES[:3]
]  # fmt: skip

_PRODUCTS = [
    _use(ops.qmatmul, name, Operand(x, _codes, DType.I8), Operand(w, _codes, DType.I8),
         Operand(w[-1:], _codes, DType.I32), multiplier=multiplier, x_zero_point=3,
         w_zero_point=-2, out_zero_point=5)
    for name, x, w, multiplier in [
        ("rows", (5, 37), (37, 19), (0.004,)),
        ("batched", (2, 3, 8), (8, 4), (0.002, 0.01, 0.05, 0.004)),
        ("one", (1, 1), (1, 1), (0.05,)),
        ("no-terms", (2, 0), (0, 3), (0.05,)),
    ]
]  # fmt: skip

_GEOMETRIES: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("plain", (1, 2, 5, 5), (3, 2, 3, 3), {"padding": ((1, 1), (1, 1))}),
    ("grouped", (2, 4, 7, 6), (4, 2, 3, 3), {"stride": (2, 1), "groups": 2}),
    ("dilated", (1, 2, 9, 8), (3, 2, 2, 3), {"dilation": (2, 2), "padding": ((1, 0), (2, 2))}),
    ("line", (2, 3, 11), (4, 3, 3), {"padding": ((1, 1),)}),
]

_CONVOLUTIONS = [
    _use(ops.qconv, name, Operand(x, _codes, DType.I8), Operand(w, _codes, DType.I8),
         Operand(w[:1], _codes, DType.I32), multiplier=(0.003,), x_zero_point=-4,
         w_zero_point=2, out_zero_point=-7, **geometry)
    for name, x, w, geometry in _GEOMETRIES
]  # fmt: skip

RECORDS: list[OpRecord] = [*_QUANTIZED, *_FAKE, *_BACKWARD, *_PRODUCTS, *_CONVOLUTIONS]
