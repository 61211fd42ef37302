"""Derivatives of products with packed weights: linear in the other operand."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.ir.ops.linalg import swapped
from rlx.passes.autodiff.registry import (
    Derivatives,
    Pullback,
    Pushforward,
    jvp,
    linear,
    vjp,
    zero,
)

zero(ops.dequantize_blocks, because="codes are integers")
zero(
    ops.quantize_rows,
    ops.dequant_matmul_words,
    because="rounded; int8_dequant_matmul has the derivative",
)


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


@vjp(ops.int8_dequant_matmul)
def int8_dequant_matmul_vjp(at: Pullback, x: Value, blocks: Value, *, scheme: str) -> Derivatives:
    """Rounding passes the cotangent on."""
    del x
    return ops.matmul(at.cotangent, ops.dequantize_blocks(blocks, scheme=scheme)), None


@jvp(ops.int8_dequant_matmul)
def int8_dequant_matmul_jvp(
    at: Pushforward, x: Value, blocks: Value, *, scheme: str
) -> Derivatives:
    del x
    return ops.dequant_matmul(at.tangent, blocks, scheme=scheme)
