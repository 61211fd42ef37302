"""Weights in blocks, decoded with NumPy."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.block_decoding import decode_blocks
from rlx.ir.block_type import block_type
from rlx.ir.reference.registry import Array, reference


@reference(ops.dequantize_blocks)
def dequantize_blocks(blocks: Array, codebook: Array | None = None, *, scheme: str) -> Array:
    return decode_blocks(blocks, block_type(scheme))
