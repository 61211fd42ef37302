"""The columns for which one tap of a window that reaches outside of its operand has an element."""

from __future__ import annotations

from collections.abc import Callable

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, Operand, maximum, minimum
from rlx.codegen.loops.nodes import LoopKind
from rlx.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Clip:
    """Column `j` reads element `(j * stride - back) / spacing` where that is one of `extent`."""

    stride: int
    spacing: int
    back: E
    extent: Operand


def each_column(
    k: KernelBuilder, clip: Clip, first: E, end: E, body: Callable[[E, E], None]
) -> None:
    """Build `body` in loops over the pairs of a column in `[first, end)` and its element."""
    if clip.spacing == 1:
        _by_column(k, clip, first, end, body)
    elif clip.stride == 1:
        _by_element(k, clip, first, end, body)
    else:
        _tested(k, clip, first, end, body)


def _by_column(
    k: KernelBuilder, clip: Clip, first: E, end: E, body: Callable[[E, E], None]
) -> None:
    start = k.let("start", maximum(first, _ceiling(clip.back, clip.stride)))
    stop = k.let("stop", minimum(end, _ceiling(clip.extent + clip.back, clip.stride)))
    with k.loop("j", stop, start=start, kind=LoopKind.SIMD) as j:
        body(j, j * clip.stride - clip.back)


def _by_element(
    k: KernelBuilder, clip: Clip, first: E, end: E, body: Callable[[E, E], None]
) -> None:
    """Elements are apart: go over those that columns read."""
    start = k.let("start", _ceiling(first - clip.back, clip.spacing))
    stop = k.let("stop", minimum(clip.extent, _ceiling(end - clip.back, clip.spacing)))
    with k.loop("i", stop, start=start, kind=LoopKind.SIMD) as i:
        body(i * clip.spacing + clip.back, i)


def _tested(k: KernelBuilder, clip: Clip, first: E, end: E, body: Callable[[E, E], None]) -> None:
    """Columns and elements are both apart: test each column."""
    with k.loop("j", end, start=first) as j:
        at = k.let("at", j * clip.stride - clip.back)
        with k.if_(is_element(at, clip.spacing, clip.extent)):
            body(j, at / clip.spacing)


def is_element(at: E, spacing: int, extent: Operand) -> E:
    """Return whether there is an element at a position that counts the zeros between them."""
    inside = (at >= 0) & (at < extent * spacing)
    return inside & (at % spacing).eq(0) if spacing > 1 else inside


def _ceiling(numerator: E, divisor: int) -> E:
    """Return the quotient rounded up, or 0 for what is negative: division rounds towards 0."""
    return (maximum(numerator, 0) + (divisor - 1)) / divisor
