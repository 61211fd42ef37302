"""Random bits, and what is uniform: numbers of an interval, integers of a range, coin flips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from rlx.errors import DTypeError, InputError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType, as_array_dtype
from rlx.ir.shape import Shape, broadcast_shapes, format_shape
from rlx.numpy import elementwise as e
from rlx.numpy.axes import shape_from
from rlx.numpy.creation import dtype_of
from rlx.random.keys import random_words, split
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function
from rlx.tracing.trace import element_type
from rlx.tracing.trace import shape_of as traced_shape
from rlx.tracing.widths import PROCESS, canonical


def default_float() -> DType:
    """Return the dtype of floats where none is named: f32, as in JAX without 64-bit types."""
    return DType.F64 if PROCESS.draws_wide else DType.F32


def default_int() -> DType:
    """Return the dtype of integers where none is named: i32, as in JAX without 64-bit types."""
    return DType.I64 if PROCESS.draws_wide else DType.I32


_BITS = {8: DType.U8, 16: DType.U16, 32: DType.U32, 64: DType.U64}


def _default_word() -> DType:
    return DType.U64 if PROCESS.draws_wide else DType.U32


@function
def bits(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Random bits, as unsigned integers."""
    target = canonical(_default_word() if dtype is None else as_array_dtype(dtype))
    if not target.is_unsigned_int:
        raise DTypeError(
            f"dtype is {target}; random bits are unsigned integers",
            remedy="pass dtype='uint8', 'u16', 'u32' or 'uint64'",
        )
    return random_bits(key, shape_from(shape), target.size * 8)


def random_bits(key: Any, shape: Shape, width: int) -> Array:
    """Return unsigned integers of `width` random bits."""
    if width < 64:
        return convert(random_words(key, shape, "both"), _BITS[width])
    first, second = (
        convert(random_words(key, shape, word), DType.U64) for word in ("first", "second")
    )
    words: Array = e.bitwise_or(e.left_shift(first, 32), second)
    return words


@function
def uniform(
    key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0
) -> Array:
    """Uniform in [minval, maxval)."""
    target = float_dtype(dtype, "uniform")
    extents = shape_from(shape)
    unit = unit_interval(key, extents, target)
    if _is_number(minval, 0) and _is_number(maxval, 1):
        return unit
    low, high = convert(minval, target), convert(maxval, target)
    require_broadcast("uniform", extents, low, high)
    return e.maximum(low, e.add(e.multiply(unit, e.subtract(high, low)), low))


def _is_number(x: Any, value: int) -> bool:
    return isinstance(x, (int, float)) and x == value


def unit_interval(key: Any, shape: Shape, dtype: DType) -> Array:
    """Return floats in [0, 1): random digits after the point of 1, less 1."""
    width, digits = dtype.size * 8, digits_of(dtype)
    drawn = 8 if digits < 8 else width
    words = convert(random_bits(key, shape, drawn), _BITS[width])
    one = np.ones((), dtype.numpy)
    fraction = e.right_shift(words, drawn - digits)
    one_and_more = e.bitwise_or(fraction, as_tracer(one.view(_BITS[width].numpy)))
    floats: Array = e.subtract(emit(ops.bitcast, one_and_more, to=dtype), as_tracer(one))
    return floats


@function
def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> Array:
    """Integers in [minval, maxval), each with a probability within 2**-32 of the same.

    They are the high words of `bits * (maxval - minval)`, with twice the bits of the dtype.
    `rlx.jax.random.randint` has the bits of JAX, which are not uniform in ranges above 65536.
    """
    return _randint(_scaled, key, shape, minval, maxval, dtype)


@function
def jax_randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> Array:
    """Integers in [minval, maxval) as JAX draws them, by remainders.

    A product wraps in ranges of more values than the square root of the dtype's: of
    `randint(key, n, 0, 10**9)` 16 % too many are in the lowest fifth.
    """
    return _randint(_remainder, key, shape, minval, maxval, dtype)


def _randint(
    draw: Callable[..., Any], key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any
) -> Array:
    target = default_int() if dtype is None else dtype_of(dtype, default_int())
    if not target.is_int:
        raise DTypeError(
            f"randint: dtype is {target}; it must be an integer dtype",
            remedy="draw floats with rlx.random.uniform",
        )
    extents = shape_from(shape)
    if target.size >= 4:
        return _drawn(draw, key, extents, minval, maxval, target)
    limits = np.iinfo(target.numpy)
    low = e.clip(convert(minval, DType.I32), int(limits.min), int(limits.max))
    high = e.clip(convert(maxval, DType.I32), int(limits.min), int(limits.max) + 1)
    return convert(_drawn(draw, key, extents, low, high, DType.I32), target)


def _drawn(
    draw: Callable[..., Any], key: Any, shape: Shape, minval: Any, maxval: Any, dtype: DType
) -> Array:
    width = dtype.size * 8
    unsigned = _BITS[width]
    low, high = _clipped(minval, dtype), _clipped(maxval, dtype)
    beyond = _exceeds(maxval, dtype)
    require_broadcast("randint", shape, low, high)
    keys = split(key)
    upper, lower = (random_bits(keys[i], shape, width) for i in range(2))
    one = np.ones((), unsigned.numpy)
    empty = e.less_equal(high, low)
    span = e.where(empty, one, convert(e.subtract(high, low), unsigned))
    # One more than the largest integer wraps to 0: all words are in the range.
    span = e.where(e.logical_and(beyond, e.logical_not(empty)), e.add(span, one), span)
    offset = e.where(e.equal(span, 0), upper, draw(upper, lower, e.maximum(span, one)))
    drawn: Array = e.add(low, convert(offset, dtype))
    return drawn


def _scaled(upper: Any, lower: Any, span: Any) -> Any:
    """Return the high word of the product of two random words and `span` (Lemire, 2019)."""
    low, carry = _product(upper, span)
    total = e.add(low, _product(lower, span)[1])
    return e.add(carry, e.astype(e.less(total, low), carry.dtype))


def _product(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the low and the high word of the product of two unsigned words."""
    if x.value.dtype is DType.U32:
        whole = e.multiply(convert(x, DType.U64), convert(y, DType.U64))
        return convert(whole, DType.U32), convert(e.right_shift(whole, 32), DType.U32)
    mask = np.uint64(2**32 - 1)
    (x_low, x_high), (y_low, y_high) = (
        (e.bitwise_and(word, mask), e.right_shift(word, 32)) for word in (x, y)
    )
    lowest = e.multiply(x_low, y_low)
    middle = e.add(e.multiply(x_high, y_low), e.right_shift(lowest, 32))
    other = e.add(e.multiply(x_low, y_high), e.bitwise_and(middle, mask))
    high = e.add(e.multiply(x_high, y_high), e.right_shift(middle, 32))
    return e.multiply(x, y), e.add(high, e.right_shift(other, 32))


def _remainder(upper: Any, lower: Any, span: Any) -> Any:
    half = e.remainder(np.asarray(1 << (span.value.dtype.size * 4), span.dtype), span)
    multiplier = e.remainder(e.multiply(half, half), span)
    offset = e.multiply(e.remainder(upper, span), multiplier)
    return e.remainder(e.add(offset, e.remainder(lower, span)), span)


def _clipped(bound: Any, dtype: DType) -> Array:
    """Return an integer as one of `dtype`, the nearest it has."""
    limits = np.iinfo(dtype.numpy)
    if isinstance(bound, int):
        return convert(min(max(bound, int(limits.min)), int(limits.max)), dtype)
    x = _whole(bound)
    own = np.iinfo(x.value.dtype.numpy)
    low, high = max(limits.min, own.min), min(limits.max, own.max)
    return convert(e.clip(x, int(low), int(high)), dtype)


def _exceeds(bound: Any, dtype: DType) -> Any:
    """Return whether a bound is beyond the largest integer of `dtype`."""
    most = int(np.iinfo(dtype.numpy).max)
    if isinstance(bound, int):
        return as_tracer(np.asarray(bound > most))
    x = _whole(bound)
    own = int(np.iinfo(x.value.dtype.numpy).max)
    return as_tracer(np.asarray(False)) if own <= most else e.greater(x, most)


def _whole(x: Any) -> Array:
    traced = as_tracer(x)
    return traced if traced.value.dtype.is_int else convert(traced, DType.I64)


@function
def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low") -> Array:
    """True with probability `p`; with `mode="high"` also where that is below 1e-7."""
    if mode not in ("low", "high"):
        raise InputError(f"mode is {mode!r}; it must be 'low' or 'high'", remedy="pass mode='low'")
    type = element_type(p)
    dtype = default_float() if type.weak or not type.dtype.is_float else type.dtype
    chance = convert(p, dtype)
    extents = shape_or(shape, chance)
    require_broadcast("bernoulli", extents, chance)
    if mode == "low":
        return e.less(unit_interval(key, extents, dtype), chance)
    both: Any = unit_interval(key, (2, *extents), dtype)
    resolution = 2.0 ** -digits_of(dtype)
    return e.less(e.multiply(both[1], resolution), e.subtract(chance, both[0]))


@function
def rademacher(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """-1 or 1, each with probability 1/2."""
    target = default_int() if dtype is None else dtype_of(dtype, default_int())
    flips = convert(bernoulli(key, 0.5, shape_from(shape)), target)
    return convert(e.subtract(e.multiply(flips, 2), 1), target)


# What the distributions share


def digits_of(dtype: DType) -> int:
    """Return the stored binary digits of a float's significand."""
    info: Any = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call] # has no stubs
    return int(info.nmant)


def float_dtype(dtype: Any, name: str) -> DType:
    """Return the dtype of a draw of floats, f32 where none is named."""
    target = default_float() if dtype is None else dtype_of(dtype, default_float())
    if not target.is_float:
        raise DTypeError(
            f"{name}: dtype is {target}; it must be a float dtype",
            remedy="pass dtype='f32' or another float dtype",
        )
    return target


def shape_or(shape: Any, *parameters: Any) -> Shape:
    """Return the shape that is given, or the broadcast one of the parameters."""
    if shape is not None:
        return shape_from(shape)
    return shape_from(broadcast_shapes(*(traced_shape(x) for x in parameters)))


def require_broadcast(name: str, shape: Shape, *parameters: Any) -> None:
    """Demand that the parameters broadcast to `shape`."""
    for each in parameters:
        own = traced_shape(each)
        if len(own) > len(shape) or broadcast_shapes(own, shape) != shape:
            raise ShapeError(
                f"{name}: a parameter has shape {format_shape(own)}, which does not broadcast to "
                f"the shape {format_shape(shape)} of the draw",
                remedy="pass the shape to which its parameters broadcast, or omit it",
            )
