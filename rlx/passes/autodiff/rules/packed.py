"""Derivatives of products with packed weights: linear in the other operand."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.block_type import block_type
from rlx.ir.graph import Value
from rlx.ir.ops.linalg import swapped
from rlx.ir.shape import upper
from rlx.passes.autodiff.registry import (
    Derivatives,
    Pullback,
    Pushforward,
    jvp,
    linear,
    zero,
)

_DECODED_BYTES = 8 << 20
"""Decoded weights that the derivative of a product stores at a time."""

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
    return _times_decoded(at.cotangent, rows, scheme), None, *rest


def _times_decoded(y: Value, rows: Value, scheme: str) -> Value:
    """Return the product of `y` and decoded rows, of which some megabytes exist at a time."""
    count = rows.shape[-2]
    each = max(1, _DECODED_BYTES // (4 * block_type(scheme).elements_of(upper(rows.shape[-1]))))
    if not isinstance(count, int) or count <= each:
        return ops.matmul(y, ops.dequantize_blocks(rows, scheme=scheme))
    total = None
    for first in range(0, count, each):
        length = min(each, count - first)
        some = ops.narrow(rows, axis=-2, start=first, length=length)
        decoded = ops.dequantize_blocks(some, scheme=scheme)
        part = ops.matmul(ops.narrow(y, axis=-1, start=first, length=length), decoded)
        total = part if total is None else total + part
    assert total is not None
    return total


linear(ops.dequant_matmul, dequant_matmul_transpose, fixed=(1, 2))


@jvp(ops.int8_dequant_matmul)
def int8_dequant_matmul_jvp(
    at: Pushforward, x: Value, blocks: Value, *, scheme: str
) -> Derivatives:
    del x
    return ops.dequant_matmul(at.tangent, blocks, scheme=scheme)


@jvp(ops.int8_scaled_dequant_matmul)
def int8_scaled_dequant_matmul_jvp(
    at: Pushforward, x: Value, *weights: Value, scheme: str
) -> Derivatives:
    del x
    return ops.scaled_dequant_matmul(at.tangent, *weights, scheme=scheme)
