"""Tile binning: the splats of each tile, near to far, by one stable pass of a radix sort.

An outline touches consecutive tiles in each row of tiles: an ellipse is convex, and so is its
part in the row. Splats are visited by distance, in blocks that threads share: first to count the
entries of each tile, then to write them after those of earlier blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rlx.custom import TensorType
from rlx.custom.kernels import (
    Buffer,
    E,
    KernelBuilder,
    LoopKind,
    Prim,
    Reader,
    Scope,
    UnaryOp,
    Writer,
    blocks,
    const,
    each_block,
    given,
    maximum,
    minimum,
    result,
    row_count,
    select,
    upper,
)
from rlx.errors import InternalError
from rlx.splat.arithmetic import clamped, root
from rlx.splat.layout import OUTLINE, Screen
from rlx.splat.projection import ELLIPSE, EVERYWHERE, SLACK

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
        """Return the first and last tile whose closed interval intersects `low .. high`."""
        k, size = self.k, float(self.screen.tile_size)
        first = (low / size - 1.0).unary(UnaryOp.CEIL)
        last = (high / size).unary(UnaryOp.FLOOR)
        return (
            k.let("first", clamped(first, 0.0, float(count)).cast(Prim.I64)),
            k.let("last", clamped(last, -1.0, float(count - 1)).cast(Prim.I64)),
        )


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


def splat_visits(
    scope: Scope, order: Reader, counts: Reader, visits: Writer, totals: Writer, *,
    max_list_entries: int,
) -> None:  # fmt: skip
    k = scope.k
    total = k.mutable("total", const(0, Prim.I64))
    with k.loop("rank", row_count(order)) as rank:
        splat = k.let("splat", k.load(given(order), rank))
        k.store(result(visits), splat * 2, total)
        total.set(total + k.load(given(counts), splat).cast(Prim.I64))
        k.store(result(visits), splat * 2 + 1, total)
    stored = k.let("stored", minimum(total, max_list_entries))
    k.store(result(totals), 0, stored)
    k.store(result(totals), 1, total - stored)


@dataclass(frozen=True, slots=True)
class _Visits:
    """The entries of blocks of splats, in the order in which these are visited."""

    k: KernelBuilder
    order: Buffer
    visits: Buffer
    outlines: Buffer
    screen: Screen
    room: int

    @contextmanager
    def of_block(self, first: E, last: E) -> Iterator[tuple[E, E, E]]:
        """Open loops over a block's entries that there is room for: splat, tile, visit."""
        k = self.k
        with k.loop("rank", last, start=first) as rank:
            splat = k.let("splat", k.load(self.order, rank))
            visit = k.mutable("visit", k.load(self.visits, splat * 2))
            with (
                spans(k, self.outlines, splat, self.screen) as (row, begin, end),
                k.loop("tile_column", end, start=begin) as column,
                k.if_(visit < self.room),
            ):
                yield splat, k.let("tile", row * self.screen.columns + column), visit
                visit.set(visit + 1)


def splat_entry_counts(
    scope: Scope,
    order: Reader,
    visits: Reader,
    outlines: Reader,
    counts: Writer,
    *,
    width: int,
    height: int,
    tile_size: int,
    max_list_entries: int,
    blocks: int,
) -> None:
    k, screen = scope.k, Screen(width, height, tile_size)
    entries = _Visits(
        k, given(order), given(visits), given(outlines), screen, max_list_entries
    )  # fmt: skip
    with each_block(k, row_count(order), blocks) as (block, first, last):
        with k.loop("t", screen.tiles, kind=LoopKind.SIMD) as t:
            k.store(result(counts), block * screen.tiles + t, 0)
        with entries.of_block(first, last) as (_, tile, _):
            at = k.let("at", block * screen.tiles + tile)
            k.store(result(counts), at, k.load(result(counts), at) + 1)


def entries_scratch(operands: list[TensorType], results: list[TensorType], **_: object) -> int:
    """Bytes for where the next entry of each block and tile goes."""
    del results
    starts = operands[3]
    return 4 * upper(starts.elements)


def splat_entries(
    scope: Scope,
    order: Reader,
    visits: Reader,
    outlines: Reader,
    starts: Reader,
    totals: Reader,
    entries: Writer,
    places: Writer,
    *,
    width: int,
    height: int,
    tile_size: int,
    max_list_entries: int,
) -> None:
    k, screen, blocks = scope.k, Screen(width, height, tile_size), row_count(starts)
    following = scope.scratch
    if following is None:
        raise InternalError("splat_entries needs scratch")
    listed = _Visits(k, given(order), given(visits), given(outlines), screen, max_list_entries)
    stored = k.let("stored", k.load(given(totals), 0))
    free = k.let("free", max_list_entries - stored)
    with each_block(k, row_count(order), blocks) as (block, first, last):
        with k.loop("t", screen.tiles, kind=LoopKind.SIMD) as t:
            at = block * screen.tiles + t
            k.store(following, at, k.load(given(starts), at))
        with listed.of_block(first, last) as (splat, tile, visit):
            at = k.let("at", block * screen.tiles + tile)
            place = k.let("place", k.load(following, at))
            k.store(following, at, place + 1)
            k.store(result(entries), place.cast(Prim.I64), splat.cast(Prim.I32))
            k.store(result(places), place.cast(Prim.I64), visit.cast(Prim.I32))
        unused = stored + block * free / blocks
        with k.loop("i", stored + (block + 1) * free / blocks, start=unused) as i:
            k.store(result(entries), i, 0)
            k.store(result(places), i, 0)
