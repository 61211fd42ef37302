"""Addresses of the operands of a contraction, derived from its map and the layout of its panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from rlx.codegen.kernels.access import Reader
from rlx.codegen.kernels.affine import Grid
from rlx.codegen.kernels.contraction.borders import Border
from rlx.codegen.kernels.contraction.operands import Panels, StoredRows
from rlx.codegen.kernels.memory import given
from rlx.codegen.kernels.registry import Scope
from rlx.codegen.loops.expr import E
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.fold_maps import FoldMap, contraction_map
from rlx.ir.index_maps import Index, Position, address, zero
from rlx.ir.layout import ChannelPanels, Layout, panels_of
from rlx.ir.shape import Extent, Shape, floor_divide, product, upper

Axes: TypeAlias = tuple[int, ...]
"""Axes of a map that one index runs along, the last fastest."""


def map_of(scope: Scope) -> FoldMap:
    """Return the contraction map of a kernel's anchor."""
    found = None if scope.body.anchor is None else contraction_map(scope.body.anchor)
    if found is None:
        raise InternalError("a kernel of a contraction has an anchor without a contraction map")
    return found


@dataclass(frozen=True, slots=True)
class TileAxes:
    """Roles of the axes of a contraction in a tile: rows, columns, and outer axes."""

    items: Mapping[str, Axes]
    """Axes that items of work run along, as the order of a schedule names them."""
    down: Axes
    across: Axes
    """Axes of a tile's rows."""
    column: int
    """The axis that panels are cut along."""
    steps: tuple[str, ...]
    """Names of the folded axes."""
    borders: Mapping[int, Border] = field(default_factory=dict)
    """Of the first folded axes by number, the windows that may reach outside of the rows' operand.
    Steps run along these alone; without any, along all folded axes of more than one element."""

    @property
    def groups(self) -> list[Axes]:
        """The axes of each index of a tile: those of items, then down and across."""
        return [*self.items.values(), self.down, self.across]


@dataclass(frozen=True, slots=True)
class Iteration:
    """The axes of a contraction's map, gathered for loops over tiles."""

    scope: Scope
    map: FoldMap
    axes: TileAxes

    def rows(self, x: Reader, *, prefetched: bool = False, lanes: int = 0) -> StoredRows:
        """Return the operand of rows, read from memory: scalars, or vectors along the columns."""
        where = address(self.map.positions[0], x.shape, len(self._shape))
        *outer, down, across = (self._stride(axes, where) for axes in self.axes.groups)
        steps = [self._stride(axes, where) for axes in self._folded]
        origin = self.scope.extents.number(where.constant)
        return StoredRows(
            self.scope.k, given(x), outer, down, across, steps, origin, prefetched, lanes
        )

    def panels(self, w: Reader, width: int, *, ahead: int) -> Panels:
        """Return the operand whose elements are vectors, `width` columns of them in a panel."""
        number, columns = self.scope.extents.number, self._shape[self.axes.column]
        panel, where = self._panel(w, width)
        return Panels(
            self.scope.k,
            given(w),
            width,
            number(columns),
            number(panels_of(columns, width)),
            [self._stride(axes, where) for axes in self.axes.items.values()],
            None if panel is None else number(panel),
            [self._stride(axes, where) for axes in self._folded],
            upper(panels_of(columns, width)),
            ahead,
        )

    def _panel(self, w: Reader, width: int) -> tuple[Extent | None, Index]:
        """Return the elements from a panel to the next, and where its first column is."""
        position = tuple(_without(index, self.axes.column) for index in self.map.positions[1])
        layout, rank = w.type.layout, len(self._shape)
        if layout is not None:
            stored = layout.stored_shape(w.shape)
            axis, place = _in_panels(layout, position, w.shape, rank)
            return product(stored[axis + 1 :]), address(place, stored, rank)
        single = w.shape[-1] == width  # rows of the matrix are those of a panel
        return 0 if single else None, address(position, w.shape, rank)

    @property
    def steps(self) -> list[tuple[str, Extent]]:
        """The folded axes that steps run along, by name."""
        names, kept = self.axes.steps, self.map.kept
        return [(names[axis - kept], self._shape[axis]) for (axis,) in self._folded]

    @property
    def _folded(self) -> Sequence[Axes]:
        """The folded axes that steps run along; the last one if none has several elements."""
        kept, rank = self.map.kept, len(self._shape)
        if self.axes.borders:
            return [(axis,) for axis in range(kept, kept + len(self.axes.borders))]
        return [(axis,) for axis in range(kept, rank) if self._shape[axis] != 1] or [(rank - 1,)]

    @property
    def _shape(self) -> Shape:
        return (*self.map.outer, *self.map.folded)

    def _stride(self, axes: Axes, where: Index) -> int | E:
        """Return the elements from one index along `axes` to the next."""
        runs = Grid.over(self._shape, (axes,), self.scope.extents).runs(0, where)
        if len(runs) > 1:
            raise InternalError(f"axes {axes} of a contraction are several runs of an operand")
        return self.scope.extents.number(runs[0][1] if runs else 0)


def _without(index: Index, axis: int) -> Index:
    """Return an index that is read at 0 along `axis`."""
    coefficients = enumerate(index.coefficients)
    return Index(tuple(0 if at == axis else c for at, c in coefficients), index.constant)


def _in_panels(layout: Layout, position: Position, shape: Shape, rank: int) -> tuple[int, Position]:
    """Return which stored axis is that of panels, and where column 0 of panel 0 is stored.

    `position` is that of column 0 in the tensor of `shape`.
    """
    first = zero(rank)
    if isinstance(layout, ChannelPanels):
        channels, *rest = position
        each = floor_divide(shape[0], layout.groups)
        group = Index(tuple(c if c == 0 else 1 for c in channels.coefficients))
        assert channels == group.scaled(each)
        return 1, (group, first, *rest, first)
    *outer, row, _ = position
    return len(outer), (*outer, first, row, first)
