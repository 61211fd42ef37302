"""Quantization: integers with scales, and floats rounded as if they were.

`q = round(x / scale) + zero_point`, saturated to i8; halves round away from zero. A scale is for
the whole tensor (`axis=None`) or for each index of `axis`. Integer products and convolutions are
exact: i8 times i8, summed in i32, requantized once.

Sources: Jacob et al., Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference (2018); Esser et al., Learned Step Size Quantization (2020);
Bengio et al., Estimating or Propagating Gradients Through Stochastic Neurons (2013).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlx.errors import DTypeError, GraphError, ShapeError
from rlx.ir.composite import composite
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.conv import conv, spatial_axes
from rlx.ir.ops.elementwise import (
    abs,
    cast,
    div,
    eq,
    ge,
    le,
    lt,
    maximum,
    minimum,
    ne,
    tanh,
    trunc,
    where,
)
from rlx.ir.ops.linalg import matmul
from rlx.ir.ops.reduction import reduce_max, reduce_sum
from rlx.ir.ops.requirements import require_rank
from rlx.ir.ops.shape import reshape
from rlx.ir.shape import Extent, format_shape, normalize_axis

_FAMILY = "quant"
SMALLEST_SCALE = 1e-12
"""A computed or learned scale is no smaller."""
_FAR = 1 << 14
_LEAST = 2.0**-126
"""The least normal f32: its reciprocal, by which `quantize` multiplies, is finite."""
Scales = tuple[float, ...]
Integers = tuple[int, ...]
StraightThrough = Literal["identity", "clipped_identity", "tanh", "hard_tanh"]
LARGEST = {8: 127, 4: 7, 2: 1}
"""The largest quantized magnitude, by bits: symmetric, without the lowest integer."""


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def quantize(
    x: Value, *, scales: Scales, zero_points: Integers = (), axis: int | None = None
) -> Value:
    """`round(x * (1 / scale)) + zero_point` in i8, saturated; NaN becomes the zero point."""
    _require_float("x", x)
    factors, offsets = _per_channel(x, axis, scales, zero_points)
    reciprocal = (np.float32(1) / factors).astype(np.float32)
    scaled = x * x.graph.constant(reciprocal)
    if not offsets.any():
        return cast(scaled, to=DType.I8, rounding="away")
    narrow = np.abs(offsets).max() < _FAR  # so that 16 bits saturate beyond all codes
    rounded = cast(scaled, to=DType.I16 if narrow else DType.I32, rounding="away")
    low, high = (x.graph.constant(limit - offsets) for limit in (-128, 127))
    inside = minimum(maximum(cast(rounded, to=DType.I32), low), high)
    return cast(inside + x.graph.constant(offsets), to=DType.I8)


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def dequantize(
    q: Value, *, scales: Scales, zero_points: Integers = (), axis: int | None = None
) -> Value:
    """`(q - zero_point) * scale` in f32."""
    _require_integers("q", q, DType.I8)
    factors, offsets = _per_channel(q, axis, scales, zero_points)
    centered = cast(q, to=DType.I32) - q.graph.constant(offsets)
    return cast(centered, to=DType.F32) * q.graph.constant(factors)


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def fake_quantize(
    x: Value,
    scale: Value | None = None,
    *,
    bits: int = 8,
    axis: int | None = None,
    straight_through: StraightThrough = "identity",
) -> Value:
    """Round `x` to multiples of a scale, as if quantized: `clamp(round(x / s), -q, q) * s`.

    `q` is 127, 7 or 1 for 8, 4 or 2 bits. The scale is the operand, `[1]` or one for each index
    of `axis`; without it that of the batch, `max |x| / q`. `straight_through` is what passes for
    the derivative of rounding.
    """
    return _rounded(x, spread(_scale_of(x, scale, bits, axis), x, axis), bits)


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def fake_quantize_ema(
    x: Value,
    state: Value,
    *,
    decay: float,
    bits: int = 8,
    axis: int | None = None,
    straight_through: StraightThrough = "identity",
) -> tuple[Value, Value]:
    """`fake_quantize` by a moving average of the batches' scales, which is the second result.

    `decay * state + (1 - decay) * own`; a state of 0 is the first batch's own scale.
    """
    if not 0 <= decay <= 1:
        raise GraphError(
            f"decay is {decay}; it must be in [0, 1]", remedy="give a share, such as 0.99"
        )
    own = _scale_of(x, None, bits, axis)
    _require_channels("state", state, own.shape[0])
    _require_float("state", state)
    moved = where(le(state, 0.0), own, state * decay + own * (1.0 - decay))
    return _rounded(x, spread(moved, x, axis), bits), moved


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def fake_quantize_backward(
    x: Value,
    dy: Value,
    scale: Value | None = None,
    *,
    bits: int = 8,
    axis: int | None = None,
    straight_through: StraightThrough = "identity",
) -> Value:
    """The straight-through estimator of the derivative of `fake_quantize`, times `dy`.

    `clipped_identity` is `dy` up to the largest magnitude, that one included; `tanh` is
    `1 - tanh(x/s)^2`, `hard_tanh` is `1 - |x| / (q s)`.
    """
    if straight_through == "identity":
        return dy
    own = _scale_of(x, scale, bits, axis)
    step = spread(own, x, axis)
    if straight_through == "tanh":
        slope = tanh(x / step)
        return dy * (1.0 - slope * slope)
    bound = step * float(LARGEST[bits])
    if straight_through == "hard_tanh":
        return dy * maximum(1.0 - abs(x / bound), 0.0)
    if scale is None:  # `q * (largest / q)` may round below the largest, which counts as inside
        bound = maximum(bound, spread(_largest(x, axis), x, axis))
    return where(le(abs(x), bound), dy, 0.0)


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def fake_quantize_lsq(x: Value, scale: Value, *, bits: int = 8, axis: int | None = None) -> Value:
    """`fake_quantize` with a scale that is learned (LSQ)."""
    return _rounded(x, spread(_scale_of(x, scale, bits, axis), x, axis), bits)


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def fake_quantize_lsq_backward_x(
    x: Value, scale: Value, dy: Value, *, bits: int = 8, axis: int | None = None
) -> Value:
    """`dy` where `|x / s|` is at most the largest quantized magnitude, else 0."""
    z = x / spread(_scale_of(x, scale, bits, axis), x, axis)
    return where(le(abs(z), float(LARGEST[bits])), dy, 0.0)


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def fake_quantize_lsq_backward_scale(
    x: Value, scale: Value, dy: Value, *, bits: int = 8, axis: int | None = None
) -> Value:
    """The sum over each channel of `dy` times the slope in the scale."""
    weighted = dy * lsq_slope(x, scale, bits=bits, axis=axis)
    total = reduce_sum(weighted, axes=_folded_axes(x, axis))
    return reshape(total, shape=scale.shape)


def lsq_slope(x: Value, scale: Value, *, bits: int, axis: int | None) -> Value:
    """Return `round(z) - z` inside of the range, `q sign(z)` outside, for `z = x / s`."""
    z = x / spread(_scale_of(x, scale, bits, axis), x, axis)
    largest = float(LARGEST[bits])
    outside = where(lt(0.0, z), largest, -largest)
    return where(le(abs(z), largest), round_away(z) - z, outside)


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def qmatmul(
    x: Value,
    w: Value,
    bias: Value,
    *,
    multiplier: Scales,
    x_zero_point: int = 0,
    w_zero_point: int = 0,
    out_zero_point: int = 0,
) -> Value:
    """`x [..., K] @ w [K, N] + bias [N]` in i32, times `multiplier`, requantized to i8.

    `multiplier` is `x_scale * w_scale / out_scale`: one, or one for each column. The bias counts
    in units of `x_scale * w_scale`. Sums wrap at 32 bits.
    """
    _require_matrix(w)
    _require_products(x, w, bias, w.shape[1])
    _require_points("zero points", (x_zero_point, w_zero_point, out_zero_point))
    require_rank(x.type, 2, "x")
    total = matmul(_centered(x, x_zero_point), _centered(w, w_zero_point)) + bias
    return _requantized(total, multiplier, out_zero_point, axis=-1)


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def qconv(
    x: Value,
    w: Value,
    bias: Value,
    *,
    multiplier: Scales,
    stride: Integers = (),
    padding: tuple[tuple[int, int], ...] = (),
    dilation: Integers = (),
    groups: int = 1,
    x_zero_point: int = 0,
    w_zero_point: int = 0,
    out_zero_point: int = 0,
) -> Value:
    """`conv` of i8 by i8 plus `bias [C_out]` in i32, requantized to i8 by channel.

    Outside of `x` there is its zero point. `multiplier` is one, or one for each channel.
    """
    axes = spatial_axes(x.type, w.type)
    _require_products(x, w, bias, w.shape[0])
    _require_points("zero points", (x_zero_point, w_zero_point, out_zero_point))
    total = conv(
        _centered(x, x_zero_point), _centered(w, w_zero_point), stride=stride, padding=padding,
        dilation=dilation, groups=groups,
    )  # fmt: skip
    column = reshape(bias, shape=(bias.shape[0], *(1,) * axes))
    return _requantized(total + column, multiplier, out_zero_point, axis=1)


def round_away(x: Value) -> Value:
    """Return the nearest integer, halves away from zero; the sign of zero and NaN stay."""
    whole = trunc(x)
    further = where(lt(x, 0.0), whole - 1.0, whole + 1.0)
    return where(ge(abs(x - whole), 0.5), further, whole)


def quantized_bits(value: Value) -> int | None:
    """Return to how many bits `value` is rounded, if it is a fake quantization."""
    rounding = (fake_quantize, fake_quantize_ema, fake_quantize_lsq)
    return int(value.node.attribute("bits")) if value.op in rounding else None


def _rounded(x: Value, step: Value, bits: int) -> Value:
    largest = float(LARGEST[bits])
    z = round_away(div(x, step))
    return where(ne(z, z), z, minimum(maximum(z, -largest), largest)) * step


def _scale_of(x: Value, scale: Value | None, bits: int, axis: int | None) -> Value:
    """Return the scales as `[channels]`: those given, or those of the batch."""
    _require_float("x", x)
    if bits not in LARGEST:
        raise GraphError(f"bits is {bits}; it must be 8, 4 or 2", remedy="pass bits=8")
    if scale is None:
        found = _largest(x, axis) / float(LARGEST[bits])
    else:
        _require_channels("scale", scale, _channels(x, axis))
        _require_float("scale", scale)
        found = scale
    return maximum(where(eq(found, found), found, 0.0), SMALLEST_SCALE)


def _largest(x: Value, axis: int | None) -> Value:
    """Return `max |x|` of each channel as `[channels]`; NaN counts as nothing."""
    magnitudes = where(eq(x, x), abs(x), 0.0)
    found = reduce_max(magnitudes, axes=_folded_axes(x, axis))
    return reshape(maximum(found, 0.0), shape=(_channels(x, axis),))


def spread(channels: Value, x: Value, axis: int | None) -> Value:
    """View `[channels]` so that it broadcasts along `axis` of `x`."""
    shape: list[Extent] = [1] * x.rank
    if axis is not None:
        shape[normalize_axis(axis, x.rank)] = channels.shape[0]
    return reshape(channels, shape=tuple(shape))


def _folded_axes(x: Value, axis: int | None) -> tuple[int, ...]:
    """Return the axes that share a scale: all, or all but `axis`."""
    own = None if axis is None else normalize_axis(axis, x.rank)
    return tuple(other for other in range(x.rank) if other != own)


def _channels(x: Value, axis: int | None) -> Extent:
    return 1 if axis is None else x.shape[normalize_axis(axis, x.rank)]


def _centered(q: Value, zero_point: int) -> Value:
    wide = cast(q, to=DType.I32)
    return wide - zero_point if zero_point else wide


def _requantized(total: Value, multiplier: Scales, zero_point: int, *, axis: int) -> Value:
    """Return `round(total * multiplier) + zero_point` in i8, saturated."""
    chosen = axis if len(multiplier) > 1 else None
    factors, _ = _per_channel(total, chosen, multiplier, (), name="multiplier")
    scaled = cast(total, to=DType.F32) * total.graph.constant(factors)
    rounded = cast(scaled, to=DType.I32, rounding="away")
    inside = minimum(maximum(rounded, -128 - zero_point), 127 - zero_point)
    return cast(inside + zero_point, to=DType.I8)


def _per_channel(
    x: Value, axis: int | None, scales: Scales, zero_points: Integers, name: str = "scale"
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return scales and zero points as arrays that broadcast along `axis` of `x`."""
    count = _channels(x, axis)
    points = zero_points or (0,) * len(scales)
    if len(scales) != count or len(points) != count:
        raise ShapeError(
            f"{len(scales)} {name}s and {len(points)} zero points for {count} channels of "
            f"{format_shape(x.shape)} (axis {axis})",
            remedy="give one of each, or one for each index of the axis",
        )
    _require_positive(name, scales)
    _require_points("zero points", points)
    shape = [1] * x.rank
    if axis is not None:
        shape[normalize_axis(axis, x.rank)] = len(scales)
    whole = shape if axis is not None else []
    factors = np.array(scales, np.float32).reshape(whole)
    if len(set(points)) == 1:  # one number, which kernels hold in a register
        return factors, np.array(points[0], np.int32)
    return factors, np.array(points, np.int32).reshape(whole)


def _require_positive(name: str, scales: Sequence[float]) -> None:
    for scale in scales:
        rounded = float(np.float32(scale))
        if not (math.isfinite(rounded) and rounded >= _LEAST):
            raise GraphError(
                f"{name} {scale} is not finite and above 0 among the normal numbers of f32",
                remedy="clip scales from below, for example at 1e-6",
            )


def _require_points(name: str, points: Integers) -> None:
    if any(not -(1 << 30) < point < 1 << 30 for point in points):
        raise GraphError(
            f"{name} {points} are out of range", remedy="give integers from -128 to 127"
        )


def _require_float(name: str, x: Value) -> None:
    if x.dtype is not DType.F32:
        raise DTypeError(
            f"{name} has dtype {x.dtype}; quantization is computed in f32", remedy="cast it to f32"
        )


def _require_integers(name: str, x: Value, dtype: DType) -> None:
    if x.dtype is not dtype:
        raise DTypeError(
            f"{name} has dtype {x.dtype}; it must be {dtype}", remedy="quantize it first"
        )


def _require_matrix(w: Value) -> None:
    if w.rank != 2:
        raise ShapeError(
            f"w has shape {format_shape(w.shape)}; it must be a matrix, [K, N]",
            remedy="multiply by one matrix after the other, or map over them with vmap",
        )


def _require_products(x: Value, w: Value, bias: Value, channels: Extent) -> None:
    _require_integers("x", x, DType.I8)
    _require_integers("w", w, DType.I8)
    _require_integers("bias", bias, DType.I32)
    _require_channels("bias", bias, channels)


def _require_channels(name: str, vector: Value, channels: Extent) -> None:
    if vector.shape != (channels,):
        raise ShapeError(
            f"{name} has shape {format_shape(vector.shape)}; it must be "
            f"{format_shape((channels,))}",
            remedy="give one element for each channel",
        )


__all__ = [
    "dequantize",
    "fake_quantize",
    "fake_quantize_backward",
    "fake_quantize_ema",
    "fake_quantize_lsq",
    "fake_quantize_lsq_backward_scale",
    "fake_quantize_lsq_backward_x",
    "qconv",
    "qmatmul",
    "quantize",
]
