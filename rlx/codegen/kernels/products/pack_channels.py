"""Packing of convolution weights into panels of output channels.

Where panels are whole vectors, weights are transposed in registers: squares of as many channels
and taps as a vector has lanes. Elements of one tap are far apart in memory, often by a power of
two, so that one by one they would share a few sets of the cache.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.parallel import is_large
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.transposes import turned
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, Operand, const, index, minimum
from rlx.codegen.loops.nodes import LoopKind
from rlx.ir.lowering import Turned
from rlx.ir.shape import product


@kernel("pack_channels")
@kernel("pack_channels", lowering=Turned)
def pack_channels(
    scope: Scope, w: Reader, packed: Writer, *, width: int, groups: int,
    lowering: Turned | None = None,
) -> None:  # fmt: skip
    """Write the channels of a panel side by side for each input channel and tap."""
    lanes = 1 if lowering is None else lowering.lanes
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
        done: Operand = 0
        if lanes > 1:
            whole = source.extent(1) / lanes * lanes
            done = k.let("whole", whole if each % width == 0 else (count / width) * whole)
            _turn(k, source, target, panel, channel, done, width=width, lanes=lanes)
        with k.loop("p", source.extent(1), start=done) as p:
            with k.loop("j", count) as j:
                target.write(panel, p, j, value=source.read_real(channel + j, p))
            if each % width:
                with k.loop("j", width, start=count) as j:
                    target.write(panel, p, j, value=const(0, w.prim))


def _turn(
    k: KernelBuilder, source: GroupedReader, target: GroupedWriter, panel: E, channel: E,
    end: E, *, width: int, lanes: int,
) -> None:  # fmt: skip
    """Transpose squares of a whole panel, up to `end`."""
    with k.loop("p", end, step=lanes) as p, k.loop("j", width, step=lanes) as j:
        lines = [
            k.let("line", source.read_vector(channel + j + lane, index(p), lanes=lanes))
            for lane in range(lanes)
        ]
        for lane, values in enumerate(turned(k, lines)):
            target.write_vector(panel, p + lane, j, value=values)
