"""Windows of convolutions: their shapes, what each of them covers, and taps of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError
from rlx.ir.ops.conv_geometry import same_padding
from rlx.ir.source_lines import calling_source
from rlx.numpy.axes import require_per_axis, static_shape
from rlx.numpy.convolutions import conv_dimension_numbers, conv_general_dilated
from rlx.runtime.arrays import Array
from rlx.tracing.apply import function, inexact
from rlx.transforms.abstract import ShapeDtypeStruct, eval_shape


def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int],
    padding: Any,
) -> list[tuple[int, int]]:  # fmt: skip
    """The widths of zeros around each axis for padding SAME, SAME_LOWER or VALID."""
    name = str(getattr(padding, "name", padding)).upper()
    if name not in ("SAME", "SAME_LOWER", "VALID"):
        raise InputError(
            f"padding is {padding!r}",
            remedy="pass 'SAME', 'SAME_LOWER', 'VALID', or (low, high) of each axis",
        )
    if name == "VALID":
        return [(0, 0)] * len(in_shape)
    require_per_axis(len(in_shape), window_shape=window_shape, window_strides=window_strides)
    sides = [same_padding(*each) for each in zip(in_shape, window_shape, window_strides,
                                                 strict=True)]  # fmt: skip
    return sides if name == "SAME" else [(high, low) for low, high in sides]


def conv_general_permutations(dimension_numbers: Any) -> tuple[Any, Any, Any]:
    """The orders of axes by which images, taps and results have channels first."""
    rank = len(dimension_numbers[1])
    return tuple(conv_dimension_numbers((1,) * rank, (1,) * rank, dimension_numbers))  # type: ignore[return-value]  # of three


def conv_general_shape_tuple(
    lhs_shape: Any, rhs_shape: Any, window_strides: Any, padding: Any, dimension_numbers: Any
) -> tuple[int, ...]:
    """The shape of `conv_general_dilated`."""
    found = eval_shape(
        lambda x, w: conv_general_dilated(
            x, w, window_strides, padding, dimension_numbers=dimension_numbers
        ),
        ShapeDtypeStruct(lhs_shape, "f32"),
        ShapeDtypeStruct(rhs_shape, "f32"),
    )
    return tuple(found.shape)


def conv_shape_tuple(
    lhs_shape: Any, rhs_shape: Any, strides: Any, pads: Any, batch_group_count: int = 1
) -> tuple[int, ...]:
    """The shape of a convolution of channels first."""
    batch, *others = lhs_shape
    if batch_group_count < 1 or batch % batch_group_count:
        raise ShapeError(
            f"batch_group_count is {batch_group_count} for a batch of {batch}",
            source=calling_source(),
            remedy="give a number of groups that divides the batch",
        )
    shape = (batch // batch_group_count, *others)
    return conv_general_shape_tuple(shape, rhs_shape, strides, pads, None)


@function
def conv_general_dilated_patches(
    lhs: Any, filter_shape: Sequence[int], window_strides: Sequence[int], padding: Any,
    lhs_dilation: Any = None, rhs_dilation: Any = None, dimension_numbers: Any = None,
    precision: Any = None, preferred_element_type: Any = None,
) -> Array:  # fmt: skip
    """What each window covers, as channels: those of the image, and positions in each of them.

    A convolution by taps that are one at a place each, of a group for each channel.
    """
    (lhs,) = inexact(lhs)
    rank = len(filter_shape) + 2
    numbers = conv_dimension_numbers(lhs.shape, (1,) * rank, dimension_numbers)
    channels, size = static_shape(lhs)[numbers.lhs_spec[1]], math.prod(filter_shape)
    taps = rnp.reshape(rnp.eye(size, dtype=lhs.dtype), (size, 1, *filter_shape))
    places = [numbers.rhs_spec.index(axis) for axis in range(rank)]
    taps = rnp.transpose(rnp.tile(taps, (channels, *[1] * (rank - 1))), places)
    return conv_general_dilated(
        lhs, taps, window_strides, padding, lhs_dilation, rhs_dilation, numbers, channels,
        precision=precision, preferred_element_type=preferred_element_type,
    )  # fmt: skip


@function
def conv_general_dilated_local(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any, filter_shape: Sequence[int],
    lhs_dilation: Any = None, rhs_dilation: Any = None, dimension_numbers: Any = None,
    precision: Any = None,
) -> Array:  # fmt: skip
    """A convolution whose taps are others at each position of the result.

    `rhs` has the positions of the result as its axes of space, and what a window covers as inputs.
    """
    patches = conv_general_dilated_patches(
        lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers,
        precision,
    )  # fmt: skip
    numbers = conv_dimension_numbers(rnp.shape(lhs), rnp.shape(rhs), dimension_numbers)
    x = rnp.transpose(patches, numbers.out_spec)
    w = rnp.transpose(rhs, numbers.rhs_spec)
    found = rnp.einsum("bi...,oi...->bo...", x, w)
    places = [numbers.out_spec.index(axis) for axis in range(len(numbers.out_spec))]
    return rnp.transpose(found, places)


def reduce_window_shape_tuple(
    operand_shape: Any, window_dimensions: Any, window_strides: Any, padding: Any,
    base_dilation: Any = None, window_dilation: Any = None,
) -> tuple[int, ...]:  # fmt: skip
    """The shape of `reduce_window`."""
    ones = (1,) * len(operand_shape)
    found = []
    for extent, size, step, (low, high), inner, apart in zip(
        operand_shape, window_dimensions, window_strides, padding, base_dilation or ones,
        window_dilation or ones, strict=True,
    ):  # fmt: skip
        spread = 0 if extent == 0 else (extent - 1) * inner + 1
        reach = (size - 1) * apart + 1
        found.append(max(0, (spread + low + high - reach) // step + 1))
    return tuple(found)
