"""Products of packed weights with activations of eight bits.

Rows of `x` are cut into blocks of 32, each with a scale: `x ~ scale * code`, codes in -127..127.
Codes are multiplied as integers, and sums of their products scaled once per block. How far that is
from the product with `x` itself is what the rounding costs: half a code, 1/254 of the largest
element of a block.
"""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.block_type import ROUNDED, integer_blocks
from rlx.ir.composite import composite
from rlx.ir.declaration import op
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.lowering import Schedule, lowered_by
from rlx.ir.op import Trait
from rlx.ir.ops.elementwise import (
    abs,
    bitcast,
    bitwise_and,
    bitwise_or,
    cast,
    gt,
    round,
    shift_left,
    shift_right,
    where,
)
from rlx.ir.ops.linalg import swapped
from rlx.ir.ops.packed import dequant_matmul, require_block_schedule, require_panels
from rlx.ir.ops.reduction import reduce_max, reduce_sum
from rlx.ir.ops.requirements import require_dtype, require_rank
from rlx.ir.ops.shape import concat, narrow, pad, reshape
from rlx.ir.shape import Shape
from rlx.ir.types import TensorType

__all__ = ["dequant_matmul_words", "int8_dequant_matmul", "quantize_rows"]

_FAMILY = "packed"
SUMMED = 16
"""Elements of `x` whose sum is kept, for what all codes of some weights have in common."""
BYTES = 4
"""Codes of a word."""
LARGEST = 127.0
LEAST = 2.0**-100
"""Blocks of smaller elements count as zero: their scale has no reciprocal."""


def _rounded(x: Value) -> tuple[Value, Value, Value, Value]:
    """Round, then pack four codes to a word."""
    parts = reshape(x, shape=_cut(x.shape, ROUNDED))
    largest = reduce_max(abs(parts), axes=(-1,), keepdims=True)
    known = gt(largest, LEAST)
    inverse = where(known, LARGEST / where(known, largest, 1.0), 0.0)
    codes = cast(round(parts * inverse), to=DType.I32)
    scales = largest * (1.0 / LARGEST)
    by_word = reshape(codes, shape=_cut(x.shape, BYTES))
    placed = [
        shift_left(bitwise_and(narrow(by_word, axis=-1, start=i, length=1), 255), 8 * i)
        for i in range(BYTES)
    ]
    words = bitwise_or(bitwise_or(placed[0], placed[1]), bitwise_or(placed[2], placed[3]))
    scales = reshape(scales, shape=scales.shape[:-1])
    sums = reduce_sum(reshape(codes, shape=_cut(x.shape, SUMMED)), axes=(-1,))
    values = cast(reduce_sum(codes, axes=(-1,)), to=DType.F32) * scales
    return reshape(words, shape=words.shape[:-1]), scales, sums, values


def _cut(shape: Shape, size: int) -> Shape:
    """Return a shape whose last axis is cut into pieces."""
    extent = shape[-1]
    assert isinstance(extent, int)
    return (*shape[:-1], extent // size, size)


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.LOWERED, decompose=_rounded)
def quantize_rows(x: TensorType) -> tuple[TensorType, TensorType, TensorType, TensorType]:
    """Round rows of `x` to eight bits in blocks of 32: words of four codes, scales, sums, values.

    Sums are those of 16 codes, values those of a block times its scale. An infinity or NaN makes
    its block's scale one.
    """
    require_dtype(x, "f32", "x")
    require_rank(x, 2, "x")
    extent = x.shape[-1]
    if not isinstance(extent, int) or extent % ROUNDED:
        raise ShapeError(
            f"x has shape {x.describe_shape()}; rows are rounded in blocks of {ROUNDED} elements",
            remedy=f"pad the last axis to a multiple of {ROUNDED}",
        )
    *outer, _ = x.shape
    return (
        TensorType(DType.I32, (*outer, extent // BYTES)),
        TensorType(DType.F32, (*outer, extent // ROUNDED)),
        TensorType(DType.I32, (*outer, extent // SUMMED)),
        TensorType(DType.F32, (*outer, extent // ROUNDED)),
    )


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def int8_dequant_matmul(x: Value, blocks: Value, *, scheme: str) -> Value:
    """`dequant_matmul` of `x` rounded to eight bits in blocks of 32 elements.

    Integers are multiplied where the target has an instruction for it. The gradient is that of
    `dequant_matmul`: rounding passes it on.
    """
    integer_blocks(scheme)
    result: Value = dequant_matmul_words(*quantize_rows(x), blocks, scheme=scheme)
    return result


def rounded_to_bytes(x: Value) -> Value:
    """Return what rows of eight bits hold of `x`."""
    words, scales, _, _ = quantize_rows(x)
    return _decoded_rows(words, scales)


def _decoded_rows(words: Value, scales: Value) -> Value:
    codes = reshape(cast(_signed_bytes(words), to=DType.F32), shape=_rows_of(words, ROUNDED))
    return reshape(codes * reshape(scales, shape=(*scales.shape, 1)), shape=_rows_of(words))


def _decoded_product(
    words: Value, scales: Value, sums: Value, values: Value, blocks: Value,
    codebook: Value | None = None, *, scheme: str, transposed: bool = False,
) -> Value:  # fmt: skip
    """Decode both, then multiply."""
    del sums, values
    x = _decoded_rows(words, scales)
    rows = block_bytes(swapped(blocks), scheme) if transposed else blocks
    book = () if codebook is None else (codebook,)
    result: Value = dequant_matmul(x, rows, *book, scheme=scheme)
    return result


def _rows_of(words: Value, size: int = 0) -> Shape:
    """Return the shape of the decoded words, cut into pieces if they have a size."""
    extent = words.shape[-1]
    assert isinstance(extent, int)
    shape = (*words.shape[:-1], extent * BYTES)
    return _cut(shape, size) if size else shape


def _signed_bytes(words: Value) -> Value:
    """Return the bytes of words as integers, on a new last axis."""
    wide = reshape(words, shape=(*words.shape, 1))
    parts = [shift_right(shift_left(wide, 24 - 8 * i), 24) for i in range(BYTES)]
    joined: Value = concat(*parts, axis=-1)
    return joined


@op(
    _FAMILY,
    *(Trait.CONTRACTION, Trait.EPILOGUE, Trait.STORES_ONCE, Trait.LOWERED),
    decompose=_decoded_product,
)
def dequant_matmul_words(
    words: TensorType,
    scales: TensorType,
    sums: TensorType,
    values: TensorType,
    blocks: TensorType,
    codebook: TensorType | None = None,
    *,
    scheme: str,
    transposed: bool = False,
) -> TensorType:
    """`int8_dequant_matmul` of what `quantize_rows` gave.

    `transposed` blocks are words of four bytes, `u32[words, N]`, as `block_words` makes them; as
    i32 they ask for products of signed bytes, which give the same sums.
    """
    require_dtype(words, "i32", "words")
    require_dtype(scales, "f32", "scales")
    integer_blocks(scheme)
    extent = words.shape[-1]
    assert isinstance(extent, int)
    x = TensorType(DType.F32, (*words.shape[:-1], extent * BYTES))
    if not transposed:
        result: TensorType = dequant_matmul.infer(x, blocks, scheme=scheme, transposed=False)
        return result
    require_dtype(blocks, "u32 i32", "blocks")
    count = extent * BYTES // integer_blocks(scheme).elements
    if blocks.shape[0] != count * words_of_block(scheme):
        raise ShapeError(
            f"blocks has shape {blocks.describe_shape()}; rows of {x.shape[-1]} elements are "
            f"{count} blocks of {words_of_block(scheme)} words",
            remedy="leave the choice to the passes",
        )
    return x.with_shape((*x.shape[:-1], blocks.shape[1]))


def lead_of_block(scheme: str) -> int:
    """Return the bytes put before a block so that its codes fill whole words."""
    return -integer_blocks(scheme).header % BYTES


def words_of_block(scheme: str) -> int:
    """Return the words of a block: its codes begin with one, and what is missing is zero."""
    return -(-(lead_of_block(scheme) + integer_blocks(scheme).size) // BYTES)


def block_words(blocks: Value, scheme: str) -> Value:
    """Return rows of blocks, `u8[N, bytes]`, as `u32[N, words]`."""
    kind, lead, size = integer_blocks(scheme), lead_of_block(scheme), words_of_block(scheme)
    rows, extent = blocks.shape
    assert isinstance(extent, int)
    count = extent // kind.size
    apart = reshape(blocks, shape=(rows, count, kind.size))
    high = (0, 0, size * BYTES - lead - kind.size)
    padded = pad(apart, low=(0, 0, lead), high=high, value=0)
    wide = cast(reshape(padded, shape=(rows, count * size, BYTES)), to=DType.U32)
    parts = [
        shift_left(narrow(wide, axis=-1, start=i, length=1), 8 * i) if i
        else narrow(wide, axis=-1, start=0, length=1)
        for i in range(BYTES)
    ]  # fmt: skip
    words = bitwise_or(bitwise_or(parts[0], parts[1]), bitwise_or(parts[2], parts[3]))
    result: Value = reshape(words, shape=(rows, count * size))
    return result


def block_bytes(words: Value, scheme: str) -> Value:
    """Return the rows of blocks that `block_words` was given."""
    kind, size = integer_blocks(scheme), words_of_block(scheme)
    rows, extent = words.shape
    assert isinstance(extent, int)
    bytes = bitcast(_signed_bytes(bitcast(words, to=DType.I32)), to=DType.U32)
    narrowed = cast(bitwise_and(bytes, 255), to=DType.U8)
    apart = reshape(narrowed, shape=(rows, extent // size, size * BYTES))
    kept = narrow(apart, axis=-1, start=lead_of_block(scheme), length=kind.size)
    result: Value = reshape(kept, shape=(rows, extent // size * kind.size))
    return result


@lowered_by(dequant_matmul_words, Schedule, layouts=(4,))
def _by_schedule(
    schedule: Schedule,
    words: TensorType,
    scales: TensorType,
    sums: TensorType,
    values: TensorType,
    blocks: TensorType,
    codebook: TensorType | None = None,
    *,
    scheme: str,
    transposed: bool,
) -> None:
    """Words are read once, for few rows; or codes of some blocks are unpacked, for tiles."""
    del words, scales, sums, values, codebook
    require_block_schedule(schedule, scheme)
    require_panels(schedule.lanes, blocks, transposed=transposed)
