"""Products of rows with matrices that are chosen row by row: mixtures of experts."""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.block_types import block_type
from rlx.ir.composite import composite
from rlx.ir.graph import Value
from rlx.ir.lowering import Streamed, lowered_by
from rlx.ir.op import Trait, op
from rlx.ir.ops.indexing import gather
from rlx.ir.ops.linalg import matmul, swapped
from rlx.ir.ops.packed import dequant_matmul, dequantize_blocks
from rlx.ir.ops.requirements import require_dtype, require_rank, require_shape
from rlx.ir.ops.shape import reshape
from rlx.ir.types import TensorType

__all__ = ["dequant_moe_weights", "grouped_dequant_matmul", "grouped_matmul"]

_FAMILY = "packed"


@composite(_FAMILY, Trait.WHOLE)
def grouped_matmul(x: Value, weights: Value, experts: Value) -> Value:
    """`x[i] @ weights[experts[i]]` for x `[M, K]`, weights `[E, K, N]` and experts `[M]`.

    The matrices that rows have chosen are gathered, one for each row.
    """
    require_shape(weights.type, (*weights.shape[:1], *x.shape[1:], *weights.shape[2:]), "weights")
    require_shape(experts.type, x.shape[:1], "experts")
    rows = reshape(x, shape=(x.shape[0], 1, *x.shape[1:]))
    products = matmul(rows, gather(weights, experts, axis=0))
    return reshape(products, shape=(x.shape[0], weights.shape[2]))


@composite(_FAMILY, Trait.WHOLE)
def dequant_moe_weights(blocks: Value, *, scheme: str) -> Value:
    """Decode a stack of matrices in blocks, u8 `[E, N, bytes]`, to f32 `[E, K, N]`."""
    require_rank(blocks.type, 3, "blocks")
    result: Value = swapped(dequantize_blocks(blocks, scheme=scheme))
    return result


def _gathered_product(
    x: Value, blocks: Value, experts: Value, codebook: Value | None = None, *, scheme: str,
    transposed: bool = False, count: int = 0,
) -> Value:  # fmt: skip
    """Gather the blocks of each row's expert, then multiply."""
    if transposed:
        size, columns = blocks.shape
        assert isinstance(columns, int)
        blocks = reshape(swapped(blocks), shape=(count, columns // count, size))
    rows = reshape(x, shape=(x.shape[0], 1, *x.shape[1:]))
    chosen = gather(blocks, experts, axis=0)
    products = dequant_matmul(rows, chosen, codebook, scheme=scheme)
    return reshape(products, shape=(x.shape[0], blocks.shape[1]))


@op(_FAMILY, Trait.WHOLE, Trait.MAY_FAULT, decompose=_gathered_product)
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
            f"{rows} rows of blocks are not those of {count} experts",
            remedy="stack the matrices of all experts, which have equally many rows",
        )
    return x.with_shape((x.shape[0], rows // count))


@lowered_by(grouped_dequant_matmul, Streamed, layouts=(1,))
def _streamed(
    streamed: Streamed,
    x: TensorType,
    blocks: TensorType,
    experts: TensorType,
    codebook: TensorType | None = None,
    *,
    scheme: str,
    transposed: bool,
    count: int,
) -> None:
    """Each row of `x` meets the blocks of its expert as they stream by."""
    del x, experts, codebook, scheme
    rows = blocks.shape[-1]
    if not transposed or not isinstance(rows, int) or rows % (count * streamed.lanes):
        raise ShapeError(
            f"{rows} rows of blocks of {count} experts are no whole panels",
            remedy="leave the choice to the passes",
        )
