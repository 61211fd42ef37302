"""Work partitioning and cache blocking of products: items for threads, panels, blocks of K.

    item     a block of row tiles by a group of panels; threads share the items
    group    panels that stay in the second-level cache while row tiles pass by
    depth    elements of K at a time, where rows of `a` are copied together before use

All of it depends on shapes alone, so results are the same for any number of threads.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from dataclasses import replace

from rlx.dataclass import dataclass
from rlx.ir.lowering import PANELS, ROWS, Schedule

_SMALL_PANEL = 16 * 1024
"""Bytes of a panel that the first-level cache keeps: nothing is prefetched."""

_AHEAD, _AHEAD_IN_PLACE = 8, 32
"""Rows of a panel that are prefetched before their use. Rows of an operand that is not packed are
far apart, and no hardware prefetches them."""

_GROUP_BYTES = 512 * 1024
"""Bytes of panels that stay in the second-level cache while the rows of `a` pass by."""

_LINE, _SETS = 64, 64
"""Bytes of a cache line, and sets of a first-level cache."""

WAYS = 6
"""Rows of a tile that may start in one set of the cache; the panel needs ways, too."""

_DEPTH_BYTES = 2 * 1024
"""Bytes that are copied of each row at a time."""

_BLOCK_TILES = 12
"""Row tiles of a block whose sums wait in memory between blocks of K."""

_ALONE = 1 << 20
"""Multiply-adds below which a product stays on one thread."""

_THREADS = ((2, 0.6), (4, 0.25), (8, 0.15))
"""Numbers of threads that should find even shares, and how much each matters."""

_FETCH_PANELS = 0.3
"""Cost of bringing a panel in from memory, in units of a tile's work on it."""

_FETCH_ROWS = 0.06
"""Cost of bringing the rows of a tile close, in units of their work on one panel."""

_ITEM = 0.002
"""Cost of having one more item, in units of the whole product."""


@dataclass(frozen=True, slots=True)
class Split:
    """The cut of one product into `blocks` of row tiles by `groups` of panels."""

    height: int
    rows: int
    panels: int
    blocks: int
    groups: int
    inner: int
    depth: int
    """Elements of K at a time."""
    copies: bool
    """True if the rows of a tile are copied together before the panels are read."""

    @property
    def whole(self) -> bool:
        """True if K is not cut."""
        return self.depth >= self.inner

    @property
    def tiles(self) -> int:
        return max(1, -(-self.height // self.rows))

    @property
    def group(self) -> int:
        """Panels of a group at most."""
        return -(-self.panels // self.groups)

    @property
    def block(self) -> int:
        """Row tiles of a block at most."""
        return -(-self.tiles // self.blocks)


@dataclass(frozen=True, slots=True)
class Matrices:
    """The extents of a product, at most, and how its left operand is stored."""

    batch: int
    height: int
    inner: int
    columns: int
    size: int
    """Bytes of an element."""
    is_transposed: bool
    """True if the rows of `a` are stored as columns."""


def product_loops(tile: Schedule, matrices: Matrices) -> Schedule:
    """Return the schedule of a product by `tile`, with the loops around it."""
    split = split_product(
        matrices.batch,
        matrices.height,
        matrices.inner,
        -(-matrices.columns // tile.columns),
        tile.rows,
        tile.columns,
        matrices.size,
        matrices.is_transposed,
    )
    packed = tile.right == "panels" or matrices.columns == tile.columns
    is_small = split.depth * tile.columns * matrices.size <= _SMALL_PANEL
    return replace(
        tile,
        order=("batch", ROWS, PANELS),
        blocks=split.blocks,
        groups=split.groups,
        depth=0 if split.whole else split.depth,
        left="copied" if split.copies else "in_place",
        prefetch=0 if packed and is_small else _AHEAD if packed else _AHEAD_IN_PLACE,
    )


@functools.lru_cache(maxsize=1024)
def split_product(
    batch: int,
    height: int,
    inner: int,
    panels: int,
    rows: int,
    width: int,
    size: int,
    transposed: bool,
) -> Split:
    """Cut a product of tiles of `rows` by `width` elements of `size` bytes.

    `transposed` says that the rows of `a` are stored as columns.
    """
    tiles = max(1, -(-height // rows))
    row_bytes = max(1, inner) * size
    panel_bytes = row_bytes * width
    depth = _part(inner, _DEPTH_BYTES // size)
    group = min(panels, max(1, _GROUP_BYTES // (depth * width * size)))
    copies = group > 2 and (transposed or rows_in_a_set(rows, row_bytes) > WAYS)
    if not copies:
        depth = max(1, inner)
        group = min(panels, max(1, _GROUP_BYTES // panel_bytes))
    blocks = 1 if depth >= inner else -(-tiles // _BLOCK_TILES)
    least = Split(height, rows, panels, blocks, -(-panels // group), inner, depth, copies)
    if batch * height * inner * panels * width < _ALONE:
        return least
    return min(_candidates(least), key=lambda split: _cost(split, batch))


def rows_in_a_set(rows: int, row_bytes: int) -> int:
    """Return how many rows of a tile start in one set of the cache, at most."""
    return max(Counter(row * row_bytes // _LINE % _SETS for row in range(rows)).values())


def _part(extent: int, most: int) -> int:
    """Return the size of equal parts of `extent`: whole lines, at most `most` elements or so."""
    if extent <= most:
        return max(1, extent)
    part = -(-extent // -(-extent // most))
    return -(-part // _LINE) * _LINE


def _candidates(least: Split) -> list[Split]:
    """Return cuts into at least as many blocks and groups."""
    blocks = _numbers(least.blocks, least.tiles)
    groups = _numbers(least.groups, least.panels)
    return [replace(least, blocks=b, groups=g) for b in blocks for g in groups]


def _numbers(least: int, most: int) -> list[int]:
    """Return numbers of parts worth trying: the least, and even ones up to the next 16."""
    evens = range(least + least % 2, least + 17, 2 if least < 16 else 4)
    return sorted({least, *(n for n in evens if n <= most)})


def _cost(split: Split, batch: int) -> float:
    """Estimate the time of a cut: how uneven shares are, and what is fetched how often."""
    late = sum(weight * _longest_share(split, batch, n) for n, weight in _THREADS)
    strips = (3 if split.copies else 1) * _FETCH_ROWS * split.groups / split.panels
    return (
        late
        + strips
        + _FETCH_PANELS * split.blocks / split.tiles
        + _ITEM * split.blocks * split.groups
    )


def _longest_share(split: Split, batch: int, threads: int) -> float:
    """Return the work of the thread that has most, relative to an even share."""
    items = batch * split.blocks * split.groups
    bounds = [_work_before(split, items * part // threads) for part in range(threads + 1)]
    longest = max(b - a for a, b in itertools.pairwise(bounds))
    return longest * threads / max(1, bounds[-1])


def _work_before(split: Split, item: int) -> int:
    """Return rows times panels of the items before `item`."""
    rest, group = divmod(item, split.groups)
    batch, block = divmod(rest, split.blocks)
    first = min(block * split.tiles // split.blocks * split.rows, split.height)
    end = min((block + 1) * split.tiles // split.blocks * split.rows, split.height)
    panels = group * split.panels // split.groups
    return (batch * split.height + first) * split.panels + (end - first) * panels
