"""Layouts: the order of a tensor's elements in memory, if not row-major.

A layout is part of a tensor's type: `f32[384, 10]{panels(width = 32)}` has the shape and the
elements of `f32[384, 10]`, which are stored in another order. Only ops that say so read such a
tensor (`@lowered_by(..., layouts=...)`); the reference interpreter computes with its elements.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import ShapeError
from rlx.ir.shape import Extent, Shape, floor_divide, format_shape


@dataclass(frozen=True, slots=True)
class Panels:
    """Matrices cut into panels of `width` columns: `[..., ceil(columns / width), rows, width]`.

    Each panel is dense, so that a product reads it in one stream; the last one is padded with
    zeros.
    """

    width: int

    def stored_shape(self, shape: Shape) -> Shape:
        """Return the row-major shape of the stored elements."""
        if len(shape) < 2 or self.width < 1:
            raise ShapeError(
                f"shape {format_shape(shape)} has no layout {self}: {_MATRIX}",
                remedy="reshape to a matrix or give another layout",
            )
        return (*shape[:-2], panels_of(shape[-1], self.width), shape[-2], self.width)

    def elements(self, stored: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """Return the tensor of `shape` whose stored form is given."""
        *batch, rows, columns = shape
        side_by_side = np.swapaxes(stored, -3, -2)
        wide = side_by_side.reshape(*batch, rows, stored.shape[-3] * self.width)
        return wide[..., :columns]

    def __str__(self) -> str:
        return f"panels(width = {self.width})"


@dataclass(frozen=True, slots=True)
class ChannelPanels:
    """Weights `[C_out, C_in / groups, *taps]` cut into panels of `width` output channels.

    Stored as `[groups, panels, C_in / groups, *taps, width]`: a convolution reads each panel in one
    stream, as many output channels of one group side by side as a register tile has columns. The
    last panel of a group is padded with zeros.
    """

    width: int
    groups: int = 1

    def stored_shape(self, shape: Shape) -> Shape:
        """Return the row-major shape of the stored elements."""
        outputs = shape[0] if shape else None
        known = isinstance(outputs, int) and self.groups >= 1 and outputs % self.groups == 0
        if len(shape) < 2 or not known or self.width < 1:
            raise ShapeError(
                f"shape {format_shape(shape)} has no layout {self}: {_CHANNELS}",
                remedy="reshape or give another layout",
            )
        assert isinstance(outputs, int)
        panels = -(-(outputs // self.groups) // self.width)
        return (self.groups, panels, *shape[1:], self.width)

    def elements(self, stored: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """Return the tensor of `shape` whose stored form is given."""
        outputs, *rest = shape
        channels = np.moveaxis(stored, -1, 2)
        by_group = channels.reshape(self.groups, stored.shape[1] * self.width, *rest)
        return by_group[:, : outputs // self.groups].reshape(shape)

    def __str__(self) -> str:
        return f"channel_panels(width = {self.width}, groups = {self.groups})"


@dataclass(frozen=True, slots=True)
class WinogradPanels:
    """Weights `[3, 3, C_in, C_out]` at the points of Winograd's tiles of `step` by `step` results.

    Stored as `[(step + 2)^2, panels, C_in, width]`, in panels as wide as a register tile; the last
    one is padded with zeros.
    """

    step: int
    width: int

    def stored_shape(self, shape: Shape) -> Shape:
        """Return the row-major shape of the stored elements."""
        if len(shape) != 4 or shape[:2] != (3, 3) or self.step not in (2, 4):
            raise ShapeError(
                f"shape {format_shape(shape)} has no layout {self}: {_TAPS}",
                remedy="give another layout",
            )
        return Panels(self.width).stored_shape(((self.step + 2) ** 2, *shape[2:]))

    def elements(self, stored: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """Return the tensor of `shape` whose stored form is given, to some roundings."""
        from rlx.ir.winograd import on_both_axes, transforms  # few programs need it

        points = Panels(self.width).elements(stored, (len(stored), *shape[2:]))
        inverse = np.linalg.pinv(on_both_axes(transforms(self.step).taps))
        return np.tensordot(inverse, points, 1).reshape(shape).astype(stored.dtype)

    def __str__(self) -> str:
        return f"winograd_panels(step = {self.step}, width = {self.width})"


def panels_of(columns: Extent, width: int) -> Extent:
    """Return how many panels of `width` hold so many columns."""
    return floor_divide(columns + (width - 1), width)


Layout: TypeAlias = Panels | ChannelPanels | WinogradPanels

_CHANNELS = "it must have a static number of output channels that the groups divide"
_MATRIX = "it must be of rank 2 at least, and a panel have a column"
_TAPS = "it must be of three by three taps with channels last, and steps be 2 or 4"
LAYOUTS: dict[str, type[Layout]] = {
    "panels": Panels,
    "channel_panels": ChannelPanels,
    "winograd_panels": WinogradPanels,
}
"""Every layout by its name in the text form."""
