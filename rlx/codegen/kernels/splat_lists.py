"""The splats of each tile, near to far: one stable pass of a radix sort, with tiles as digits.

An outline touches consecutive tiles in each row of tiles: an ellipse is convex, and so is its
part in the row. Splats are visited by distance, first to count the entries of each tile, then to
write them down.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.parallel import blocks
from rlx.codegen.kernels.registry import Scope, kernel, scratch
from rlx.codegen.kernels.splat import ELLIPSE, EVERYWHERE, SLACK
from rlx.codegen.kernels.splat_frame import clamped, given, result, root, row_count
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, maximum, minimum, select
from rlx.codegen.loops.nodes import Buffer, Prim, UnaryOp
from rlx.errors import InternalError
from rlx.ir.ops.splat_layout import OUTLINE, Screen
from rlx.ir.types import TensorType

_WORK_PER_OUTLINE = 32
"""Elements of plain loops that counting the tiles of one outline costs as much as."""


@contextmanager
def spans(k: KernelBuilder, outlines: Buffer, splat: E, screen: Screen) -> Iterator[tuple[E, E, E]]:
    """Open a loop over rows of tiles that an outline touches; yields the row and its columns."""
    outline = _Outline(k, outlines, splat * OUTLINE, screen)
    kind = k.let("kind", outline.number(7))
    first = k.mutable("first_row", const(0, Prim.I64))
    last = k.mutable("last_row", const(-1, Prim.I64))
    with k.if_(kind.eq(EVERYWHERE)):
        last.set(screen.rows - 1)
    with k.if_(kind.eq(ELLIPSE)):
        outline.rows(first, last)
    with k.loop("tile_row", last + 1, start=first) as row:
        begin = k.mutable("begin", const(0, Prim.I64))
        end = k.mutable("end", const(screen.columns, Prim.I64))
        with k.if_(kind.eq(ELLIPSE)):
            left, right = outline.columns(row)
            begin.set(left)
            end.set(right + 1)
        yield row, begin, end


@dataclass(frozen=True, slots=True)
class _Outline:
    k: KernelBuilder
    memory: Buffer
    at: E
    screen: Screen

    def number(self, column: int) -> E:
        return self.k.load(self.memory, self.at + column)

    def rows(self, first: E, last: E) -> None:
        """Find the rows of tiles between the ellipse's lowest and highest points."""
        k = self.k
        center = k.let("center_y", self.number(1))
        reach = k.let("reach_y", self.number(6) * (1.0 + 0.5 * SLACK))
        low, high = self._tiles(center - reach, center + reach, self.screen.rows)
        first.set(low)  # type: ignore[attr-defined]
        last.set(high)  # type: ignore[attr-defined]

    def columns(self, row: E) -> tuple[E, E]:
        """Find the columns of tiles that the ellipse's part in a row of tiles touches."""
        k, size = self.k, self.screen.tile_size
        cx, cy, q00, q01, q11, ex = (
            k.let(name, self.number(column))
            for column, name in enumerate(("cx", "cy", "q00", "q01", "q11", "ex"))
        )
        low = k.let("low", (row * size).cast(Prim.F64) - cy)
        high = k.let("high", low + float(size))
        rightmost = k.let("rightmost", -q01 / q11 * ex)
        det = k.let("det", q00 * q11 - q01 * q01)
        ends = []
        for sign, at in ((-1.0, -rightmost), (1.0, rightmost)):
            y = k.let("y", maximum(low, minimum(high, at)))
            square = q00 * (1.0 + SLACK) - det * y * y
            slanted = (-q01 * y + sign * root(maximum(square, 0.0))) / q00
            on_top = k.let("on_top", (at >= low) & (at <= high))
            widest = sign * ex * (1.0 + 0.5 * SLACK)
            ends.append(cx + select(on_top, widest, slanted))
        return self._tiles(ends[0], ends[1], self.screen.columns)

    def _tiles(self, low: E, high: E, count: int) -> tuple[E, E]:
        """Return the first and last tile whose closed interval meets `low .. high`."""
        k, size = self.k, float(self.screen.tile_size)
        first = (low / size - 1.0).unary(UnaryOp.CEIL)
        last = (high / size).unary(UnaryOp.FLOOR)
        return (
            k.let("first", clamped(first, 0.0, float(count)).cast(Prim.I64)),
            k.let("last", clamped(last, -1.0, float(count - 1)).cast(Prim.I64)),
        )


@kernel("splat_tile_counts")
def splat_tile_counts(
    scope: Scope, outlines: Reader, counts: Writer, *, width: int, height: int, tile_size: int
) -> None:
    k, rows = scope.k, row_count(outlines)
    screen = Screen(width, height, tile_size)
    work = rows * _WORK_PER_OUTLINE
    with (
        blocks(k, const(rows, Prim.I64), work, size=512) as (start, stop),
        k.loop("i", stop, start=start) as i,
    ):
        total = k.mutable("total", const(0, Prim.I64))
        with spans(k, given(outlines), i, screen) as (_, begin, end):
            total.set(total + maximum(end - begin, 0))
        k.store(result(counts), i, total.cast(Prim.I32))


@scratch("splat_lists", elements=lambda _: Prim.I32)
def lists_scratch(
    operands: list[TensorType], results: list[TensorType], *, width: int, height: int,
    tile_size: int, **_: object,
) -> int:  # fmt: skip
    """Bytes for where the next entry of each tile goes."""
    del operands, results
    return 4 * Screen(width, height, tile_size).tiles


@kernel("splat_lists")
def splat_lists(
    scope: Scope,
    order: Reader,
    counts: Reader,
    outlines: Reader,
    entries: Writer,
    places: Writer,
    ranges: Writer,
    visits: Writer,
    totals: Writer,
    *,
    width: int,
    height: int,
    tile_size: int,
    max_list_entries: int,
) -> None:
    if scope.scratch is None:
        raise InternalError("splat_lists needs scratch")
    screen = Screen(width, height, tile_size)
    lists = _Lists(
        scope.k, given(order), given(outlines), screen, row_count(order), max_list_entries,
        scope.scratch,
    )  # fmt: skip
    total = lists.visit(given(counts), result(visits))
    lists.count(result(ranges))
    lists.write(result(entries), result(places))
    k, stored = scope.k, minimum(total, max_list_entries)
    with k.loop("i", max_list_entries, start=stored) as i:
        k.store(result(entries), i, 0)
        k.store(result(places), i, 0)
    k.store(result(totals), 0, stored)
    k.store(result(totals), 1, total - stored)


@dataclass(frozen=True, slots=True)
class _Lists:
    k: KernelBuilder
    order: Buffer
    outlines: Buffer
    screen: Screen
    splats: int
    room: int
    next: Buffer
    """Of each tile: entries counted, then where the next one goes."""

    def visit(self, counts: Buffer, visits: Buffer) -> E:
        """Number the entries as they are visited; return how many there are."""
        k = self.k
        total = k.mutable("total", const(0, Prim.I64))
        with k.loop("rank", self.splats) as rank:
            splat = k.let("splat", k.load(self.order, rank))
            k.store(visits, splat * 2, total)
            total.set(total + k.load(counts, splat).cast(Prim.I64))
            k.store(visits, splat * 2 + 1, total)
        return total

    def count(self, ranges: Buffer) -> None:
        """Count the entries of each tile and say where they begin and end."""
        k, tiles = self.k, self.screen.tiles
        with k.loop("tile", tiles) as tile:
            k.store(self.next, tile, 0)
        with self._entries() as (_, tile, _):
            k.store(self.next, tile, k.load(self.next, tile) + 1)
        start = k.mutable("start", const(0, Prim.I32))
        with k.loop("tile", tiles) as tile:
            k.store(ranges, tile * 2, start)
            counted = k.let("counted", k.load(self.next, tile))
            k.store(self.next, tile, start)
            start.set(start + counted)
            k.store(ranges, tile * 2 + 1, start)

    def write(self, entries: Buffer, places: Buffer) -> None:
        k = self.k
        with self._entries() as (splat, tile, visited):
            at = k.let("at", k.load(self.next, tile))
            k.store(self.next, tile, at + 1)
            k.store(entries, at.cast(Prim.I64), splat.cast(Prim.I32))
            k.store(places, at.cast(Prim.I64), visited.cast(Prim.I32))

    @contextmanager
    def _entries(self) -> Iterator[tuple[E, E, E]]:
        """Open loops over all entries that there is room for: splat, tile, number of the visit."""
        k = self.k
        visited = k.mutable("visited", const(0, Prim.I64))
        with k.loop("rank", self.splats) as rank:
            splat = k.let("splat", k.load(self.order, rank))
            with (
                spans(k, self.outlines, splat, self.screen) as (row, begin, end),
                k.loop("tile_column", end, start=begin) as column,
                k.if_(visited < self.room),
            ):
                yield splat, k.let("tile", row * self.screen.columns + column), visited
                visited.set(visited + 1)
