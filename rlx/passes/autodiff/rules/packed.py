"""Derivatives of products with packed weights: linear in what meets them."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.ir.ops.linalg import swapped
from rlx.passes.autodiff.registry import Derivatives, Pullback, linear, zero

zero(ops.dequantize_blocks, because="codes are integers")


def dequant_matmul_transpose(
    at: Pullback,
    x: Value,
    blocks: Value,
    codebook: Value | None = None,
    *,
    scheme: str,
    transposed: bool,
) -> Derivatives:
    del x
    rows = swapped(blocks) if transposed else blocks
    rest = () if codebook is None else (None,)
    return ops.matmul(at.cotangent, ops.dequantize_blocks(rows, scheme=scheme)), None, *rest


linear(ops.dequant_matmul, dequant_matmul_transpose, fixed=(1, 2))
