"""Convolutions in register tiles, over an input that is read in place.

The loops are those of `contraction.tiles`: rows of a tile are positions of an image row (or of
several), panels are output channels, and the folded axes are input channels and taps. No copy of
the windows is made, for any stride and dilation. Images whose channels are contiguous are stored
in vectors of channels; of others the finished tile is transposed in registers.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.contraction.addresses import Axes, Iteration, map_of
from rlx.codegen.kernels.contraction.spans import Axis
from rlx.codegen.kernels.contraction.stores import ColumnStore, Store, TransposedStore
from rlx.codegen.kernels.contraction.tiles import Tiles
from rlx.codegen.kernels.conv.depthwise_last import convolve_channels
from rlx.codegen.kernels.parallel import product_loop
from rlx.codegen.kernels.register_tile import accumulate_of
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import compute_prim
from rlx.ir.declaration import takes
from rlx.ir.lowering import Schedule
from rlx.ir.ops.conv_channels_last import planes_of
from rlx.ir.ops.conv_geometry import ConvAttributes, Planes, static
from rlx.ir.shape import product

_TAPS = ("z", "a", "b")


@takes(ConvAttributes)
def _convolve(
    scope: Scope,
    x: Reader,
    w: Reader,
    out: Writer,
    window: ConvAttributes,
    *,
    lowering: Schedule,
    channels_last: bool = False,
    elements: str = "plain",
) -> None:
    del elements  # the anchor's map says how they are added
    rank, found = len(x.shape), map_of(scope)
    planes = (planes_of if channels_last else Planes.of)(x.shape, w.shape, window.sliding(rank))
    # Axes of the map, and of the result: `layers`, if there are any, then those of a tile's rows.
    layers, down, across = _spatial(rank, planes, 1 if channels_last else 3)
    group, column = (rank - 1, rank) if channels_last else (1, 2)
    iteration = Iteration(scope, found, [(0,), (group,), layers], down, across, column)
    names = _TAPS[5 - rank :]
    outputs = static(found.outer[column])
    Tiles(
        scope.k,
        scope.extents,
        [("image", x.shape[0]), ("group", window.groups), ("layer", planes.positions[0])],
        Axis("row", planes.positions[1], lowering.rows),
        Axis("column", planes.positions[2], lowering.across),
        iteration.steps((*names, "c") if channels_last else ("c", *names)),
        iteration.rows(x, prefetched=lowering.prefetch_left),
        iteration.panels(w, lowering.columns, ahead=lowering.prefetch),
        _store(scope, out, layers, down, across, outputs, channels_last=channels_last),
        compute_prim(out.dtype),
        accumulate_of(found.combine, w.prim),
        lowering,
    ).compute(product_loop(product((*found.outer, *found.folded))))


kernel("conv", "stored_conv", lowering=Schedule)(_convolve)


@kernel("conv_channels_last", lowering=Schedule)
@takes(ConvAttributes)
def _convolve_channels_last(
    scope: Scope,
    x: Reader,
    w: Reader,
    out: Writer,
    window: ConvAttributes,
    *,
    lowering: Schedule,
) -> None:
    if lowering.border == "in_place":
        convolve_channels(scope, x, w, out, window, lowering)
    else:
        _convolve(scope, x, w, out, lowering=lowering, channels_last=True, **window.as_dict())


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
