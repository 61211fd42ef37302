"""Movement that is more than reading elsewhere: transpose, concat, pad.

The other movement ops (expand, narrow, slice, reverse) are elementwise regions of one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.affine import collapse
from rlx.codegen.kernels.elementwise import region
from rlx.codegen.kernels.grouped import operand_position
from rlx.codegen.kernels.parallel import is_large, rows
from rlx.codegen.kernels.registry import Scope, kernel, no_kernel
from rlx.codegen.kernels.slices import slices
from rlx.codegen.kernels.values import literal
from rlx.codegen.loops.expr import E, minimum, select
from rlx.codegen.loops.nodes import LoopKind
from rlx.ir.graph import Node
from rlx.ir.index_maps import Index, address, identity
from rlx.ir.shape import Extent, Shape, product, upper

no_kernel("refuse_derivative", because="legalization replaces it by its operand")
no_kernel("barrier", because="it orders nodes before lowering, and its result is its operand")

TILE = 16
"""Edge of a transposed tile: its source and target lines both stay in the first-level cache."""

PIECES = 32
"""Parallel pieces that a concat without outer axes is cut into."""


@kernel("transpose")
def transpose(scope: Scope, x: Reader, y: Writer, *, perm: tuple[int, ...]) -> None:
    """Copy in tiles where the fastest axes of operand and result differ."""
    outer, across, along = _fastest_axes(y.value.node)
    if not across:
        region(replace(scope, body=replace(scope.body, anchors=())))
        return
    target = y.grouped((outer, across, along))
    source = x.grouped(tuple(tuple(perm[axis] for axis in group) for group in target.grid.groups))
    k = scope.k
    height, width = target.extent(1), target.extent(2)
    tiles = (height + (TILE - 1)) / TILE
    with rows(k, "tile", target.extent(0) * tiles, x.type.elements) as tile:
        first = k.let("first", tile % tiles * TILE)
        end = k.let("end", minimum(first + TILE, height))
        x_block, y_block = source.at(tile / tiles), target.at(tile / tiles)
        with k.loop("left", width, step=TILE) as left:
            right = k.let("right", minimum(left + TILE, width))
            _transpose_tile(scope, x_block, y_block, (first, end), (left, right))


def _transpose_tile(
    scope: Scope, x: GroupedReader, y: GroupedWriter, across: tuple[E, E], along: tuple[E, E]
) -> None:
    k = scope.k
    with (
        k.loop("i", across[1], start=across[0]) as i,
        k.loop("j", along[1], start=along[0], kind=LoopKind.SIMD) as j,
    ):
        y.write(i, j, value=x.read(i, j))


def _fastest_axes(node: Node) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the result's axes as (others, those fastest in the operand, those fastest here).

    The second is empty where the same axes are fastest in both.
    """
    x, y = node.operands[0].shape, node.result.shape
    here = identity(y)
    moved = address(operand_position(node, 0, here, len(y)), x, len(y))
    groups = collapse(y, range(len(y)), [address(here, y, len(y)), moved])
    across = next((group for group in groups if _is_fastest(moved, group)), ())
    if not groups or across == groups[-1]:
        return (), (), ()
    rest = [axis for group in groups if group not in (across, groups[-1]) for axis in group]
    return tuple(rest), across, groups[-1]


def _is_fastest(index: Index, group: tuple[int, ...]) -> bool:
    return index.coefficients[group[-1]] == 1


@kernel("concat")
def concat(scope: Scope, *operands_and_result: Reader | Writer, axis: int) -> None:
    """Copy every operand's run of each outer row to its place."""
    *operands, y = operands_and_result
    assert isinstance(y, Writer)  # the result follows the operands
    split = slices(y.shape, axis)
    halves = split.groups[0], (*split.groups[1], *split.groups[2])
    sources = [x.grouped(halves) for x in operands if isinstance(x, Reader)]
    target = y.grouped(halves)
    pieces = PIECES if is_large(y.type.elements) and upper(split.outer) < PIECES else 1
    with rows(scope.k, "row", target.extent(0) * pieces, y.type.elements) as row:
        outer, piece = row / pieces, row % pieces
        y_row = target.at(outer)
        before: Extent = 0
        for source in sources:
            x_row = source.at(outer)
            _copy_piece(scope, x_row, y_row, scope.extents(before), piece, pieces)
            before = before + x_row.extent_of(0)


def _copy_piece(
    scope: Scope, x: GroupedReader, y: GroupedWriter, before: E, piece: E, pieces: int
) -> None:
    k = scope.k
    length = x.extent(0)
    start, stop = length * piece / pieces, length * (piece + 1) / pieces
    with k.loop("i", stop, start=start, kind=LoopKind.SIMD) as i:
        y.write(before + i, value=x.read(i))


@kernel("pad")
def pad(
    scope: Scope,
    x: Reader,
    y: Writer,
    *,
    low: tuple[Extent, ...],
    high: tuple[Extent, ...],
    value: float,
) -> None:
    """Fill rows outside the operand; copy the others between their two margins."""
    del high  # the result's shape says it
    k, rank = scope.k, len(x.shape)
    filler = literal(value, y.dtype)
    if rank == 0:
        y.grouped(((),)).write(scope.extents(0), value=x.grouped(((),)).read(scope.extents(0)))
        return
    axis = _run_axis(x.shape, y.shape)
    leading, row_axes = tuple(range(axis)), tuple(range(axis, rank))
    inner = product(x.shape[axis + 1 :])
    target = y.grouped((leading, row_axes))
    source = x.grouped((*((each,) for each in leading), row_axes))
    with rows(k, "row", target.extent(0), y.type.elements) as row:
        y_row = target.at(row)
        place = coordinates(scope, row, y.shape[:axis])
        seen = [at - scope.extents(before) for at, before in zip(place, low, strict=False)]
        margin = scope.extents(low[axis] * inner)
        length = product(x.shape[axis:])
        end = k.let("end", margin + _span(scope, seen, x.shape[:axis], length))
        with k.loop("i", minimum(margin, end), kind=LoopKind.SIMD) as i:
            y_row.write(i, value=filler)
        with k.loop("i", end, start=margin, kind=LoopKind.SIMD) as i:
            y_row.write(i, value=source.read(*seen, i - margin))
        with k.loop("i", y_row.extent(0), start=end, kind=LoopKind.SIMD) as i:
            y_row.write(i, value=filler)


def _run_axis(x: Shape, y: Shape) -> int:
    """Return the axis from which on an operand's elements are copied in one run.

    That is the last one that grows, unless too few runs would be left for the threads.
    """
    grows = [axis for axis, (before, after) in enumerate(zip(x, y, strict=True)) if before != after]
    axis = grows[-1] if grows else len(x) - 1
    few = is_large(product(y)) and upper(product(y[:axis])) < PIECES
    return len(x) - 1 if few else axis


def _span(scope: Scope, place: Sequence[E], shape: Shape, length: Extent) -> E:
    """Return how many elements of the operand are in a row: `length`, or none outside `shape`."""
    span = scope.extents(length)
    for at, extent in zip(place, shape, strict=True):
        inside = (at >= 0) & (at < scope.extents(extent))
        span = select(inside, span, 0)
    return span


def coordinates(scope: Scope, index: E, shape: Shape) -> list[E]:
    """Name the coordinates of a flat index into `shape`."""
    found: list[E] = []
    for axis, extent in enumerate(shape):
        rest = index / scope.extents(product(shape[axis + 1 :]))
        at = rest if axis == 0 else rest % scope.extents(extent)
        found.append(at if at is index else scope.k.let(f"at_{axis}", at))
    return found
