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
from rlx.codegen.kernels.contraction.tiles import Tiles
from rlx.codegen.kernels.register_tile import multiply_add
from rlx.codegen.kernels.registry import Scope
from rlx.codegen.kernels.values import compute_prim
from rlx.codegen.loops.nodes import LoopKind
from rlx.ir.lowering import Schedule
from rlx.ir.ops.conv_geometry import ConvAttributes, static, three
from rlx.ir.shape import product


def convolve_channels(
    scope: Scope, x: Reader, w: Reader, out: Writer, window: ConvAttributes, schedule: Schedule
) -> None:
    """Convolve each channel with taps of its own, as `schedule` says."""
    rank, axes, found = len(out.shape), len(out.shape) - 2, map_of(scope)
    layers, rows, columns = three(tuple(map(static, out.shape[1:-1])))
    layer, down = tuple(range(1, rank - 3)), tuple(range(max(1, rank - 3), rank - 2))
    iteration = Iteration(scope, found, [(0,), layer], down, (rank - 2,), rank - 1, axes)
    spatial = zip(window.sliding(rank), x.shape[1:], w.shape, range(axes), strict=False)
    borders = {
        axis: Border(sliding, static(extent), static(taps), 4 - axes + axis)
        for sliding, extent, taps, axis in spatial
    }
    target = out.grouped(tuple((axis,) for axis in range(rank)))
    work = product((*out.shape, *w.shape[:-2]))
    again = not any(memory.may_alias for memory in scope.body.inputs.values())
    Tiles(
        scope.k,
        scope.extents,
        [("image", out.shape[0]), ("layer", layers)],
        Axis("row", rows),
        Axis("column", columns, schedule.across),
        iteration.steps(("z", "a", "b")[3 - axes :]),
        iteration.rows(x, lanes=schedule.lanes),
        iteration.panels(w, schedule.columns, ahead=schedule.prefetch),
        ColumnStore(scope.k, target, (0, *range(4 - axes, 4))),
        compute_prim(out.dtype),
        multiply_add,
        schedule,
        borders=borders,
        stores_again=again,
    ).compute(LoopKind.PARALLEL if scope.is_large(work) else LoopKind.SERIAL)
