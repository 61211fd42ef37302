"""Ranges of positions: the tiles along one axis, and the items of work that threads share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

from rlx.codegen.kernels.extents import Extents
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, index, maximum, minimum
from rlx.codegen.loops.nodes import Const, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.ir.shape import Extent, Shape, product, upper

_COUNTED = ("batch", "group", "image", "item", "layer")
"""Parts that loops over nothing else are named by; of others a number is that of a row."""

MOST_SUMMED = 512
"""Steps of long folded axes that are summed one after another: the sums of parts are added up,
so that rounding errors grow with the number of parts and of steps in one, not with their product.
"""

Number: TypeAlias = int | E
Range: TypeAlias = tuple[E, E]


@dataclass(frozen=True, slots=True)
class Axis:
    """A result axis whose positions are rows of a tile, `size` of them at a time."""

    name: str
    extent: Extent = 1
    size: int = 1
    overlaps: bool = True
    """True if the last tile moves back to end with the axis; a smaller one covers it otherwise."""
    is_ragged: bool = False
    """True if tiles cover any range of positions, whose ends are known at run time."""
    repeats: bool = False
    """True if the last tile reads the last position in place of missing ones: for copied rows."""


@dataclass(frozen=True, slots=True)
class Span:
    """The positions of a tile along one axis, and which of them it stores."""

    start: E
    size: int
    first: E
    """The first position that no tile before has stored."""
    stop: Number
    end: E | None = None
    """Elements from there on are not read; None if all positions may be."""

    @classmethod
    def of(cls, start: E, size: int) -> Span:
        """Return a span whose positions are all stored."""
        return cls(start, size, index(0), size)

    def read(self, i: E) -> E:
        """Return position `i` of the axis, or the last one that may be read."""
        at = self.start + i
        return at if self.end is None else minimum(at, self.end - 1)


def each_tile(
    k: KernelBuilder, axis: Axis, extents: Extents, whole: Range, body: Callable[[Span], None]
) -> None:
    """Build `body` for the tiles that cover the range `whole` of an axis."""
    if axis.extent == 1:
        body(Span.of(index(0), 1))
    elif axis.repeats:
        (start, end), size = whole, axis.size
        with k.loop(axis.name, end, start=start, step=size) as at:
            body(Span(at, size, index(0), k.let("stop", minimum(end - at, size)), end))
    elif axis.overlaps:
        with k.loop(axis.name, whole[1], start=whole[0], step=axis.size) as at:
            body(_overlapping(k, axis, extents, at))
    else:
        _shrinking(k, axis, extents, whole, body)


def overlapping(
    k: KernelBuilder, at: E, size: int, start: int, stop: int, *, again: bool = False
) -> Span:
    """Return the span of the tile at `at` of some in `[start, stop)`; the last ends with them.

    It stores `again` what the one before has stored, or leaves it out.
    """
    if (stop - start) % size == 0:
        return Span.of(at, size)
    first = k.let("start", minimum(at, stop - size))
    if again:
        return Span.of(first, size)
    return Span(first, size, k.let("done_before", at - first), size)


def _overlapping(k: KernelBuilder, axis: Axis, extents: Extents, at: E) -> Span:
    """Return the span of the tile at `at`; the last one moves back to end with the axis.

    A symbolic extent may be shorter than a tile, which then reads elements after the axis: memory
    is planned for the largest extent, which no tile exceeds.
    """
    extent, size = axis.extent, axis.size
    if isinstance(extent, int):
        return overlapping(k, at, size, 0, extent)
    start = k.let("start", minimum(at, maximum(extents(extent - size), 0)))
    stop = k.let("stop", minimum(extents(extent) - start, size))
    return Span(start, size, k.let("done_before", at - start), stop)


def _shrinking(
    k: KernelBuilder, axis: Axis, extents: Extents, whole: Range, body: Callable[[Span], None]
) -> None:
    """Build whole tiles, and one for the positions left, of as many rows as are left."""
    (first, end), size = whole, axis.size
    known = isinstance(axis.extent, int) and not axis.is_ragged
    tail = first + (end - first) / size * size
    if not isinstance(tail.node, Const):
        tail = k.let("tail", tail)
    if tail.node != first.node:
        with k.loop(axis.name, tail, start=first, step=size) as at:
            body(Span.of(at, size))
    left = upper(axis.extent) % size if known else size
    if left and known and end.node == extents(axis.extent).node:
        body(Span.of(tail, left))
    elif left:
        with k.if_(tail < end):
            stop = left if known else k.let("stop", minimum(end - tail, left))
            body(Span(tail, left, index(0), stop, None if known else end))


def is_long_sum(prim: Prim, folded: Shape) -> bool:
    """True if sums over some axes are rounded, and better made of the sums of parts."""
    return prim.is_float and upper(product(folded)) > 2 * MOST_SUMMED


@contextmanager
def items(
    k: KernelBuilder, parts: Sequence[tuple[str, Number]], kind: LoopKind
) -> Iterator[dict[str, E]]:
    """Loop over all combinations of some parts, the last of which changes fastest.

    Yields the number of each part by name.
    """
    numbers = {name: index(0) for name, _ in parts}
    several = [(name, count) for name, count in parts if not _is_one(count)]
    total = index(1)
    for _, count in several:
        total = total * count
    alone = several[0][0] if len(several) == 1 else "item"
    with k.loop(alone if alone in _COUNTED else "row", total, kind=kind) as rest:
        for name, count in reversed(several[1:]):
            numbers[name] = k.let(name, rest % count)
            rest = k.let("rest", rest / count)
        if several:
            numbers[several[0][0]] = rest
        yield numbers


@contextmanager
def summed_apart(
    k: KernelBuilder, steps: Sequence[Range], folded: Sequence[tuple[str, Extent]]
) -> Iterator[list[Range]]:
    """Open the loops over parts of some steps of the folded axes, given by name and extent.

    Steps of a group, or the taps inside of an image, are a range that no part divides.
    """
    with ExitStack() as loops:
        found = list(steps)
        for number, size in enumerate(_part_sizes(tuple(extent for _, extent in folded))):
            (start, stop), (name, _) = steps[number], folded[number]
            name = name if size == 1 else "part"
            first = loops.enter_context(k.loop(name, stop, start=start, step=size))
            end, count = first + size, count_of((start, stop))
            if size > 1 and (count is None or count % size):
                end = k.let("stop", minimum(end, stop))
            found[number] = first, end
        yield found


def count_of(steps: Range) -> int | None:
    """Return how many steps a range has, None if that varies."""
    start, stop = steps
    if stop.node == (start + MOST_SUMMED).node:
        return MOST_SUMMED
    count = (stop - start).node
    return int(count.value) if isinstance(count, Const) else None


def _part_sizes(folded: Shape) -> list[int]:
    """Return how many steps a part has along each of the leading axes; others are not cut."""
    inner = 1
    for axis in reversed(range(len(folded))):
        extent = max(1, upper(folded[axis]))
        if inner * extent > MOST_SUMMED:
            return [1] * axis + [MOST_SUMMED // inner]
        inner *= extent
    return []


def part_of(k: KernelBuilder, name: str, number: E, parts: Number, total: Number) -> Range:
    """Return where part `number` of `parts` even ones of `total` starts and stops."""
    if _is_one(parts):
        return index(0), index(total)
    if parts == total:
        return number, number + 1
    if isinstance(total, int) and isinstance(parts, int) and total % parts == 0:
        first = k.let(f"first_{name}", number * (total // parts))
        return first, k.let(f"end_{name}", first + total // parts)
    first = k.let(f"first_{name}", number * total / parts)
    return first, k.let(f"end_{name}", (number + 1) * total / parts)


def _is_one(count: Number) -> bool:
    return isinstance(count, int) and count == 1
