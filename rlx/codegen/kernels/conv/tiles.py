"""Convolutions in register tiles, over an input that is read in place.

The loops are those of `contraction.tiles`: rows of a tile are positions of an image row (or of
several), panels are output channels, and the folded axes are input channels and taps. No copy of
the windows is made, for any stride and dilation. Images whose channels are contiguous are stored
in vectors of channels; of others the finished tile is transposed in registers.
"""

from __future__ import annotations

from functools import partial

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.contraction.addresses import Axes, Iteration, map_of
from rlx.codegen.kernels.contraction.operands import Copy
from rlx.codegen.kernels.contraction.spans import Axis
from rlx.codegen.kernels.contraction.stores import ColumnStore, Store, TransposedStore
from rlx.codegen.kernels.contraction.tiles import PANELS, ROWS, Order, Tiles
from rlx.codegen.kernels.conv.panel_order import panel_order
from rlx.codegen.kernels.parallel import product_loop
from rlx.codegen.kernels.register_tile import accumulate_of
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import compute_prim
from rlx.ir.declaration import takes
from rlx.ir.lowering import Direct
from rlx.ir.ops.conv_channels_last import planes_of
from rlx.ir.ops.conv_geometry import ConvAttributes, Planes, static
from rlx.ir.shape import floor_divide, product

_REACH = 256 * 1024
"""Bytes of planes beyond which a row of each is more pages than the first-level TLB holds, in few
sets of the cache."""

_MOST_COPIED = 64 * 1024
"""Bytes of a row of all planes that are copied, on the stack."""

_FEW_WEIGHTS = 512 * 1024
"""Bytes of weights that every row may read again: they stay in the second-level cache."""

_TAPS = ("z", "a", "b")


@takes(ConvAttributes)
def _convolve(
    scope: Scope,
    x: Reader,
    w: Reader,
    out: Writer,
    window: ConvAttributes,
    *,
    lowering: Direct,
    channels_last: bool = False,
) -> None:
    rank, found = len(x.shape), map_of(scope)
    planes = (planes_of if channels_last else Planes.of)(x.shape, w.shape, window.sliding(rank))
    # Axes of the map, and of the result: `layers`, if there are any, then those of a tile's rows.
    layers, down, across = _spatial(rank, planes, 1 if channels_last else 3)
    group, column = (rank - 1, rank) if channels_last else (1, 2)
    iteration = Iteration(scope, found, [(0,), (group,), layers], down, across, column)
    copies = not channels_last and _copies(planes, out.shape[1], window.groups, lowering, x)
    far = not channels_last and planes.taps == (1, 1, 1) and not planes.flat
    names = _TAPS[5 - rank :]
    outputs = static(found.outer[column])
    Tiles(
        scope.k,
        scope.extents,
        [("image", x.shape[0]), ("group", window.groups), ("layer", planes.positions[0])],
        Axis("row", planes.positions[1], lowering.high),
        Axis("column", planes.positions[2], lowering.wide),
        iteration.steps((*names, "c") if channels_last else ("c", *names)),
        iteration.rows(x, prefetched=far),
        # Without prefetches GCC unrolls loops over taps until the sums no longer fit registers.
        iteration.panels(w, lowering.columns, prefetched=True),
        _store(scope, out, layers, down, across, outputs, channels_last=channels_last),
        lowering.lanes,
        compute_prim(out.dtype),
        accumulate_of(found.combine, w.prim),
        _order(x, w, planes, lowering, outputs, window.groups, copies=copies),
    ).compute(product_loop(product((*found.outer, *found.folded))))


kernel("conv", "conv_bytes", "conv_bf16", lowering=Direct)(_convolve)
kernel("conv_channels_last", lowering=Direct)(partial(_convolve, channels_last=True))


def _spatial(rank: int, planes: Planes, first: int) -> tuple[Axes, Axes, Axes]:
    """Return the spatial axes, from `first` on, that are layers, rows and columns of planes."""
    spatial = tuple(range(first, first + rank - 2))
    if planes.flat:
        return (), (), spatial
    return spatial[:-2], spatial[-2:-1], spatial[-1:]


def _store(
    scope: Scope,
    out: Writer,
    layers: Axes,
    down: Axes,
    across: Axes,
    outputs: int,
    *,
    channels_last: bool,
) -> Store:
    if channels_last:
        groups = [axes for axes in (layers, down, across) if axes]
        target = out.grouped(((0,), *groups, (len(out.shape) - 1,)))
        return ColumnStore(scope.k, target, (0, *range(5 - len(groups), 5)))
    # The map splits channels in two axes.
    groups = [tuple(axis - 1 for axis in axes) for axes in (layers, down, across) if axes]
    target = out.grouped(((0,), (1,), *groups))
    return TransposedStore(scope.k, target, (0,), (2,) * bool(layers), 1, outputs, bool(down))


def _copies(planes: Planes, outputs: object, groups: int, tile: Direct, x: Reader) -> bool:
    """True if single taps read many planes far apart: a row of all of them is copied.

    Rows of so many planes evict each other from the first-level cache and its TLB, and every panel
    would fetch them again.
    """
    if planes.taps != (1, 1, 1) or planes.flat or tile.high != 1:
        return False
    row, plane, size = planes.positions[2], product(planes.extents), x.prim.size
    assert isinstance(outputs, int)
    weights = planes.channels * -(-(outputs // groups) // tile.columns) * tile.columns
    return (
        isinstance(row, int)
        and isinstance(plane, int)
        and planes.channels * plane * size > _REACH
        and planes.channels * row * size <= _MOST_COPIED
        and weights * size <= _FEW_WEIGHTS
    )


def _order(
    x: Reader,
    w: Reader,
    planes: Planes,
    tile: Direct,
    outputs: int,
    groups: int,
    *,
    copies: bool,
) -> Order:
    bands = floor_divide(planes.positions[1] + (tile.high - 1), tile.high)
    if copies:
        comment = "A row of each plane, copied side by side."
        copy = Copy(planes.channels, True, comment)
        return Order(("image", "group", "layer", ROWS, PANELS), bands, 1, copy)
    panels = -(-outputs // tile.columns)
    chosen = panel_order(x.shape, w.shape, x.prim.size, bands, panels * groups)
    blocks = floor_divide(bands + (chosen.bands - 1), chosen.bands)
    first, last = ("group", PANELS), ("image", "layer", ROWS)
    return Order((*first, *last) if chosen.panels_first else (*last, *first), blocks, panels)
