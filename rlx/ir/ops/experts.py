"""Grouped matrix products (mixtures of experts): each row has the matrix of its expert."""

from __future__ import annotations

import math

import numpy as np

from rlx.errors import ShapeError
from rlx.ir.block_type import block_type
from rlx.ir.composite import composite
from rlx.ir.declaration import op
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.lowering import Schedule, lowered_by
from rlx.ir.op import Trait
from rlx.ir.ops.elementwise import cast, eq, gt, where
from rlx.ir.ops.indexing import argsort, gather, topk
from rlx.ir.ops.linalg import matmul, swapped
from rlx.ir.ops.packed import dequant_matmul, dequantize_blocks, require_block_schedule
from rlx.ir.ops.ragged import ragged_matmul, sorted_by_group
from rlx.ir.ops.reduction import reduce_max, reduce_sum
from rlx.ir.ops.requirements import require_dtype, require_rank, require_shape
from rlx.ir.ops.shape import narrow, reshape
from rlx.ir.shape import Extent, upper
from rlx.ir.types import TensorType

__all__ = [
    "dequant_moe_weights",
    "group_limited_gate",
    "grouped_dequant_matmul",
    "grouped_matmul",
]

_FAMILY = "packed"


@composite(_FAMILY, Trait.ALL_ELEMENTS, Trait.MAY_FAULT)
def grouped_matmul(x: Value, weights: Value, experts: Value) -> Value:
    """`x[i] @ weights[experts[i]]` for x `[M, K]`, weights `[E, K, N]` and experts `[M]`.

    Few rows read the matrices of their experts in place. Many are sorted by expert: each matrix
    then multiplies its rows at once. (By the formula, matrices of few rows are gathered.)
    """
    require_dtype(x.type, "float", "x")
    require_shape(weights.type, (*weights.shape[:1], *x.shape[1:], *weights.shape[2:]), "weights")
    require_shape(experts.type, x.shape[:1], "experts")
    count = weights.shape[0]
    if isinstance(count, int) and has_many_rows(x.shape[0], count):
        order, bounds = sorted_by_group(experts, count)
        products = ragged_matmul(gather(x, order, axis=0), weights, bounds)
        return gather(products, argsort(order), axis=0)
    rows = reshape(x, shape=(x.shape[0], 1, *x.shape[1:]))
    products = matmul(rows, gather(weights, experts, axis=0))
    return reshape(products, shape=(x.shape[0], weights.shape[2]))


def has_many_rows(rows: Extent, experts: Extent) -> bool:
    """True if an expert multiplies so many rows that sorting them pays."""
    if not isinstance(rows, int) or not isinstance(experts, int):
        return False
    return rows >= max(_FEW_ROWS, 2 * experts)


_FEW_ROWS = 16
"""Rows that are not sorted."""


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def dequant_moe_weights(blocks: Value, *, scheme: str) -> Value:
    """Decode a stack of matrices in blocks, u8 `[E, N, bytes]`, to f32 `[E, K, N]`."""
    require_rank(blocks.type, 3, "blocks")
    result: Value = swapped(dequantize_blocks(blocks, scheme=scheme))
    return result


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def group_limited_gate(
    scores: Value,
    routing: Value,
    *,
    n_group: int = 8,
    topk_group: int = 4,
    top_k: int = 8,
    routed_scaling: float = 2.5,
) -> tuple[Value, Value]:
    """Choose experts of the best groups (DeepSeek-V3): numbers i64 and shares, `[rows, top_k]`.

    `routing` `[rows, E]` decides: a group of neighbors is as good as its best two experts together,
    and only experts of the best `topk_group` groups are chosen from. Shares are their `scores`, and
    for more than one expert sum to `routed_scaling`.
    """
    require_shape(scores.type, routing.shape, "scores")
    rows, count = _require_groups(routing, n_group)
    if top_k > topk_group * (count // n_group):
        raise ShapeError(
            f"{top_k} experts of each row; {topk_group} groups have {count // n_group} each",
            remedy="choose from more groups, or fewer experts",
        )
    groups = reshape(routing, shape=(rows, n_group, count // n_group))
    best, _ = topk(groups, k=min(2, count // n_group))
    _, kept = topk(reduce_sum(best, axes=(-1,)), k=topk_group)
    allowed = reshape(_is_among(kept, n_group), shape=(rows, n_group, 1))
    _, chosen = topk(reshape(where(allowed, groups, -math.inf), shape=(rows, count)), k=top_k)
    each = reshape(scores, shape=(rows, 1, count))
    shares = reduce_sum(where(_is_number(chosen, count), each, 0.0), axes=(-1,))
    if top_k > 1:
        total = reduce_sum(shares, axes=(-1,), keepdims=True)
        shares = shares * (routed_scaling / (total + _LEAST_TOTAL))
    else:
        shares = shares * routed_scaling
    return chosen, shares


_LEAST_TOTAL = 1e-20
"""Added to the sum of shares, so that experts without any have none."""


def _require_groups(routing: Value, n_group: int) -> tuple[Extent, int]:
    """Return rows and experts; a ShapeError where experts do not form equal groups."""
    require_rank(routing.type, 2, "routing")
    rows, count = routing.shape
    if not isinstance(count, int) or n_group < 1 or count % n_group:
        raise ShapeError(
            f"{count} experts do not form {n_group} equal groups",
            remedy="choose an n_group that divides their number",
        )
    return rows, count


def _is_number(numbers: Value, count: int) -> Value:
    """Return of every number which of `count` it is, on a new last axis."""
    known = numbers.graph.constant(np.arange(count, dtype=np.int64))
    return eq(reshape(numbers, shape=(*numbers.shape, 1)), known)


def _is_among(numbers: Value, count: int) -> Value:
    """Return of each of `count` whether it is among the numbers of a row."""
    found = reduce_max(cast(_is_number(numbers, count), to=DType.F32), axes=(-2,))
    return gt(found, 0.5)


def _gathered_product(
    x: Value, blocks: Value, experts: Value, codebook: Value | None = None, *, scheme: str,
    transposed: bool = False, count: int = 0,
) -> Value:  # fmt: skip
    """Gather the blocks of each row's expert, then multiply."""
    if transposed:
        size, columns = blocks.shape
        assert isinstance(columns, int)
        blocks = reshape(swapped(blocks), shape=(count, columns // count, size))
    if codebook is None and has_many_rows(x.shape[0], blocks.shape[0]):
        return _sorted_product(x, blocks, experts, scheme)
    rows = reshape(x, shape=(x.shape[0], 1, *x.shape[1:]))
    chosen = gather(blocks, experts, axis=0)
    products = dequant_matmul(rows, chosen, codebook, scheme=scheme)
    return reshape(products, shape=(x.shape[0], blocks.shape[1]))


def _sorted_product(x: Value, blocks: Value, experts: Value, scheme: str) -> Value:
    """Sort rows by expert, and decode the matrices of some experts at a time."""
    count, columns, size = blocks.shape
    assert isinstance(count, int)
    decoded = 4 * upper(columns) * block_type(scheme).elements_of(upper(size))
    order, bounds = sorted_by_group(experts, count)
    rows = gather(x, order, axis=0)
    each = max(1, _DECODED_BYTES // max(1, decoded))
    total = None
    for first in range(0, count, each):
        some = min(each, count - first)
        weights = swapped(
            dequantize_blocks(narrow(blocks, axis=0, start=first, length=some), scheme=scheme)
        )
        own = narrow(bounds, axis=0, start=first, length=some + 1)
        part = ragged_matmul(rows, weights, own)
        total = part if total is None else total + part
    return gather(total, argsort(order), axis=0)


_DECODED_BYTES = 8 << 20
"""Decoded weights of experts that exist at a time."""


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.MAY_FAULT, decompose=_gathered_product)
def grouped_dequant_matmul(
    x: TensorType,
    blocks: TensorType,
    experts: TensorType,
    codebook: TensorType | None = None,
    *,
    scheme: str,
    transposed: bool = False,
    count: int = 0,
) -> TensorType:
    """`x[i] @ W[experts[i]]^T` for x f32 `[M, K]` and W in blocks, u8 `[E, N, bytes]`: `[M, N]`.

    An expert outside [0, E) is an `IndexOutOfRangeError`. `transposed` blocks are `[bytes, E * N]`
    of `count` experts.
    """
    require_dtype(x, "f32", "x")
    require_dtype(blocks, "u8", "blocks")
    require_dtype(experts, "int", "experts")
    require_rank(x, 2, "x")
    require_shape(experts, x.shape[:1], "experts")
    if x.rank != 2 or blocks.rank != (2 if transposed else 3):
        raise ShapeError(
            f"x has shape {x.describe_shape()} and blocks {blocks.describe_shape()}; they are "
            "[M, K] and [E, N, bytes]",
            remedy="reshape leading axes into rows",
        )
    size, rows = (blocks.shape[0], blocks.shape[1]) if transposed else blocks.shape[:0:-1]
    kind = block_type(scheme)
    if not isinstance(size, int) or size % kind.size or kind.elements_of(size) != x.shape[1]:
        raise ShapeError(
            f"blocks has shape {blocks.describe_shape()}; a row of {x.shape[1]} elements is whole "
            f"blocks of {kind.elements} elements in {kind.size} bytes",
            remedy="pass the weights of this layer, with their own scheme",
        )
    if not transposed:
        return x.with_shape((x.shape[0], rows))
    if not isinstance(rows, int) or count < 1 or rows % count:
        raise ShapeError(
            f"{rows} rows of blocks are not divisible by {count} experts",
            remedy="stack the matrices of all experts, which have equally many rows",
        )
    return x.with_shape((x.shape[0], rows // count))


@lowered_by(grouped_dequant_matmul, Schedule, layouts=(1,))
def _by_schedule(
    schedule: Schedule,
    x: TensorType,
    blocks: TensorType,
    experts: TensorType,
    codebook: TensorType | None = None,
    *,
    scheme: str,
    transposed: bool,
    count: int,
) -> None:
    """Each row reads the blocks of its expert; or rows of one expert share decoded ones."""
    del x, experts, codebook
    require_block_schedule(schedule, scheme)
    _require_whole_panels(schedule.lanes, blocks, count, transposed=transposed)


def _require_whole_panels(lanes: int, blocks: TensorType, count: int, *, transposed: bool) -> None:
    """Raise a ShapeError if an expert's rows do not fill panels of as many rows as lanes."""
    rows = blocks.shape[-1]
    if not transposed or not isinstance(rows, int) or rows % (count * lanes):
        raise ShapeError(
            f"{rows} rows of blocks of {count} experts are no whole panels",
            remedy="leave the choice to the passes",
        )
