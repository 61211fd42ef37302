"""Packed weights: shared by all examples, they multiply their rows as one product."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.passes.vmap.batching import Batching
from rlx.passes.vmap.registry import BY_FORMULA, Batched, batch, leading

leading(ops.dequantize_blocks, ops.bytes_as_words)


@batch(ops.dequant_matmul)
def dequant_matmul_batch(
    at: Batching,
    x: Value,
    blocks: Value,
    codebook: Value | None = None,
    *,
    scheme: str,
    transposed: bool,
) -> Batched:
    """Weights of each example's own are leading axes, if `x` has them too."""
    if at.batched == (True, False) and at.operands[1].rank == 2:
        return ops.dequant_matmul(x, blocks, scheme=scheme, transposed=transposed)
    if at.batched == (True, True) and at.operands[0].rank == at.operands[1].rank:
        return ops.dequant_matmul(x, blocks, scheme=scheme, transposed=transposed)
    return BY_FORMULA
