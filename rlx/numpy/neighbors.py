"""Floats next to others (`nextafter`, `spacing`), and bits packed into bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.errors import DTypeError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.shape import normalize_axis
from rlx.numpy import elementwise as e
from rlx.numpy.padding import pad
from rlx.numpy.reductions import sum
from rlx.numpy.shaping import moveaxis, ravel, reshape
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function, inexact

_WORDS = {2: DType.I16, 4: DType.I32, 8: DType.I64}


@function
def nextafter(x: Any, y: Any, /) -> Array:
    """The float next to `x` on the way to `y`."""
    x, y = inexact(x, y)
    dtype = x.value.dtype
    bits = _WORDS[dtype.size]
    word = emit(ops.bitcast, x, to=bits)
    up = e.greater(y, x)
    one = np.ones((), bits.numpy)
    step = e.where(e.equal(up, e.greater(x, 0)), one, -one)
    tiny = np.nextafter(np.zeros((), dtype.numpy), np.ones((), dtype.numpy))
    moved = emit(ops.bitcast, e.add(word, step), to=dtype)
    moved = e.where(e.equal(x, 0), e.where(up, tiny, -tiny), moved)
    is_between = e.logical_or(up, e.less(y, x))  # neither equal, nor one of them NaN
    return e.where(is_between, moved, e.where(e.equal(x, y), y, e.add(x, y)))


@function
def spacing(x: Any, /) -> Array:
    """The distance to the next float away from zero, with the sign of `x`."""
    x = emit(ops.stop_gradient, inexact(x)[0])  # a step function of x
    away = nextafter(x, e.where(e.less(x, 0), -np.inf, np.inf).astype(x.dtype))
    return e.subtract(away, x)


def _places(bitorder: str) -> Any:
    if bitorder not in ("big", "little"):
        raise ShapeError(f"bitorder is {bitorder!r}", remedy="use big or little")
    places = np.arange(8, dtype=np.uint8)
    return places[::-1] if bitorder == "big" else places


@function
def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Array:
    """Bytes of eight truths each, the last one filled with zeros."""
    a = ravel(a) if axis is None else as_tracer(a)
    if a.value.dtype.is_differentiable:
        raise DTypeError(
            f"a has dtype {a.value.dtype}; packbits takes bools and integers",
            remedy="compare it with 0",
        )
    place = normalize_axis(-1 if axis is None else axis, a.ndim)
    rows = moveaxis(a, place, -1)
    missing = -rows.shape[-1] % 8
    rows = pad(convert(e.not_equal(rows, 0), DType.U8), [(0, 0)] * (a.ndim - 1) + [(0, missing)])
    groups = reshape(rows, (*rows.shape[:-1], rows.shape[-1] // 8, 8))
    packed = sum(e.left_shift(groups, _places(bitorder)), -1, dtype="uint8")
    return moveaxis(packed, -1, place)


@function
def unpackbits(
    a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """The eight bits of each byte, one after the other; `count` of them."""
    a = ravel(a) if axis is None else as_tracer(a)
    if a.value.dtype is not DType.U8:
        raise DTypeError(
            f"a has dtype {a.value.dtype}; unpackbits takes u8",
            remedy="convert it with .astype('uint8')",
        )
    place = normalize_axis(-1 if axis is None else axis, a.ndim)
    rows = moveaxis(a, place, -1)
    bits = e.bitwise_and(e.right_shift(rows[..., None], _places(bitorder)), np.uint8(1))
    flat = reshape(bits, (*rows.shape[:-1], 8 * rows.shape[-1]))
    flat = flat if count is None else _counted(flat, count)
    return moveaxis(flat, -1, place)


def _counted(flat: Any, count: int) -> Any:
    length = flat.shape[-1] + count if count < 0 else count
    beyond = max(length - flat.shape[-1], 0)
    return pad(flat, [(0, 0)] * (flat.ndim - 1) + [(0, beyond)])[..., :length]
