"""Packed weights: shared by all examples, they multiply their rows as one product."""

from __future__ import annotations

from typing import Any

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.passes.vmap.batching import Batching, fold, reshape_to
from rlx.passes.vmap.registry import BY_FORMULA, Batched, batch, leading, unrolled

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


unrolled(
    ops.ragged_matmul,
    ops.ragged_outer,
    because="rows of all examples would be of one range of groups, which bounds are not",
)


@batch(ops.grouped_matmul)
def grouped_matmul_batch(at: Batching, *operands: Value) -> Batched:
    """Examples that share the matrices are more rows."""
    if at.batched[1]:
        return BY_FORMULA
    x, _, experts = at.lifted(operands)
    products = ops.grouped_matmul(fold(x), operands[1], fold(experts))
    return reshape_to(products, (at.size, x.shape[1], products.shape[-1]))


@batch(ops.grouped_dequant_matmul)
def grouped_dequant_matmul_batch(
    at: Batching,
    x: Value,
    blocks: Value,
    experts: Value,
    codebook: Value | None = None,
    **attributes: Any,
) -> Batched:
    """Examples that share the matrices are more rows."""
    if at.batched[1] or codebook is not None:
        return BY_FORMULA
    x, _, experts = at.lifted((x, blocks, experts))
    products = ops.grouped_dequant_matmul(fold(x), blocks, fold(experts), **attributes)
    return reshape_to(products, (at.size, x.shape[1], products.shape[-1]))
