"""Cutting the weights of a convolution into the panels of channels that direct ones read."""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.parallel import is_large
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.expr import const, minimum
from rlx.codegen.loops.nodes import LoopKind
from rlx.ir.shape import product


@kernel("pack_channels")
def pack_channels(scope: Scope, w: Reader, packed: Writer, *, width: int, groups: int) -> None:
    """Write the channels of a panel side by side for each input channel and tap."""
    k, rank = scope.k, len(w.shape)
    outputs = w.shape[0]
    assert isinstance(outputs, int)  # type inference demands it
    source = w.grouped(((0,), tuple(range(1, rank))))
    target = packed.grouped(((0, 1), tuple(range(2, rank + 1)), (rank + 1,)))
    each = outputs // groups
    panels = -(-each // width)
    kind = LoopKind.PARALLEL if is_large(product(w.shape)) else LoopKind.SERIAL
    with k.loop("panel", groups * panels, kind=kind) as panel:
        first = k.let("first_channel", panel % panels * width)
        count = k.let("count", minimum(each - first, width))
        channel = k.let("channel", panel / panels * each + first)
        with k.loop("p", source.extent(1)) as p:
            with k.loop("j", count) as j:
                target.write(panel, p, j, value=source.read_real(channel + j, p))
            if each % width:
                with k.loop("j", width, start=count) as j:
                    target.write(panel, p, j, value=const(0, w.prim))
