"""Uses of weights in blocks."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.block_types import BLOCK_TYPES
from rlx.ir.dtype import DType
from tests.record_data import Array, Generator, normal, separate, uniform
from tests.records import Maker, Operand, OpRecord, over_all_dtypes

_SCALE_BYTES = {
    "mxfp4": {0: 121},
    "nvfp4": {0: 20, 1: 30, 2: 7, 3: 25},
}
"""Bytes of scales that are no f16, for weights of about 0.01."""


def packed(scheme: str) -> Maker:
    """Return a maker of random blocks whose scales are about 0.01."""
    kind = BLOCK_TYPES[scheme]

    def make(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
        blocks = rng.integers(0, 256, shape).astype(dtype.numpy).reshape(-1, kind.size)
        for at in kind.halves:
            scales = rng.uniform(0.005, 0.01, (len(blocks), 1)).astype("<f2")
            blocks[:, at : at + 2] = scales.view(np.uint8)
        if scheme == "q8_k":
            blocks[:, :4] = np.full((len(blocks), 1), 0.01, "<f4").view(np.uint8)
        for at, value in _SCALE_BYTES.get(scheme, {}).items():
            blocks[:, at] = value
        return blocks.reshape(shape)

    return make


def _rows(scheme: str, *shape: int) -> Operand:
    """Rows of two blocks."""
    return Operand((*shape, 2 * BLOCK_TYPES[scheme].size), packed(scheme), DType.U8)


def _bytes(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Return codes whose floats, if they are some, are finite and near 1."""
    return rng.integers(40, 72, shape).astype(dtype.numpy)


_CODES = Operand((10, 3), _bytes, DType.I8)
_PAIRS = Operand((15,), _bytes, DType.U8)
_FLOATS = Operand((10, 3), _bytes, DType.U8)


def _nibbles(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    return rng.integers(0, 16, shape).astype(dtype.numpy)


_UINT4 = Operand((10, 3), _nibbles, DType.U8)
_SCALED: dict[str, tuple[Operand, ...]] = {
    "int8/4": (_CODES, Operand((3, 3), uniform(0.01, 0.02))),
    "int8a/4": (
        _CODES, Operand((3, 3), uniform(0.01, 0.02)), Operand((3, 3), uniform(40.0, 72.0))
    ),
    "int4/4": (_PAIRS, Operand((3, 3), uniform(0.1, 0.2))),
    "uint4/4": (_UINT4, Operand((3, 3), uniform(0.1, 0.2))),
    "uint4a/4": (
        _UINT4, Operand((3, 3), uniform(0.1, 0.2)), Operand((3, 3), uniform(0.0, 15.0))
    ),
    "fp8e4m3": (_FLOATS, Operand((3,), uniform(0.5, 1.0))),
    "fp8e5m2": (_FLOATS, Operand((1,), uniform(0.5, 1.0))),
    "nvfp4/16": (
        _PAIRS, Operand((1, 3), _bytes, DType.U8), Operand((1,), uniform(0.5, 1.0))
    ),
}  # fmt: skip


def _experts(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    return rng.integers(0, 3, shape).astype(dtype.numpy)


_CHOSEN = Operand((4,), _experts, DType.I32)


def _bounds(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Return bounds of groups, of which one has no row; the first and last rows are in none."""
    del rng
    assert shape == (4,)
    return np.array([1, 3, 3, 6], dtype.numpy)


_BOUNDS = Operand((4,), _bounds, DType.I32)

RECORDS: list[OpRecord] = [
    over_all_dtypes(ops.ragged_matmul, "groups", Operand((7, 5), normal),
                    Operand((3, 5, 2), normal), _BOUNDS, growth=20.0),
    over_all_dtypes(ops.ragged_outer, "groups", Operand((7, 5), normal), Operand((7, 2), normal),
                    _BOUNDS, growth=20.0),
    OpRecord(ops.grouped_matmul, "many rows",
             (Operand((17, 5), normal), Operand((3, 5, 2), normal),
              Operand((17,), _experts, DType.I32)), {}, (DType.F32,), growth=20.0),
    OpRecord(ops.grouped_matmul, "experts",
             (Operand((4, 5), normal), Operand((3, 5, 2), normal), _CHOSEN), {}, (DType.F32,),
             growth=20.0),
    OpRecord(ops.grouped_dequant_matmul, "experts",
             (Operand((4, 64), normal), _rows("q5_0", 3, 5), _CHOSEN), {"scheme": "q5_0"},
             (DType.F32,), growth=200.0),
    OpRecord(ops.group_limited_gate, "two groups of four",
             (Operand((3, 8), uniform(0.1, 1.0)), Operand((3, 8), separate)),
             {"n_group": 4, "topk_group": 2, "top_k": 3}),
    OpRecord(ops.dequant_moe_weights, "stack", (_rows("q4_0", 3, 5),), {"scheme": "q4_0"},
             (DType.F32,), growth=0.0),
] + [
    OpRecord(ops.decode_weights, scheme.split("/")[0], weights, {"scheme": scheme, "rows": 10},
             (DType.F32,), growth=1.0)
    for scheme, weights in _SCALED.items()
] + [
    OpRecord(ops.scaled_dequant_matmul, scheme.split("/")[0],
             (Operand((2, 10), normal), *weights), {"scheme": scheme}, (DType.F32,), growth=40.0)
    for scheme, weights in _SCALED.items()
] + [
    OpRecord(ops.int8_scaled_dequant_matmul, scheme.split("/")[0],
             (Operand((2, 10), normal), *_SCALED[scheme]), {"scheme": scheme}, (DType.F32,),
             growth=40.0)
    for scheme in ("int8/4", "uint4a/4")
] + [
    OpRecord(
        ops.dequantize_blocks, scheme, (_rows(scheme, 3),), {"scheme": scheme}, (DType.F32,),
        growth=0.0,
    )
    for scheme, kind in BLOCK_TYPES.items()
    if kind.codebook is None  # a pass gives these their codebook: tests/codegen/kernels
] + [
    over_all_dtypes(
        ops.dequant_matmul, scheme, Operand((3, 2 * kind.elements), normal), _rows(scheme, 5),
        scheme=scheme, growth=200.0,
    )
    for scheme, kind in BLOCK_TYPES.items()
    if scheme in ("q4_1", "q8_0", "q6_k")
] + [
    over_all_dtypes(
        ops.dequant_matmul, "experts", Operand((2, 3, 64), normal), _rows("q5_0", 2, 5),
        scheme="q5_0", growth=200.0,
    )
]  # fmt: skip
