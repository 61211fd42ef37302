"""Gaussian splatting in NumPy: the lists of tiles."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.splat.layout import Screen
from rlx.splat.projection import COEFFICIENTS_OF, ELLIPSE, EVERYWHERE, PROJECT, SLACK

Array: TypeAlias = NDArray[Any]

splat_project, splat_coefficients = PROJECT.reference, COEFFICIENTS_OF.reference


def touched_tiles(outline: Array, screen: Screen) -> Array:
    """Return the tiles that an outline touches, row by row."""
    if outline[7] != ELLIPSE:
        everything: Array = np.arange(screen.tiles if outline[7] == EVERYWHERE else 0)
        return everything
    cx, cy, q00, q01, q11 = outline[:5]
    size = float(screen.tile_size)
    x0 = (np.arange(screen.columns) * size - cx)[None, :]
    y0 = (np.arange(screen.rows) * size - cy)[:, None]
    x1, y1 = x0 + size, y0 + size

    def form(x: Array, y: Array) -> Array:
        value: Array = q00 * x * x + 2.0 * q01 * x * y + q11 * y * y
        return value

    corners = [form(x, y) for x in (x0, x1) for y in (y0, y1)]
    upright = [form(x, np.clip(-q01 * x / q11, y0, y1)) for x in (x0, x1)]
    level = [form(np.clip(-q01 * y / q00, x0, x1), y) for y in (y0, y1)]
    least = np.minimum.reduce([*corners, *upright, *level])
    least = np.where((x0 <= 0) & (x1 >= 0) & (y0 <= 0) & (y1 >= 0), 0.0, least)
    touched: Array = np.flatnonzero(least <= 1.0 + SLACK)
    return touched


def splat_tile_counts(outlines: Array, *, width: int, height: int, tile_size: int) -> Array:
    screen = Screen(width, height, tile_size)
    return np.array([len(touched_tiles(o, screen)) for o in outlines], np.int32)


def splat_visits(order: Array, counts: Array, *, max_list_entries: int) -> tuple[Array, Array]:
    visits = np.zeros((len(counts), 2), np.int64)
    after = np.cumsum(counts[order], dtype=np.int64)
    visits[order, 0], visits[order, 1] = after - counts[order], after
    total = int(after[-1])
    stored = min(total, max_list_entries)
    return visits, np.array([stored, total - stored])


def _entries_in_order(
    order: Array, visits: Array, outlines: Array, screen: Screen, room: int
) -> tuple[Array, Array]:
    """Return the rank of the splat of each entry, and its tile, as they are visited."""
    listed = [(rank, splat) for rank, splat in enumerate(order) if np.diff(visits[splat])[0]]
    tiles = [touched_tiles(outlines[splat], screen) for _, splat in listed]
    ranks = [np.full(len(t), rank) for (rank, _), t in zip(listed, tiles, strict=True)]
    none = [np.zeros(0, np.int64)]
    return np.concatenate(ranks or none)[:room], np.concatenate(tiles or none)[:room]


def _block_of(length: int, blocks: int) -> Array:
    """Return the block of each of `length` splats."""
    bounds = np.arange(1, blocks + 1) * length // blocks
    return np.searchsorted(bounds, np.arange(length), side="right")


def _places_from(starts: Array, bins: Array) -> Array:
    """Return a place for each entry: one after the other from where its bin starts."""
    order = np.argsort(bins, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(bins))
    places: Array = starts.reshape(-1)[bins] + rank - np.searchsorted(bins[order], bins)
    return places


def splat_entry_counts(
    order: Array, visits: Array, outlines: Array, *, width: int, height: int, tile_size: int,
    max_list_entries: int, blocks: int,
) -> Array:  # fmt: skip
    screen = Screen(width, height, tile_size)
    ranks, tiles = _entries_in_order(order, visits, outlines, screen, max_list_entries)
    bins = _block_of(len(order), blocks)[ranks] * screen.tiles + tiles
    counts = np.bincount(bins, minlength=blocks * screen.tiles)
    return counts.reshape(blocks, screen.tiles).astype(np.int32)


def splat_entries(
    order: Array, visits: Array, outlines: Array, starts: Array, totals: Array, *, width: int,
    height: int, tile_size: int, max_list_entries: int,
) -> tuple[Array, Array]:  # fmt: skip
    del totals
    screen = Screen(width, height, tile_size)
    ranks, tiles = _entries_in_order(order, visits, outlines, screen, max_list_entries)
    bins = _block_of(len(order), len(starts))[ranks] * screen.tiles + tiles
    places = _places_from(starts, bins)
    entries, visited = np.zeros((2, max_list_entries), np.int32)
    entries[places], visited[places] = order[ranks], np.arange(len(ranks))
    return entries, visited
