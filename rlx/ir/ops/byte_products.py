"""Products of bytes, four at a time: what integer products and convolutions are lowered to.

Operands are words of four bytes along the contracted axis, as `words_of_bytes` makes them, or
neighbors read as words in place (`bytes_as_words`): signed bytes in i32, unsigned ones in u32. x86
multiplies unsigned by signed bytes, ARM signed ones. Of a matrix product either operand may be
unsigned, of a convolution the first. Sums are i32 and wrap.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

from rlx.errors import DTypeError, ShapeError
from rlx.ir.declaration import op
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.elementwise import bitcast, bitwise_or, bitwise_xor, cast, shift_left, shift_right
from rlx.ir.ops.requirements import require_dtype
from rlx.ir.ops.shape import narrow, pad, reshape
from rlx.ir.ops.shape import slice as strided
from rlx.ir.shape import upper
from rlx.ir.types import TensorType

__all__ = ["bytes_as_words"]

_FAMILY = "quant"
BYTES = 4
"""Bytes of a word."""
SIGN = 128
"""The highest bit of a byte: changing it moves signed bytes to 0..255, and back."""


def words_of_bytes(
    x: Value, *, axis: int, signed: bool, groups: int = 1, neighbors: bool = False
) -> Value:
    """Return bytes, i8 or u8, in words of four along `axis`, those of a group together.

    A word holds elements a quarter of the axis apart, so that words are made of whole vectors, or
    four `neighbors`; the first is in its lowest bits. `signed` says how a product reads them: words
    of signed bytes are i32, of others u32, and bytes are moved from one range to the other as
    needed. What is missing in the last words is zero.
    """
    before, extent, after = x.shape[:axis], upper(x.shape[axis]) // groups, x.shape[axis + 1 :]
    quarter, flips = -(-extent // BYTES), signed is not (x.dtype is DType.I8)
    own = axis if groups == 1 else axis + 1
    parts = x if groups == 1 else reshape(x, shape=(*before, groups, extent, *after))
    filling = 0 if not flips else SIGN if x.dtype is DType.U8 else -SIGN
    parts = filled_up(parts, own, filling)
    find = _every_fourth if neighbors else _quarter
    placed = [_placed(find(parts, own, place), place) for place in range(BYTES)]
    words: Value = functools.reduce(bitwise_or, placed)
    if flips:
        signs = sum(SIGN << 8 * place for place in range(BYTES))
        words = bitwise_xor(words, words.graph.constant(signs, DType.U32))
    words = bitcast(words, to=DType.I32) if signed else words
    return words if groups == 1 else reshape(words, shape=(*before, groups * quarter, *after))


def filled_up(x: Value, axis: int, filling: int = 0) -> Value:
    """Return bytes whose extent along `axis` is a multiple of four."""
    missing = -upper(x.shape[axis]) % BYTES
    if not missing:
        return x
    none = (0,) * x.rank
    high = (*none[:axis], missing, *none[axis + 1 :])
    result: Value = pad(x, low=none, high=high, value=filling)
    return result


def _quarter(x: Value, axis: int, place: int) -> Value:
    """Return a quarter of an axis."""
    length = upper(x.shape[axis]) // BYTES
    result: Value = narrow(x, axis=axis, start=place * length, length=length)
    return result


def _every_fourth(x: Value, axis: int, place: int) -> Value:
    """Return every fourth element of an axis, from `place` on."""
    start, step = [0] * x.rank, [1] * x.rank
    start[axis], step[axis] = place, BYTES
    result: Value = strided(x, start=tuple(start), stop=x.shape, step=tuple(step))
    return result


def _placed(part: Value, place: int) -> Value:
    """Return the bytes of a word, in its order."""
    bits = bitcast(part, to=DType.U8) if part.dtype is DType.I8 else part
    wide = cast(bits, to=DType.U32)
    return shift_left(wide, 8 * place) if place else wide


@op(_FAMILY, Trait.VIEW, Trait.LOWERED)
def bytes_as_words(x: TensorType) -> TensorType:
    """Four neighbors along the last axis as one word, without a copy: i8 as i32, u8 as u32.

    The first is in the lowest bits.
    """
    require_dtype(x, "i8 u8")
    extent = x.shape[-1] if x.rank else 0
    if not x.rank or not isinstance(extent, int) or extent % BYTES:
        raise ShapeError(
            f"x has shape {x.describe_shape()}; its rows are no words of {BYTES} bytes",
            remedy="fill rows up to a multiple of it",
        )
    word = DType.I32 if x.dtype is DType.I8 else DType.U32
    return TensorType(word, (*x.shape[:-1], extent // BYTES))


def type_of_integers(x: TensorType) -> TensorType:
    """Return the type of integers once they are widened to i32."""
    require_dtype(x, "i8 u8 i32")
    return x.with_dtype(DType.I32)


def type_of_bytes(x: TensorType, *, signed: bool = False) -> TensorType:
    """Return the type of words as i32; DTypeError for anything else."""
    if x.dtype is not DType.I32 and (signed or x.dtype is not DType.U32):
        raise DTypeError(
            f"words of four bytes have dtype {x.dtype}; they must be i32 (signed bytes) or u32 "
            "(unsigned ones), which one operand may be: of a convolution the first",
            remedy="pack bytes into words, or multiply integers with matmul and conv",
        )
    return x.with_dtype(DType.I32)


def sum_of_bytes(product: Callable[[Value, Value], Any], a: Value, b: Value) -> Value:
    """Return the sum of the products of the first bytes, the second ones, and so on."""
    terms = (product(left, right) for left, right in zip(_bytes(a), _bytes(b), strict=True))
    result: Value = functools.reduce(operator.add, terms)
    return result


def _bytes(words: Value) -> Iterator[Value]:
    """Yield each byte of every word as i32, from the lowest on."""
    for place in range(BYTES):
        lifted = shift_left(words, 8 * (BYTES - 1 - place))
        yield bitcast(shift_right(lifted, 8 * (BYTES - 1)), to=DType.I32)
