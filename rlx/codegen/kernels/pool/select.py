"""Max pooling by position: reads and additions at the position of each window's maximum.

A block of windows is compared tap by tap, so that the lanes are neighboring windows; the tap
that won is kept. A second pass over the taps reads or adds where it is the one that won: the
windows read distinct elements at one tap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from rlx.codegen.kernels.access import GroupedReader, Reader, Writer
from rlx.codegen.kernels.contraction.borders import ceil_div
from rlx.codegen.kernels.parallel import LOOP_NAMES, rows
from rlx.codegen.kernels.pool.pool import (
    Block,
    Windows,
    blocks,
    lanes,
    outer_taps,
    windows_of,
)
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.shape import coordinates
from rlx.codegen.kernels.values import literal, real
from rlx.codegen.loops.expr import E, const, maximum, minimum, select
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.ir.ops.pool_geometry import WindowAxis
from rlx.ir.shape import product

NOWHERE = -1
"""The tap of a window without a maximum."""


@kernel("max_pool_take")
def max_pool_take(scope: Scope, x: Reader, values: Reader, y: Writer, **geometry: Any) -> None:
    """Take the element of `values` at each window's first maximum of `x`."""
    k, windows = scope.k, windows_of(x.shape, **geometry)
    source, taken = x.grouped(windows.groups), values.grouped(windows.groups)
    target = y.grouped(windows.groups)
    lines = (windows.leading, *(axis.count for axis in windows.outer))
    with rows(k, "row", scope.extents(product(lines)), x.type.elements) as row:
        leading, *place = coordinates(scope, row, lines)
        image, chosen = source.at(leading), taken.at(leading)
        line = target.at(leading, *place)
        with blocks(scope, windows) as block:
            winner = _winners(scope, windows, image, x.prim, place, block)
            with lanes(scope, windows, block, scope.extents(0), block.width) as (i, c):
                line.write(block.first + i, block.column + c, value=literal(0, y.dtype))
            with _taps(scope, windows, place, block) as tap:
                at = block.first + tap.window, block.column + tap.column
                value = real(chosen.read(*tap.position, block.column + tap.column))
                won = k.load(winner, tap.at).eq(tap.number)
                line.write(*at, value=select(won, value, line.written(*at)))


@kernel("max_pool_backward")
def max_pool_backward(scope: Scope, x: Reader, dy: Reader, dx: Writer, **geometry: Any) -> None:
    """Add `dy` of each window where `x` has its first maximum."""
    k, windows = scope.k, windows_of(x.shape, **geometry)
    source, gradient = x.grouped(windows.groups), dy.grouped(windows.groups)
    target = dx.grouped(windows.groups)
    every, lead = tuple(range(len(x.shape))), len(windows.groups[0])
    whole = dx.grouped((every[:lead], every[lead:]))
    with rows(k, "row", source.extent(0), x.type.elements) as row:
        image, incoming = source.at(row), gradient.at(row)
        sums, plane = target.at(row), whole.at(row)
        with k.loop("i", plane.extent(0), kind=LoopKind.SIMD) as i:
            plane.write(i, value=literal(0.0, dx.dtype))
        with _places(scope, windows) as place, blocks(scope, windows) as block:
            line = incoming.at(*place)
            winner = _winners(scope, windows, image, x.prim, place, block)
            with _taps(scope, windows, place, block) as tap:
                won = k.load(winner, tap.at).eq(tap.number)
                value = real(line.read(block.first + tap.window, block.column + tap.column))
                at = *tap.position, block.column + tap.column
                sums.write(*at, value=sums.written(*at) + select(won, value, 0.0))


@dataclass(frozen=True, slots=True)
class Tap:
    """One tap of one window of a block."""

    number: E
    """Which of the window's taps, in row-major order."""
    window: E
    """Which of the block's windows."""
    column: E
    at: E
    """The place of window and column in local arrays."""
    position: tuple[E, ...]
    """Its position on the spatial axes."""


def _winners(
    scope: Scope,
    windows: Windows,
    image: GroupedReader,
    prim: Prim,
    place: Sequence[E],
    block: Block,
) -> Buffer:
    """Return a local array: the tap of each window's first maximum, or `NOWHERE`."""
    k, elements = scope.k, windows.width * windows.columns
    best = k.local("best", prim, elements)
    winner = k.local("winner", Prim.I32, elements)
    with lanes(scope, windows, block, scope.extents(0), block.width) as (i, c):
        k.store(best, i * windows.columns + c, const(float("-inf"), prim))
        k.store(winner, i * windows.columns + c, const(NOWHERE, Prim.I32))
    with _taps(scope, windows, place, block) as tap:
        value = k.let("value", real(image.read(*tap.position, block.column + tap.column)))
        before = k.let("before", k.load(best, tap.at))
        beats = k.let("beats", (value > before) | (value.ne(value) & before.eq(before)))
        k.store(best, tap.at, select(beats, value, before))
        k.store(winner, tap.at, select(beats, tap.number, k.load(winner, tap.at)))
    return winner


@contextmanager
def _taps(scope: Scope, windows: Windows, place: Sequence[E], block: Block) -> Iterator[Tap]:
    """Loop over the taps of a block's windows, in order, and inside over the windows in lanes."""
    k, last = scope.k, windows.last
    with outer_taps(scope, windows, place) as (positions, before), k.loop("tap", last.size) as tap:
        shift = k.let("shift", tap * last.dilation - last.low)
        number = k.let("number", (before * last.size + tap).cast(Prim.I32))
        start, stop = _windows_inside(scope, last, block, shift)
        with lanes(scope, windows, block, start, stop) as (i, c):
            at = k.let("at", i * windows.columns + c)
            position = (block.first + i) * last.stride + shift
            yield Tap(number, i, c, at, (*positions, position))


def _windows_inside(scope: Scope, last: WindowAxis, block: Block, shift: E) -> tuple[E, E]:
    """Return the range of the block's windows whose tap at `shift` is inside the operand."""
    k = scope.k
    if last.is_inside:
        return scope.extents(0), block.width
    first = k.let("first", maximum(ceil_div(shift * -1, last.stride), block.first))
    end = minimum(
        ceil_div(scope.extents(last.extent) - shift, last.stride), block.first + block.width
    )
    start = k.let("start", first - block.first)
    return start, k.let("stop", maximum(end - block.first, start))


@contextmanager
def _places(scope: Scope, windows: Windows) -> Iterator[list[E]]:
    """Loop over the lines of windows of one plane."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(scope.k.loop(f"{name}_window", scope.extents(axis.count)))
            for name, axis in zip(LOOP_NAMES, windows.outer, strict=False)
        ]
