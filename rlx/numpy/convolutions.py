"""Convolutions whose axes dimension numbers name, with JAX's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType, as_array_dtype
from rlx.ir.ops.conv_geometry import same_padding
from rlx.ir.shape import Extent
from rlx.numpy import elementwise
from rlx.numpy.axes import static_shape
from rlx.numpy.products import summed_in
from rlx.numpy.shaping import flip, reshape, swapaxes, transpose
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function, inexact
from rlx.tracing.promotion import promote_types
from rlx.tracing.trace import element_type

Axes = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


class ConvDimensionNumbers(NamedTuple):
    """Axes of images (batch, channels, space) and of taps (outputs, inputs, space)."""

    lhs_spec: Axes
    rhs_spec: Axes
    out_spec: Axes


def conv_dimension_numbers(
    lhs_shape: Sequence[Extent], rhs_shape: Sequence[Extent], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """Return the numbers of axes that are named by letters, as NHWC, HWIO, NHWC."""
    rank = len(lhs_shape)
    if len(rhs_shape) != rank or rank < 2:
        raise ShapeError(
            f"a convolution of shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}; both have two "
            "axes and the same axes of space",
            remedy="add axes of extent 1 with reshape",
        )
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if dimension_numbers is None:
        return ConvDimensionNumbers(*(tuple(range(rank)),) * 3)
    images, taps, results = dimension_numbers
    space = "".join(letter for letter in taps if letter not in "OI")
    pairs = ((images, "NC"), (taps, "OI"), (results, "NC"))
    return ConvDimensionNumbers(*(_places(spec, pair + space, rank) for spec, pair in pairs))


def _places(spec: str, letters: str, rank: int) -> Axes:
    if sorted(spec) != sorted(letters) or len(set(spec)) != rank:
        raise ShapeError(
            f"dimension numbers name axes {spec!r}; they must be {letters!r} in some order, for "
            f"{rank} axes",
            remedy="name each axis once, space by the same letters everywhere",
        )
    return tuple(spec.index(letter) for letter in letters)


@function
def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Slide taps over an array whose axes `dimension_numbers` names, as NHWC, HWIO, NHWC.

    Integers are summed in 32 bits, or in 64 where the result has them, and wrap.
    """
    where = (
        window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers,
        feature_group_count, batch_group_count,
    )  # fmt: skip
    result = promote_types(map(element_type, (lhs, rhs))).dtype
    if preferred_element_type is not None:
        result = as_array_dtype(preferred_element_type)
    integers = result.is_int or result is DType.BOOL
    lhs, rhs = summed_in(result if integers else preferred_element_type, lhs, rhs)
    if integers:
        return convert(_convolved(lhs, rhs, *where), result)
    if not result.is_complex:
        lhs, rhs = inexact(lhs, rhs)
        return convert(_convolved(lhs, rhs, *where), result)
    (a, b), (c, d) = ((elementwise.real(x), elementwise.imag(x)) for x in (lhs, rhs))
    real = elementwise.subtract(_convolved(a, c, *where), _convolved(b, d, *where))
    imaginary = elementwise.add(_convolved(a, d, *where), _convolved(b, c, *where))
    return convert(emit(ops.complex, real, imaginary), result)


def _convolved(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
) -> Any:
    """Convolve floats or integers."""
    numbers = conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    x, w = transpose(lhs, numbers.lhs_spec), transpose(rhs, numbers.rhs_spec)
    if batch_group_count != 1:
        x = _batch_groups_as_features(x, w, batch_group_count, feature_group_count)
        feature_group_count = batch_group_count
    steps = tuple(map(int, window_strides))
    apart = tuple(map(int, rhs_dilation or (1,) * len(steps)))
    between = tuple(map(int, lhs_dilation or ()))
    if isinstance(padding, str) and max(between, default=1) > 1:
        raise ShapeError(
            f"padding is {padding!r} and lhs_dilation {between}; padding by name needs "
            "lhs_dilation 1",
            remedy="give pairs of widths, or use conv_transpose",
        )
    found = emit(
        ops.conv, x, w, stride=steps, dilation=apart, input_dilation=between,
        groups=feature_group_count, padding=_pads(padding, x.shape[2:], w.shape[2:], steps, apart),
    )  # fmt: skip
    return transpose(found, tuple(int(place) for place in np.argsort(numbers.out_spec)))


def _batch_groups_as_features(x: Any, w: Any, count: int, feature_groups: int) -> Any:
    """Move groups of the batch, each of which has its share of the outputs, to the channels."""
    if feature_groups != 1:
        raise ShapeError(
            f"batch_group_count is {count}, feature_group_count {feature_groups}",
            remedy="one of them must be 1",
        )
    (batch, channels, *space), outputs = static_shape(x), static_shape(w)[0]
    if count < 1 or batch % count or outputs % count:
        raise ShapeError(
            f"{count} groups of a batch of {batch} and of {outputs} outputs",
            remedy="give a number that divides both",
        )
    groups = swapaxes(reshape(x, (count, batch // count, channels, *space)), 0, 1)
    return reshape(groups, (batch // count, count * channels, *space))


def _pads(padding: Any, extents: Any, taps: Any, strides: Axes, apart: Axes) -> Pads:
    """Return the widths of zeros around each axis of space."""
    if not isinstance(padding, str):
        return tuple((int(low), int(high)) for low, high in padding)
    name = padding.upper()
    if name == "VALID":
        return ((0, 0),) * len(extents)
    if name not in ("SAME", "SAME_LOWER"):
        raise _unknown(padding, "'SAME', 'SAME_LOWER', 'VALID'")
    sides = [same_padding(*each) for each in zip(extents, taps, strides, apart, strict=True)]
    return tuple(sides) if name == "SAME" else tuple((high, low) for low, high in sides)


def _unknown(padding: Any, names: str) -> ShapeError:
    return ShapeError(
        f"padding is {padding!r}; it must be {names} or a pair of widths for each axis of space",
        remedy="give one of these",
    )


@function
def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Any,
    padding: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """`conv_general_dilated` of channels first."""
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, preferred_element_type=preferred_element_type
    )


@function
def conv_with_general_padding(
    lhs: Any, rhs: Any, window_strides: Any, padding: Any, lhs_dilation: Any, rhs_dilation: Any,
    precision: Any = None, preferred_element_type: Any = None,
) -> Array:  # fmt: skip
    """`conv_general_dilated` of channels first, elements and taps apart."""
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


_CHANNELS_LAST = {
    rank: (f"N{space}C", f"{space}IO", f"N{space}C")
    for rank, space in ((3, "H"), (4, "HW"), (5, "HWD"))
}


@function
def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Array:
    """Slide taps over elements that are `strides` apart; channels are last by default.

    The names of paddings are those of the convolution that this one transposes, and so are pairs
    with `use_consistent_padding`; other pairs are the zeros around the dilated elements. Taps are
    turned, and their inputs outputs, with `transpose_kernel` alone.
    """
    x, w = as_tracer(lhs), as_tracer(rhs)
    given = _CHANNELS_LAST.get(x.ndim) if dimension_numbers is None else dimension_numbers
    numbers = conv_dimension_numbers(x.shape, w.shape, given)
    outputs, inputs, *space = numbers.rhs_spec
    apart = tuple(map(int, rhs_dilation or (1,) * len(space)))
    if isinstance(padding, str) or use_consistent_padding:
        sides = [padding] * len(space) if isinstance(padding, str) else padding
        extents = [static_shape(w)[place] for place in space]
        each = zip(extents, apart, strides, sides, strict=True)
        padding = [_transposed_pads((taps - 1) * by + 1, s, p) for taps, by, s, p in each]
    if transpose_kernel:
        w = swapaxes(flip(w, tuple(space)), outputs, inputs)
    return conv_general_dilated(
        x, w, (1,) * len(space), padding, strides, apart, numbers, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def _transposed_pads(reach: int, stride: int, padding: Any) -> tuple[int, int]:
    """Return the zeros around an axis, from the padding of the convolution that is transposed."""
    if not isinstance(padding, str):
        low, high = padding
        return reach - 1 - low, reach - 1 - high
    if padding.upper() == "VALID":
        return reach - 1, max(reach, stride) - 1
    if padding.upper() != "SAME":
        raise _unknown(padding, "'SAME', 'VALID'")
    total = reach + stride - 2
    low = reach - 1 if stride > reach - 1 else -(-total // 2)
    return low, total - low
