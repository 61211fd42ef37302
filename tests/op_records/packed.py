"""Uses of weights in blocks."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.block_types import BLOCK_TYPES
from rlx.ir.dtype import DType
from tests.record_data import Array, Generator, normal
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


RECORDS: list[OpRecord] = [
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
