"""Panels of output channels that lie side by side: asked for, and stored in vectors."""

from __future__ import annotations

from rlx.codegen.kernels.access import GroupedWriter
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, index, minimum
from rlx.codegen.loops.nodes import Buffer, LoopKind

_AHEAD = 8
"""Rows of a panel that are asked for before they are needed."""

_LINE = 64
"""Bytes of a cache line."""


def ask_for_row(k: KernelBuilder, panels: Buffer, row: E, columns: int) -> None:
    """Fetch the row of `columns` weights that comes some rows behind the one at `row`."""
    line = max(1, _LINE // panels.prim.size)
    with k.loop("j", columns, step=line, kind=LoopKind.UNROLL) as j:
        k.prefetch(panels, row + (_AHEAD * columns + j))


def channels_of(k: KernelBuilder, panel: E, columns: int, outputs: int) -> tuple[E, E]:
    """Return the first channel of a panel of `columns`, and how many of `outputs` it holds."""
    first = k.let("first_channel", panel * columns)
    if outputs % columns == 0:
        return first, index(columns)
    return first, k.let("channels", minimum(outputs - first, columns))


def write_channels(
    k: KernelBuilder,
    line: GroupedWriter,
    sums: Buffer,
    at: E,
    channels: tuple[E, E],
    lanes: int,
    outputs: int,
) -> None:
    """Compute what follows on the channels of one position, vector by vector, and store."""
    first, count = channels
    whole = count / lanes * lanes
    with k.loop("j", whole, step=lanes) as j:
        line.write_vector(first + j, value=k.load(sums, at + j, lanes))
    if outputs % lanes:
        with k.loop("j", count, start=whole) as j:
            line.write(first + j, value=k.load(sums, at + j))
