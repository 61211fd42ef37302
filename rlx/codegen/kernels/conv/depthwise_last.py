"""Depthwise convolution of images whose channels are contiguous: channels fill the vectors.

The loops are those of `contraction.tiles`: rows of a tile are positions of an image row, a panel is
one vector of channels, which both operands are read along, and all taps along a row are unrolled,
so that each element is loaded once for all taps that read it. Borders are computed in place.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.contraction.addresses import Iteration, map_of
from rlx.codegen.kernels.contraction.borders import Border
from rlx.codegen.kernels.contraction.spans import Axis
from rlx.codegen.kernels.contraction.stores import ColumnStore
from rlx.codegen.kernels.contraction.tiles import PANELS, ROWS, Order, Tiles
from rlx.codegen.kernels.register_tile import multiply_add
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import compute_prim
from rlx.codegen.loops.nodes import LoopKind
from rlx.ir.declaration import takes
from rlx.ir.lowering import Windowed
from rlx.ir.ops.conv_geometry import ConvAttributes, static, three
from rlx.ir.shape import product

_MOST_POSITIONS = 8
_REGISTERS_BESIDE, _REGISTERS_EACH = 4, 3
"""Registers of a tile: taps and to spare, and for a position its sum and about two elements."""


@kernel("conv_channels_last", lowering=Windowed)
@takes(ConvAttributes)
def conv_depthwise_channels_last(
    scope: Scope,
    x: Reader,
    w: Reader,
    out: Writer,
    window: ConvAttributes,
    *,
    lowering: Windowed,
) -> None:
    rank, axes, found = len(out.shape), len(out.shape) - 2, map_of(scope)
    layers, rows, columns = three(tuple(map(static, out.shape[1:-1])))
    layer, down = tuple(range(1, rank - 3)), tuple(range(max(1, rank - 3), rank - 2))
    iteration = Iteration(scope, found, [(0,), layer], down, (rank - 2,), rank - 1, axes)
    lanes = min(lowering.lanes, 1 << (window.groups.bit_length() - 1))
    budget = (scope.target.vector_registers - _REGISTERS_BESIDE) // _REGISTERS_EACH
    size = max(1, min(_MOST_POSITIONS, budget, columns))
    spatial = zip(window.sliding(rank), x.shape[1:], w.shape, range(axes), strict=False)
    borders = {
        axis: Border(sliding, static(extent), static(taps), 4 - axes + axis)
        for sliding, extent, taps, axis in spatial
    }
    target = out.grouped(tuple((axis,) for axis in range(rank)))
    work = product((*out.shape, *w.shape[:-2]))
    again = not any(memory.may_alias for memory in scope.body.inputs.values())
    order = Order(
        ("image", "layer", ROWS, PANELS),
        rows,
        1,
        across_first=True,
        stores_again=again,
        unrolls=True,
    )
    Tiles(
        scope.k,
        scope.extents,
        [("image", out.shape[0]), ("layer", layers)],
        Axis("row", rows),
        Axis("column", columns, size),
        iteration.steps(("z", "a", "b")[3 - axes :]),
        iteration.rows(x, lanes=lanes),
        iteration.panels(w, lanes, prefetched=False),
        ColumnStore(scope.k, target, (0, *range(4 - axes, 4))),
        lanes,
        compute_prim(out.dtype),
        multiply_add,
        order,
        borders,
    ).compute(LoopKind.PARALLEL if scope.is_large(work) else LoopKind.SERIAL)
