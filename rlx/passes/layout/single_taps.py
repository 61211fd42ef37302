"""Cost model of pointwise (1x1) convolutions: tiles of their own, or a matrix product.

The product of weights by pixels packs the pixels at every call, and fills its last panel up with
unused columns. Tiles read pixels in place, against weights that `setup` packs, and
turn their results before they are stored.
"""

from __future__ import annotations

from rlx.ir.graph import Node
from rlx.ir.lowering import Schedule
from rlx.ir.shape import product, upper
from rlx.passes.layout.convolution_tiles import Vectors, cycles_of_tiles
from rlx.passes.layout.pack_operands import choose_tile
from rlx.passes.layout.prepared import is_prepared
from rlx.target import Target

_PACK = 0.25
"""Cycles in which a byte of pixels is packed: read, written, and read again."""

_TURN = 0.6
"""Cycles in which a result is transposed."""


def beats_product(node: Node, tile: Schedule, target: Target) -> bool:
    """True if tiles cost less than the product; weights of the call would be packed for either."""
    x, w = node.operands
    if x.dtype.is_low_precision or not is_prepared(w):
        return False
    outputs, inner, pixels = map(upper, (*w.shape[:2], product(node.result.shape[2:])))
    vectors = Vectors.of(target, x.dtype.size)
    panel = choose_tile(outputs, pixels, vectors.lanes, vectors.registers)
    multiplied = -(-pixels // panel.columns) * (panel.columns // panel.lanes) * outputs
    as_product = multiplied * inner / vectors.units + _PACK * pixels * inner * x.dtype.size
    in_tiles = cycles_of_tiles(tile, 1, pixels, outputs, vectors.units) * inner
    return in_tiles + _TURN * pixels * outputs < as_product
