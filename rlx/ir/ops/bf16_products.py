"""bf16 dot products of pairs: what products and convolutions of bf16 are lowered to.

Operands are words of two bf16 along the contracted axis, u32, as `words_of_bf16` makes them. Sums
are f32; a product of two words adds that of the upper halves, then that of the lower ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.ops.elementwise import bitcast, bitwise_and, bitwise_or, cast, shift_left
from rlx.ir.ops.requirements import require_dtype
from rlx.ir.ops.shape import narrow, pad
from rlx.ir.shape import upper
from rlx.ir.types import TensorType

__all__: list[str] = []

BF16_PER_WORD = 2
_HALF_BITS = 16
_UPPER = 0xFFFF0000


def words_of_bf16(x: Value, axis: int) -> Value:
    """Return pairs of bf16 as words: elements half the axis apart, the first in the lower half.

    Neighbors in memory stay neighbors, so that words are made of whole vectors. An odd extent ends
    in a zero.
    """
    extent = upper(x.shape[axis])
    half = -(-extent // BF16_PER_WORD)
    bits = bitcast(x, to=DType.U16)
    if extent % BF16_PER_WORD:
        none = (0,) * x.rank
        bits = pad(bits, low=none, high=(*none[:axis], 1, *none[axis + 1 :]), value=0)
    bits = cast(bits, to=DType.U32)
    low, high = (narrow(bits, axis=axis, start=start, length=half) for start in (0, half))
    result: Value = bitwise_or(low, shift_left(high, _HALF_BITS))
    return result


def type_of_halves(words: TensorType) -> TensorType:
    """Return the type of words as what is summed."""
    require_dtype(words, "u32")
    return words.with_dtype(DType.F32)


def sum_of_halves(product: Callable[[Value, Value], Any], a: Value, b: Value) -> Value:
    """Return the sum of the products of the upper and of the lower halves."""
    result: Value = product(_upper(a), _upper(b)) + product(_lower(a), _lower(b))
    return result


def _upper(words: Value) -> Value:
    kept = bitwise_and(words, words.graph.constant(_UPPER, DType.U32))
    return bitcast(kept, to=DType.F32)


def _lower(words: Value) -> Value:
    return bitcast(shift_left(words, _HALF_BITS), to=DType.F32)
