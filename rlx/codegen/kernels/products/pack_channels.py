"""Packing of convolution weights into panels of output channels.

Where panels are whole vectors, weights are transposed in registers: squares of as many channels
and taps as a vector has lanes. Elements of one tap are far apart in memory, often by a power of
two, so that one by one they would share a few sets of the cache.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.parallel import is_large
from rlx.codegen.kernels.registry import Scope
from rlx.codegen.kernels.transposes import turned
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, Operand, const, fma, index, minimum
from rlx.codegen.loops.nodes import LoopKind
from rlx.ir.layout import ChannelPanels, WinogradPanels
from rlx.ir.ops.conv_geometry import static
from rlx.ir.shape import product
from rlx.ir.winograd import TAPS, on_both_axes, transforms


def pack_channels(
    scope: Scope, w: Reader, packed: Writer, layout: ChannelPanels, lanes: int
) -> None:
    """Write the channels of a panel side by side for each input channel and tap."""
    k, rank, width, groups = scope.k, len(w.shape), layout.width, layout.groups
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


def pack_points(scope: Scope, w: Reader, packed: Writer, layout: WinogradPanels) -> None:
    """Write what the taps of each pair of channels are at the points, a point in a panel at once.

    Each is a sum over the nine taps, in their order.
    """
    k, width = scope.k, layout.width
    inputs, outputs = map(static, w.shape[2:])
    source, target = w.grouped(((0, 1), (2,), (3,))), packed.grouped(((0,), (1,), (2,), (3,)))
    rows = on_both_axes(transforms(layout.step).taps)
    panels = -(-outputs // width)
    kind = LoopKind.PARALLEL if is_large(product((*w.shape, layout.step))) else LoopKind.SERIAL
    with k.loop("c", inputs, kind=kind) as c, k.loop("panel", panels) as panel:
        first = panel * width
        count = k.let("count", minimum(outputs - first, width))
        with k.loop("j", count, kind=LoopKind.SIMD) as j:
            taps = [
                k.let("tap", source.read_real(index(tap), c, first + j)) for tap in range(TAPS**2)
            ]
            for point, row in enumerate(rows):
                total = const(0, w.prim)
                for factor, tap in zip(row, taps, strict=True):
                    total = fma(const(float(factor), w.prim), tap, total) if factor else total
                target.write(index(point), panel, c, j, value=total)
        if outputs % width:
            with k.loop("j", width, start=count) as j:
                for point in range(len(rows)):
                    target.write(index(point), panel, c, j, value=const(0, w.prim))
