"""Weights in blocks of a few bytes: decoding them, and products with them as they are.

Rows of weights are rows of whole blocks, `u8[..., rows, bytes]`, as a GGUF file stores a linear
layer: `scheme` names the block type (`rlx.ir.block_types`).
"""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.block_type import block_type
from rlx.ir.declaration import op
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.layout import Panels
from rlx.ir.lowering import Schedule, lowered_by
from rlx.ir.op import Trait
from rlx.ir.ops.linalg import matmul, swapped
from rlx.ir.ops.requirements import require_dtype, require_rank
from rlx.ir.types import TensorType

__all__ = ["dequant_matmul", "dequantize_blocks"]

_FAMILY = "packed"


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.EXPANDS)
def dequantize_blocks(
    blocks: TensorType, codebook: TensorType | None = None, *, scheme: str
) -> TensorType:
    """Decode rows of blocks, `u8[..., bytes]`, to `f32[..., elements]`.

    `codebook` is what a pass gives kernels of IQ types; the scheme alone says what it holds.
    """
    require_dtype(blocks, "u8", "blocks")
    require_rank(blocks, 1, "blocks")
    columns = _columns(blocks, scheme)
    return TensorType(DType.F32, (*blocks.shape[:-1], columns))


def _decoded_product(
    x: Value, blocks: Value, codebook: Value | None = None, *, scheme: str,
    transposed: bool = False,
) -> Value:  # fmt: skip
    """Decode, then multiply."""
    rows = swapped(blocks) if transposed else blocks
    return matmul(x, swapped(dequantize_blocks(rows, scheme=scheme)))


@op(_FAMILY, Trait.CONTRACTION, Trait.EPILOGUE, Trait.STORES_ONCE, decompose=_decoded_product)
def dequant_matmul(
    x: TensorType,
    blocks: TensorType,
    codebook: TensorType | None = None,
    *,
    scheme: str,
    transposed: bool = False,
) -> TensorType:
    """`x @ W^T` for x `f32[..., M, K]` and W in blocks, `u8[N, bytes]`: `f32[..., M, N]`.

    W may have the leading axes of `x`. It is given as `[bytes, N]` if `transposed`. The decoded
    weights are f32, and exist only a few at a time.
    """
    require_dtype(x, "f32", "x")
    require_dtype(blocks, "u8", "blocks")
    require_rank(x, 2, "x")
    require_rank(blocks, 2, "blocks")
    rows = swapped_blocks(blocks) if transposed else blocks
    columns = _columns(rows, scheme)
    if columns != x.shape[-1]:
        raise ShapeError(
            f"x has shape {x.describe_shape()} and rows of blocks hold {columns} elements; the "
            f"last extent of x, {x.shape[-1]}, must equal them",
            remedy="pass the weights of this layer, with their own scheme",
        )
    if blocks.rank > 2 and blocks.shape[:-2] != x.shape[:-2]:
        raise ShapeError(
            f"blocks has shape {blocks.describe_shape()} and x {x.describe_shape()}; leading axes "
            "of blocks must be those of x",
            remedy="drop them, or give x the same",
        )
    return x.with_shape((*x.shape[:-1], rows.shape[-2]))


def swapped_blocks(blocks: TensorType) -> TensorType:
    """Return the type with its last two axes exchanged."""
    shape = blocks.shape
    return blocks.plain.with_shape((*shape[:-2], shape[-1], shape[-2]))


def _columns(blocks: TensorType, scheme: str) -> int:
    """Return the elements of a row of blocks."""
    kind, size = block_type(scheme), blocks.shape[-1]
    if not isinstance(size, int) or size % kind.size:
        raise ShapeError(
            f"blocks has shape {blocks.describe_shape()}; a row of {scheme} is whole blocks of "
            f"{kind.size} bytes",
            remedy="pass a tensor's rows as stored in the file, with their own scheme",
        )
    return size // kind.size * kind.elements


def require_panels(lanes: int, blocks: TensorType, *, transposed: bool) -> None:
    """Raise a ShapeError for blocks that are not packed in panels of as many rows as lanes."""
    fits = transposed and blocks.rank == 2 and blocks.layout == Panels(lanes)
    if not fits or not isinstance(blocks.shape[-1], int):
        raise ShapeError(
            f"blocks of type {blocks} are not the transpose of rows in panels of {lanes}",
            remedy="leave the choice to the passes",
        )


def require_block_schedule(schedule: Schedule, scheme: str) -> None:
    """Raise a ShapeError unless blocks are read once, for few rows, or decoded for tiles."""
    schedule.require_tile()
    elements = block_type(scheme).elements
    streams = schedule.columns == schedule.lanes and schedule.left == "in_place"
    decodes = schedule.depth % elements == 0 and schedule.left != "registers"
    if not (decodes if schedule.depth else streams):
        raise ShapeError(
            f"blocks of {elements} elements are read for a vector of columns, or decoded some at a "
            f"time, for rows that are not in registers; not by {schedule}",
            remedy="leave the choice to the passes",
        )


@lowered_by(dequant_matmul, Schedule, layouts=(1,))
def _by_schedule(
    schedule: Schedule,
    x: TensorType,
    blocks: TensorType,
    codebook: TensorType | None = None,
    *,
    scheme: str,
    transposed: bool,
) -> None:
    """Each block is read once, for few rows of `x`; or some are decoded, for tiles of many."""
    del x, codebook
    require_block_schedule(schedule, scheme)
    require_panels(schedule.lanes, blocks, transposed=transposed)
