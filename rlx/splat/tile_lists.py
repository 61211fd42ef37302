"""The splats of each tile, near to far: one stable pass of a radix sort with tiles as digits.

Entries come in the order in which splats are visited, by distance; so this is their order by
(tile, distance), ties by splat. Blocks of splats are counted and moved as keys of a long sort are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rlx.custom import DType, Value, ops
from rlx.splat.layout import Screen
from rlx.splat.stages import splat_entries, splat_entry_counts, splat_visits

_MOST_BLOCKS = 32
_LEAST_BLOCK = 512
"""Splats of a block: what they touch takes longer than to count once more for each tile."""
_MOST_COUNTERS = 1 << 20


class TileLists(NamedTuple):
    """The lists of all tiles, one after the other."""

    entries: Value
    """The splat of each entry."""
    places: Value
    """The number of its visit."""
    ranges: Value
    """Where the list of each tile begins and ends, `[tiles, 2]`."""
    visits: Value
    """Where the visits of each splat begin and end, `[n, 2]`."""
    totals: Value
    """How many entries are stored, and dropped."""


def tile_lists(
    order: Value, counts: Value, outlines: Value, screen: Screen, max_list_entries: int
) -> TileLists:
    """List the splats of each tile, visiting them in `order`, until there is no room."""
    given: dict[str, Any] = {
        "width": screen.width, "height": screen.height, "tile_size": screen.tile_size,
        "max_list_entries": max_list_entries,
    }  # fmt: skip
    visits, totals = splat_visits(order, counts, max_list_entries=max_list_entries)
    blocks = _block_count(outlines, screen)
    by_block = splat_entry_counts(order, visits, outlines, **given, blocks=blocks)
    starts = _starts(by_block)
    entries, places = splat_entries(order, visits, outlines, starts, totals, **given)
    return TileLists(entries, places, _ranges(starts, totals, screen.tiles), visits, totals)


def _block_count(outlines: Value, screen: Screen) -> int:
    """Return in how many blocks splats are taken; it depends on shapes alone."""
    splats = outlines.shape[0]
    assert isinstance(splats, int)  # scenes have static extents
    return max(1, min(_MOST_BLOCKS, splats // _LEAST_BLOCK, _MOST_COUNTERS // screen.tiles))


def _starts(counts: Value) -> Value:
    """Return where the entries of each block and tile begin: tiles, then blocks in each."""
    by_tile = ops.transpose(counts, perm=(1, 0))
    flat = ops.reshape(by_tile, shape=(counts.type.elements,))
    before = ops.cumsum(flat, axis=0, exclusive=True)
    return ops.transpose(ops.reshape(before, shape=by_tile.shape), perm=(1, 0))


def _ranges(starts: Value, totals: Value, tiles: int) -> Value:
    """Return begin and end of each list: where its first block starts, and the next list's."""
    begins = ops.reshape(ops.narrow(starts, axis=0, start=0, length=1), shape=(tiles,))
    stored = ops.cast(ops.narrow(totals, axis=0, start=0, length=1), to=DType.I32)
    ends = ops.concat(ops.narrow(begins, axis=0, start=1, length=tiles - 1), stored, axis=0)
    columns = [ops.reshape(side, shape=(tiles, 1)) for side in (begins, ends)]
    return ops.concat(*columns, axis=1)
