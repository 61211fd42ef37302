"""Windows that slide over the spatial axes of a tensor: their positions and their number.

The spatial axes are the last ones but `inner`, as many as `kernel_size` has entries. Window
`o` of an axis holds the positions `o * stride + tap * dilation - low` for its `size` taps;
those outside `[0, extent)` are padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from rlx.dataclass import dataclass
from rlx.errors import ShapeError
from rlx.ir.demands import is_nonnegative
from rlx.ir.op import Attrs
from rlx.ir.ops.conv_geometry import per_axis, require_length
from rlx.ir.shape import Extent, Shape, floor_divide, format_shape, is_at_most

Sizes: TypeAlias = tuple[int, ...]
"""One number per spatial axis; none at all means the default."""

Padding: TypeAlias = tuple[int | tuple[int, int], ...]
"""One width per spatial axis, for both ends or as (low, high)."""


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """The windows along one axis."""

    extent: Extent
    size: int
    stride: int
    dilation: int
    low: int
    high: int
    count: Extent
    """How many windows there are: the extent of the result."""

    @property
    def dilated_size(self) -> int:
        """How many positions a window spans."""
        return self.dilation * (self.size - 1) + 1

    @property
    def span(self) -> Extent:
        """How many positions all windows span, counted from `-low`."""
        return (self.count - 1) * self.stride + self.dilated_size

    @property
    def is_inside(self) -> bool:
        """True if no window holds padding, for all values of symbols."""
        return self.low == 0 and is_at_most(self.span, self.extent)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoolAttributes(Attrs):
    """How the windows of a pool slide over the spatial axes, which `inner` axes follow."""

    kernel_size: Sizes
    stride: Sizes = ()
    padding: Padding = ()
    dilation: Sizes = ()
    ceil_mode: bool = False
    inner: int = 0

    def axes(self, shape: Shape) -> tuple[WindowAxis, ...]:
        """Return the windows along each spatial axis of an operand, checked."""
        return window_axes(shape, **self.as_dict())

    def result(self, shape: Shape) -> Shape:
        """Return the shape of what an operand is pooled to."""
        return windowed_shape(shape, self.axes(shape), self.inner)


def window_axes(
    shape: Shape,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Padding = (),
    dilation: Sizes = (),
    *,
    ceil_mode: bool = False,
    inner: int = 0,
) -> tuple[WindowAxis, ...]:
    """Return the windows along each spatial axis of `shape`, checked.

    `ceil_mode` adds a window for positions that are left over, if it starts before the high
    padding.
    """
    count = len(kernel_size)
    first = len(shape) - inner - count
    if not 1 <= count <= 3 or inner < 0 or first < 0:
        raise ShapeError(
            f"kernel_size {kernel_size} with {inner} inner axes does not fit shape "
            f"{format_shape(shape)}; it names 1, 2 or 3 of the axes",
            remedy="give one window extent per spatial axis",
        )
    sizes = per_axis("kernel_size", kernel_size, count, default=1, least=1)
    strides = per_axis("stride", stride, count, default=1, least=1)
    steps = per_axis("dilation", dilation, count, default=1, least=1)
    widths = _widths(padding, count)
    return tuple(
        _window_axis(shape[first + axis], size, strides[axis], steps[axis], widths[axis], ceil_mode)
        for axis, size in enumerate(sizes)
    )


def windowed_shape(shape: Shape, axes: Sequence[WindowAxis], inner: int = 0) -> Shape:
    """Return `shape` with the number of windows on each spatial axis."""
    end = len(shape) - inner
    return (*shape[: end - len(axes)], *(axis.count for axis in axes), *shape[end:])


def _window_axis(
    extent: Extent,
    size: int,
    stride: int,
    dilation: int,
    widths: tuple[int, int],
    ceil_mode: bool,
) -> WindowAxis:
    low, high = widths
    reach = dilation * (size - 1) + 1
    rest = extent + low + high - reach
    if not is_nonnegative(rest):
        raise ShapeError(
            f"a window of {reach} positions is larger than the padded extent "
            f"{extent} + {low} + {high}",
            remedy="give a smaller window, or more padding",
        )
    if ceil_mode:
        rest = extent + low + _after_last_start(reach, stride, high)
    count = floor_divide(rest, stride) + 1
    return WindowAxis(extent, size, stride, dilation, low, high, count)


def _after_last_start(reach: int, stride: int, high: int) -> int:
    """Return by how much more than the extent with its low padding the last window may start.

    There is one more window where positions are left over, unless it starts in the high padding.
    """
    missing = high - reach + stride
    return min(missing, max(missing - stride, 0)) - 1


def _widths(padding: Padding, count: int) -> list[tuple[int, int]]:
    require_length("padding", padding, count)
    pairs = [(width, width) if isinstance(width, int) else width for width in padding]
    if any(width < 0 for pair in pairs for width in pair):
        raise ShapeError(
            f"padding {padding} holds a number below 0",
            remedy="slice the operand instead of padding it by negative widths",
        )
    return pairs or [(0, 0)] * count
