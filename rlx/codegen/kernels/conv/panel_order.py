"""Loop order of a convolution: panels of weights by rows of images.

Some bands of rows stay in the second-level cache while panels stream past them, which are in one
stretch and are fetched ahead. Images so small that the weights weigh more take turns over a panel.
"""

from __future__ import annotations

from rlx.dataclass import dataclass
from rlx.ir.shape import Extent, Shape, product, upper

_BANDS_KEPT = 384 * 1024
"""Bytes of rows that stay in the second-level cache with a panel."""

_FEWEST_ITEMS = 16
"""Pieces of work that threads share, if there are as many bands."""


@dataclass(frozen=True, slots=True)
class PanelOrder:
    """What an item of work is, and in which order they come."""

    bands: int
    """Bands of rows per panel, before the next panel."""
    panels_first: bool
    """True if a panel is used for all images before the next panel."""


def panel_order(x: Shape, w: Shape, size: int, bands: Extent, panels: int) -> PanelOrder:
    """Choose an order for images `x` of `bands` each; elements have `size` bytes."""
    images, image = upper(x[0]), size * upper(product(x[1:]))
    most, weights = max(1, upper(bands)), size * upper(product(w))
    kept = max(1, min(most, _BANDS_KEPT * most // max(1, image)))
    while kept > 1 and images * panels * -(-most // kept) < _FEWEST_ITEMS:
        kept -= 1
    return PanelOrder(kept, kept == most and image * panels <= weights)
