"""Ops of a long radix sort in stages, each divided among threads.

    sort_keys        elements to integers of the same order (a formula)
    radix_counts     of every block of keys: how many have which digit
    radix_starts     where the first key of each block and digit goes (a formula)
    radix_move       of every block: its keys to their places
    sorted_values    keys to elements

Each digit, the lowest first, takes the middle three: one stable pass of a radix sort. Blocks
depend on the length alone, and keys of a block keep their order, so results are the same for any
number of threads. Only passes make these ops, after a graph was differentiated and batched.
"""

from __future__ import annotations

from rlx.ir.declaration import op
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.elementwise import (
    bitcast,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    cast,
    is_nan,
    shift_left,
    shift_right,
    where,
)
from rlx.ir.ops.indexing import gather
from rlx.ir.ops.reduction import cumsum
from rlx.ir.ops.requirements import require_dtype, require_rank
from rlx.ir.ops.shape import reshape, transpose
from rlx.ir.types import TensorType

__all__ = ["radix_counts", "radix_move", "sorted_values"]

_FAMILY = "indexing"
INDEX_BITS = 32
"""Bits of an index below its key."""
_INDEX = (1 << INDEX_BITS) - 1
MOST_BLOCKS = 32
_LEAST_BLOCK = 1 << 14
"""Keys of a block: several for each of the 2048 counters that it has."""
_DIGIT_BITS = 11
"""Counters of so many bits stay in a first-level cache, and so do the lines they point at."""


def key_bits(dtype: DType) -> tuple[int, int]:
    """Return the lowest bit of a key that differs among elements, and how many there are."""
    if dtype is DType.BF16:
        return 16, 16
    if dtype is DType.F16:
        return 13, 19  # an f32 with ten of its 23 bits of fraction
    return 0, 1 if dtype is DType.BOOL else 8 * dtype.size


def even_digits(low: int, width: int, bits: int) -> list[tuple[int, int]]:
    """Return the first bit and the bits of every digit: even shares of at most `bits`."""
    count = -(-width // bits)
    size = -(-width // count)
    return [(start, min(size, low + width - start)) for start in range(low, low + width, size)]


def block_count(length: int) -> int:
    """Return in how many blocks an array of `length` is taken."""
    return max(1, min(MOST_BLOCKS, length // _LEAST_BLOCK))


def sort_keys(x: Value) -> Value:
    """Return integers whose bits (`key_bits`) are ordered, unsigned, as the elements of `x` are.

    They are i32, or i64 for elements of 64 bits. Of floats they are the bits, the negative ones
    complemented, with one key for both zeros, and the largest for NaN.
    """
    wide = x.dtype.size == DType.I64.size
    key_type, width = (DType.I64, 64) if wide else (DType.I32, 32)
    if not x.dtype.is_float:
        same_size = x.dtype in (DType.U32, DType.U64)
        keys = bitcast(x, to=key_type) if same_size else cast(x, to=key_type)
        return bitwise_xor(keys, _sign(8 * x.dtype.size, keys)) if x.dtype.is_signed_int else keys
    number = cast(x, to=DType.F64 if wide else DType.F32) + 0.0
    bits = bitcast(number, to=key_type)
    keys = bitwise_xor(bits, bitwise_or(shift_right(bits, width - 1), _sign(width, bits)))
    return where(is_nan(number), -1, keys)


def _sign(width: int, keys: Value) -> Value:
    """Return the sign bit of integers of so many bits."""
    lowest = -(1 << (width - 1))
    return keys.graph.constant(lowest if width == 8 * keys.dtype.size else -lowest, keys.dtype)


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.LOWERED)
def radix_counts(keys: TensorType, *, start: int, bits: int, blocks: int) -> TensorType:
    """Count the keys of each block by the digit of `bits` bits from `start` on: `[blocks, 2^bits]`.

    Block b is the keys from `b n / blocks` to `(b + 1) n / blocks`.
    """
    require_rank(keys, 1)
    require_dtype(keys, "i32 i64")
    del start
    return TensorType(DType.I32, (blocks, 1 << bits))


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.LOWERED)
def radix_move(keys: TensorType, starts: TensorType, *, start: int, bits: int) -> TensorType:
    """Move the keys of each block, in their order, to where `starts` says that each digit goes."""
    require_dtype(keys, "i32 i64")
    require_dtype(starts, "i32", "starts")
    del start, bits
    return keys


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.LOWERED)
def sorted_values(keys: TensorType, x: TensorType) -> TensorType:
    """Turn sorted keys, without indices, into the elements of `x` that they encode.

    Keys do not distinguish zeros and NaNs, which come in the order of `x`.
    """
    require_dtype(keys, "i32 i64")
    return x.with_shape(keys.shape)


def radix_starts(counts: Value) -> Value:
    """Return where the first of each block and digit goes: after all of lower digits.

    Those of the same digit are in the order of their blocks.
    """
    by_digit = transpose(counts, perm=(1, 0))
    elements = counts.type.elements
    before = cumsum(reshape(by_digit, shape=(elements,)), axis=0, exclusive=True)
    return transpose(reshape(before, shape=by_digit.shape), perm=(1, 0))


def sort_by_digits(x: Value) -> Value:
    """Return `[n]` sorted."""
    keys = _sorted_keys(sort_keys(x), *key_bits(x.dtype))
    values: Value = sorted_values(keys, x)
    return values


def argsort_by_digits(x: Value) -> Value:
    """Return the indices that sort `[n]`."""
    keys = sort_keys(x)
    if keys.dtype is DType.I64:
        return _argsort_by_halves(keys)
    low, width = key_bits(x.dtype)
    upper = shift_left(cast(keys, to=DType.I64), INDEX_BITS)
    records = bitwise_or(upper, keys.graph.iota(type=upper.type))
    return _indices(_sorted_keys(records, low + INDEX_BITS, width))


def _argsort_by_halves(keys: Value) -> Value:
    """Return the indices that sort keys of 64 bits: by their lower halves, then by the upper ones.

    Either half has an index attached; the second sort is stable, so that it keeps the first.
    """
    index = keys.graph.iota(type=keys.type)
    lower = bitwise_or(shift_left(keys, INDEX_BITS), index)
    by_lower = _sorted_keys(lower, INDEX_BITS, INDEX_BITS)
    index = _indices(by_lower)
    upper = bitwise_and(gather(keys, index), ~_INDEX)
    return _indices(_sorted_keys(bitwise_or(upper, index), INDEX_BITS, INDEX_BITS))


def _indices(keys: Value) -> Value:
    return bitwise_and(keys, _INDEX)


def _sorted_keys(keys: Value, low: int, width: int) -> Value:
    length = keys.type.elements
    assert isinstance(length, int)  # a pass took it for long
    for start, bits in even_digits(low, width, _DIGIT_BITS):
        digit = {"start": start, "bits": bits}
        counts = radix_counts(keys, **digit, blocks=block_count(length))
        keys = radix_move(keys, radix_starts(counts), **digit)
    return keys
