"""Contractions by a schedule: matrix products and convolutions, in register tiles or by a library.

The loops are those of `tiles`; a family of ops says which axes of its map are which of a tile:

                          items           rows of a tile     columns         steps
    matmul                batch           row                column          p
    conv                  image, group    positions          channels        c, then taps
    with channels last    image, group    positions          channels        taps, then c
      each channel alone  image           positions          groups          taps

Elements may be words of four bytes or of two bf16, whose products are summed in i32 or f32. A
convolution makes no copy of its windows, for any stride and dilation. Where each channel is a group
both operands are read along the columns, all taps along a row are unrolled, so that an element is
loaded once for all taps that read it, and borders are computed in place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.contraction.addresses import Iteration, TileAxes, map_of
from rlx.codegen.kernels.contraction.borders import Border
from rlx.codegen.kernels.contraction.operands import ComputedRows
from rlx.codegen.kernels.contraction.spans import Axis
from rlx.codegen.kernels.contraction.stores import ColumnStore, Store, TransposedStore
from rlx.codegen.kernels.contraction.tiles import Tiles
from rlx.codegen.kernels.extents import matrix_groups, row_groups
from rlx.codegen.kernels.parallel import product_loop, weights_loop
from rlx.codegen.kernels.products.blas import product_by_blas
from rlx.codegen.kernels.register_tile import accumulate_of
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import compute_prim
from rlx.codegen.loops.nodes import LoopKind
from rlx.ir.declaration import takes
from rlx.ir.fold_maps import FoldMap
from rlx.ir.lowering import Schedule
from rlx.ir.ops.conv_geometry import ConvAttributes, Planes, static
from rlx.ir.ops.stored_conv import planes_of
from rlx.ir.shape import Extent, product
from rlx.target import Target

_ROWS_OF_VECTORS = 8
"""Rows of a tile that was chosen for a matrix unit, on a machine without one."""


@kernel("matmul", "stored_matmul", "conv", "stored_conv", lowering=Schedule)
def contract_by_schedule(
    scope: Scope,
    x: Reader,
    w: Reader,
    out: Writer,
    *,
    lowering: Schedule,
    left: bool = False,
    right: bool = False,
    elements: str = "plain",
    channels_last: bool = False,
    **window: Any,
) -> None:
    """Sum products as the anchor's map says; `left` and `right` are of products transposed."""
    del elements  # the map says how they are added
    if lowering.library == "blas":
        product_by_blas(scope, x, w, out, left=left, right=right)
        return
    if not _has_unit(lowering, scope.target):
        lowering = replace(lowering, unit="vectors", rows=min(lowering.rows, _ROWS_OF_VECTORS))
    found = map_of(scope)
    axes = (
        _axes_of_windows(x, w, lowering, last=channels_last, **window)
        if window
        else _axes_of_product(w, out)
    )
    shape, alone = (*found.outer, *found.folded), bool(axes.borders)
    down, across = (product(shape[axis] for axis in each) for each in (axes.down, axes.across))
    iteration = Iteration(scope, found, axes)
    stored = bool(window)
    if lowering.unit != "vectors":
        stored = stored or x.memory is not None
        lowering = lowering if stored else replace(lowering, left="copied")
    rows = (
        iteration.rows(x, prefetched=lowering.prefetch_left, lanes=lowering.lanes * alone)
        if stored
        else _computed_rows(x, w, transposed=left)
    )
    Tiles(
        scope.k,
        scope.extents,
        [(name, product(shape[at] for at in each)) for name, each in axes.items.items()],
        Axis("row", down, lowering.rows, overlaps=bool(window) or _is_open(down, lowering)),
        Axis("column", across, lowering.across),
        iteration.steps,
        rows,
        iteration.panels(w, lowering.columns, ahead=lowering.prefetch),
        _store(scope, out, axes, found),
        compute_prim(out.dtype),
        accumulate_of(found.combine, w.prim),
        lowering,
        rows_fastest=left or bool(window),
        borders=axes.borders,
        stores_again=alone and not any(m.may_alias for m in scope.body.inputs.values()),
    ).compute(_loop_kind(scope, lowering, product(shape), alone=alone))


def _axes_of_product(w: Reader, out: Writer) -> TileAxes:
    """Return the axes of one matrix of all rows, or of a batch of products."""
    batch, row, (column,) = (matrix_groups if len(w.shape) > 2 else row_groups)(out.shape)
    return TileAxes({"batch": batch}, row, (), column, ("p",))


@takes(ConvAttributes)
def _axes_of_windows(
    x: Reader, w: Reader, schedule: Schedule, window: ConvAttributes, *, last: bool
) -> TileAxes:
    """Return the axes of positions: layers, and rows and columns unless all are one row."""
    rank, sliding = len(x.shape), window.sliding(len(x.shape))
    taps = ("z", "a", "b")[5 - rank :]
    spatial = tuple(range(1, rank - 1) if last else range(3, rank + 1))
    layers, down, across = spatial[:-2], spatial[-2:-1], spatial[-1:]
    if schedule.border == "in_place":
        items = {"image": (0,), "layer": layers}
        extents = zip(sliding, x.shape[1:], w.shape, strict=False)
        borders = {
            axis: Border(each, static(extent), static(count), 6 - rank + axis)
            for axis, (each, extent, count) in enumerate(extents)
        }
        return TileAxes(items, down, across, rank - 1, taps, borders)
    if (planes_of if last else Planes.of)(x.shape, w.shape, sliding).flat:
        layers, down, across = (), (), spatial
    group, column = (rank - 1, rank) if last else (1, 2)
    items = {"image": (0,), "group": (group,), "layer": layers}
    return TileAxes(items, down, across, column, (*taps, "c") if last else ("c", *taps))


def _has_unit(schedule: Schedule, target: Target) -> bool:
    """True if the target has what multiplies by a schedule."""
    if schedule.unit == "matrix":
        return target.multiplies_byte_matrices
    return schedule.unit == "vectors" or target.multiplies_byte_squares


def _is_open(down: Extent, schedule: Schedule) -> bool:
    """True if tiles of an unknown number of rows move back, as registers have fixed shapes."""
    return schedule.unit == "matrix" and not isinstance(down, int)


def _computed_rows(x: Reader, w: Reader, *, transposed: bool) -> ComputedRows:
    has_batch = len(w.shape) > 2 and len(x.shape) > 2
    batch, row, column = (matrix_groups if len(w.shape) > 2 else row_groups)(x.shape)
    source = x.grouped((batch, row, column) if has_batch else (row, column))
    return ComputedRows(source, x.prim, transposed, int(has_batch))


def _store(scope: Scope, out: Writer, axes: TileAxes, found: FoldMap) -> Store:
    """Return how tiles are stored: by columns where these are contiguous, else transposed."""
    if found.result[-1].varies((axes.column,)):
        order = [n for n, each in enumerate(axes.groups) if each and each[0] < len(out.shape) - 1]
        groups = (*(axes.groups[n] for n in order), (len(out.shape) - 1,))
        return ColumnStore(scope.k, out.grouped(groups), order)
    # The map splits channels in two axes.
    _, _, *spatial = axes.groups
    groups = ((0,), (1,), *(tuple(axis - 1 for axis in each) for each in spatial if each))
    layers, outputs = (2,) * bool(axes.items["layer"]), static(found.outer[axes.column])
    target = out.grouped(groups)
    return TransposedStore(scope.k, target, (0,), layers, 1, outputs, bool(axes.down))


def _loop_kind(scope: Scope, schedule: Schedule, work: Extent, *, alone: bool) -> LoopKind:
    if alone:
        return LoopKind.PARALLEL if scope.is_large(work) else LoopKind.SERIAL
    if schedule.left == "registers":
        return weights_loop(scope.k, work)
    return product_loop(work)
