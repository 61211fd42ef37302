"""Loop order of a convolution: panels of weights by rows of images.

Some bands of rows stay in the second-level cache while panels stream past them, which are in one
stretch and are fetched ahead. Images so small that the weights weigh more take turns over a panel.
Single taps that read many planes, far apart, take a copy of a row of all of them.
"""

from __future__ import annotations

from dataclasses import replace

from rlx.ir.lowering import PANELS, ROWS, Schedule
from rlx.ir.ops.conv_geometry import Planes
from rlx.ir.shape import product, upper

_BANDS_KEPT = 384 * 1024
"""Bytes of rows that stay in the second-level cache with a panel."""

_FEWEST_ITEMS = 16
"""Pieces of work that threads share, if there are as many bands."""

_FAR = 256 * 1024
"""Bytes of planes beyond which a row of each is more pages than the first-level TLB holds, in few
sets of the cache."""

_MOST_COPIED = 64 * 1024
"""Bytes of a row of all planes that are copied, on the stack."""

_FEW_WEIGHTS = 512 * 1024
"""Bytes of weights that every row may read again: they stay in the second-level cache."""

_AHEAD = 8
"""Rows of a panel that are prefetched before their use. Without prefetches GCC unrolls loops over
taps until the sums no longer fit registers."""


def convolution_loops(
    tile: Schedule,
    images: int,
    planes: Planes,
    outputs: int,
    size: int,
    *,
    groups: int = 1,
    channels_last: bool = False,
) -> Schedule:
    """Return the schedule of a convolution by `tile`, with the loops around it.

    It reads `planes`, in `groups`, and computes `outputs` channels; elements have `size` bytes.
    """
    tile = replace(tile, prefetch=_AHEAD)
    bands = max(1, -(-upper(planes.positions[1]) // tile.rows))
    panels = -(-(outputs // groups) // tile.columns)
    one_tap = not channels_last and planes.taps == (1, 1, 1) and not planes.flat
    if one_tap and _copies(planes, panels, tile, size):
        order = ("image", "group", "layer", ROWS, PANELS)
        return replace(tile, order=order, blocks=bands, left="copied", prefetch_left=True)
    image = size * upper(product((planes.channels * groups, *planes.extents)))
    weights = size * upper(product((outputs, planes.channels, *planes.taps)))
    kept = max(1, min(bands, _BANDS_KEPT * bands // max(1, image)))
    while kept > 1 and images * panels * groups * -(-bands // kept) < _FEWEST_ITEMS:
        kept -= 1
    weights_first = kept == bands and image * panels * groups <= weights
    first, last = ("group", PANELS), ("image", "layer", ROWS)
    return replace(
        tile,
        order=(*first, *last) if weights_first else (*last, *first),
        blocks=-(-bands // kept),
        groups=panels,
        prefetch_left=one_tap,
    )


def _copies(planes: Planes, panels: int, tile: Schedule, size: int) -> bool:
    """True if a row of many planes is copied: otherwise every panel would fetch them again.

    Rows of so many planes evict each other from the first-level cache and its TLB.
    """
    row, plane = planes.positions[2], product(planes.extents)
    known = isinstance(row, int) and isinstance(plane, int)
    if tile.rows != 1 or not known:
        return False
    weights = planes.channels * panels * tile.columns
    return (
        planes.channels * upper(plane) * size > _FAR
        and planes.channels * upper(row) * size <= _MOST_COPIED
        and weights * size <= _FEW_WEIGHTS
    )
