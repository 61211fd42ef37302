"""The geometry of a convolution: how its window moves along each spatial axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar

from rlx.dataclass import dataclass
from rlx.errors import ShapeError, SymbolicExtentError
from rlx.ir.demands import is_nonnegative
from rlx.ir.op import Attrs
from rlx.ir.shape import Extent, Shape, floor_divide, product

Numbers: TypeAlias = tuple[int, ...]
Pads: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """How the window moves along one axis.

    Result index `i` and tap `t` read the padded input at `i * stride + t * dilation - low`; there
    is an element where that is a multiple of `input_dilation`.
    """

    stride: int = 1
    low: int = 0
    high: int = 0
    """Elements of padding after the input; negative padding crops."""
    dilation: int = 1
    input_dilation: int = 1

    def positions(self, extent: Extent, taps: Extent) -> Extent:
        """Return how many windows of `taps` fit along an axis of `extent`."""
        room = spread(extent, self.input_dilation) + self.low + self.high - dilated_size(taps, self)
        if not is_nonnegative(room):
            raise ShapeError(
                f"a window of {taps} taps, {self.dilation} apart, does not fit {extent} elements "
                f"padded by {self.low} and {self.high}",
                remedy="pad more, or choose a smaller window",
            )
        return floor_divide(room, self.stride) + 1


Geometry: TypeAlias = tuple[WindowDimension, ...]
"""One `WindowDimension` per spatial axis."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConvAttributes(Attrs):
    """How the window of a convolution moves, and which channels it sees.

    Lists have one entry per spatial axis; an empty one means stride 1, no padding, dilation 1.
    """

    stride: Numbers = ()
    padding: Pads = ()
    dilation: Numbers = ()
    input_dilation: Numbers = ()
    groups: int = 1

    def sliding(self, rank: int) -> Geometry:
        """Return the geometry over images of `rank` axes, two of which are not spatial."""
        axes = rank - 2
        return geometry(axes, self.stride, self.padding, self.dilation, self.input_dilation)


def geometry(
    axes: int,
    stride: Numbers = (),
    padding: Pads = (),
    dilation: Numbers = (),
    input_dilation: Numbers = (),
) -> Geometry:
    """Return the geometry over `axes` spatial axes; empty lists mean 1, and no padding."""
    strides = per_axis("stride", stride, axes, default=1, least=1)
    dilations = per_axis("dilation", dilation, axes, default=1, least=1)
    spreads = per_axis("input_dilation", input_dilation, axes, default=1, least=1)
    require_length("padding", padding, axes)
    pads = padding or ((0, 0),) * axes
    return tuple(
        WindowDimension(s, low, high, d, spread)
        for s, (low, high), d, spread in zip(strides, pads, dilations, spreads, strict=True)
    )


def per_axis(name: str, given: Numbers, axes: int, *, default: int, least: int) -> Numbers:
    """Return one number per spatial axis, checked."""
    require_length(name, given, axes)
    if any(number < least for number in given):
        raise ShapeError(
            f"{name} {given} holds a number below {least}", remedy=f"give numbers from {least} on"
        )
    return given or (default,) * axes


def require_length(name: str, given: Sequence[object], axes: int) -> None:
    """Demand that a list is empty or names each spatial axis."""
    if len(given) not in (0, axes):
        raise ShapeError(
            f"{name} {tuple(given)} has {len(given)} entries for {axes} spatial axes",
            remedy=f"give {axes} entries, or none for the default",
        )


def spread(extent: Extent, step: int) -> Extent:
    """Return the extent of an axis whose elements are `step` apart."""
    return extent if extent == 0 or step == 1 else (extent - 1) * step + 1


def dilated_size(taps: Extent, axis: WindowDimension) -> Extent:
    """Return the elements between the first and the last tap, both included."""
    return spread(taps, axis.dilation)


def same_padding(extent: Extent, taps: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Return the zeros with which `extent` elements become `ceil(extent / stride)` windows.

    The second number is the larger one, where one is.
    """
    positions = floor_divide(extent + (stride - 1), stride)
    missing = (positions - 1) * stride + (taps - 1) * dilation + 1 - extent
    if not isinstance(missing, int):
        raise SymbolicExtentError(
            f"padding 'SAME' with stride {stride} depends on {extent}, which is symbolic",
            remedy="give the padding in numbers, or an extent that is a multiple of the stride",
        )
    total = max(missing, 0)
    return total // 2, total - total // 2


def result_extents(spatial: Shape, taps: Shape, sliding: Geometry) -> Shape:
    """Return the spatial shape of a convolution's result."""
    axes = zip(spatial, taps, sliding, strict=True)
    return tuple(axis.positions(extent, count) for extent, count, axis in axes)


def undilated(sliding: Geometry) -> Geometry:
    """Return the geometry over an input that is padded and spread apart already."""
    return tuple(WindowDimension(stride=axis.stride, dilation=axis.dilation) for axis in sliding)


def padded_shape(shape: Shape, sliding: Geometry) -> Shape:
    """Return the shape of images once they are spread apart and padded."""
    axes = zip(shape[2:], sliding, strict=True)
    spatial = (spread(n, axis.input_dilation) + axis.low + axis.high for n, axis in axes)
    return (*shape[:2], *spatial)


def attributes_of(sliding: Geometry) -> dict[str, tuple[object, ...]]:
    """Return the attributes of `conv` that say `sliding`."""
    return {
        "stride": tuple(axis.stride for axis in sliding),
        "padding": tuple((axis.low, axis.high) for axis in sliding),
        "dilation": tuple(axis.dilation for axis in sliding),
        "input_dilation": tuple(axis.input_dilation for axis in sliding),
    }


def static(extent: Extent) -> int:
    """Return an extent that must be known: padding, or an address, is computed from it."""
    if isinstance(extent, int):
        return extent
    raise SymbolicExtentError(
        f"the geometry of a convolution depends on {extent}, which is symbolic",
        remedy="bind the spatial extents",
    )


MOST_COPIED = 64 * 1024
"""Bytes of a padded image up to which a depthwise kernel pads it itself, on the stack."""


def pads_itself(shape: Shape, sliding: Geometry, size: int) -> bool:
    """True if a depthwise kernel may read images of `shape` without padding around them.

    Elements have `size` bytes.
    """
    plain = all(min(a.low, a.high) >= 0 and a.input_dilation == 1 for a in sliding)
    padded = product(padded_shape(shape, sliding)[2:])
    return plain and isinstance(padded, int) and padded * size <= MOST_COPIED


@dataclass(frozen=True, slots=True)
class Planes:
    """A convolution without padding as one over layers, rows and columns.

    Missing axes have extent 1. One over single taps, a step apart, has all positions in one row,
    unless rows are long: bands of rows are what stays in a cache while panels of weights change.
    """

    channels: int
    """Input channels of one group."""
    extents: tuple[Extent, Extent, Extent]
    taps: tuple[int, int, int]
    positions: tuple[Extent, Extent, Extent]
    strides: tuple[int, int, int]
    dilations: tuple[int, int, int]
    flat: bool
    """All spatial axes are one."""

    @classmethod
    def of(cls, x: Shape, w: Shape, sliding: Geometry) -> Planes:
        """Return the planes that operands of these shapes are; windows have known extents."""
        spatial, taps = x[2:], tuple(map(static, w[2:]))
        found = result_extents(spatial, taps, sliding)
        strides = tuple(axis.stride for axis in sliding)
        long = isinstance(spatial[-1], int) and spatial[-1] >= _LONG_ROW
        flat = {*taps, *strides} == {1} and not long
        if flat:
            row = (1, 1, product(spatial))
            return cls(static(w[1]), row, _ONES, row, _ONES, _ONES, flat)
        dilations = tuple(axis.dilation for axis in sliding)
        return cls(
            static(w[1]),
            three(spatial),
            three(taps),
            three(found),
            three(strides),
            three(dilations),
            flat,
        )


_ONES = (1, 1, 1)
_LONG_ROW = 28
"""Elements of a row that tiles cover with next to no waste."""

_Number = TypeVar("_Number", int, Extent)


def three(numbers: tuple[_Number, ...], missing: int = 1) -> tuple[_Number, _Number, _Number]:
    """Return numbers of up to three axes as those of layers, rows and columns."""
    first, second, third = (missing,) * (3 - len(numbers)) + numbers
    return first, second, third
