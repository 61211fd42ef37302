"""Kernel of transposes, the movement that is tiled.

The other movement ops (expand, slice, concat, pad, ...) are elementwise regions of one node.
"""

from __future__ import annotations

from dataclasses import replace

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.affine import collapse
from rlx.codegen.kernels.elementwise import region
from rlx.codegen.kernels.grouped import operand_position
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.registry import Scope, kernel, no_kernel
from rlx.codegen.loops.expr import E, minimum
from rlx.codegen.loops.nodes import LoopKind
from rlx.ir.graph import Node
from rlx.ir.index_maps import address, identity
from rlx.ir.shape import Shape, product

no_kernel("refuse_derivative", because="legalization replaces it by its operand")
no_kernel("bytes_as_words", because="its result is its operand's memory")
no_kernel("barrier", because="it orders nodes before lowering, and its result is its operand")

TILE = 16
"""Edge of a transposed tile: its source and target lines both stay in the first-level cache."""


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
    across = next((group for group in groups if moved.coefficients[group[-1]] == 1), ())
    if not groups or across == groups[-1]:
        return (), (), ()
    rest = [axis for group in groups if group not in (across, groups[-1]) for axis in group]
    return tuple(rest), across, groups[-1]


def coordinates(scope: Scope, index: E, shape: Shape) -> list[E]:
    """Name the coordinates of a flat index into `shape`."""
    found: list[E] = []
    for axis, extent in enumerate(shape):
        rest = index / scope.extents(product(shape[axis + 1 :]))
        at = rest if axis == 0 else rest % scope.extents(extent)
        found.append(at if at is index else scope.k.let(f"at_{axis}", at))
    return found
