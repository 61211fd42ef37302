"""Matrix products: plain, tiled, split over threads, streamed, by a library, and the
packing of operands."""

from rlx.codegen.kernels.products import pack_channels as pack_channels
from rlx.codegen.kernels.products import pack_panels as pack_panels
from rlx.codegen.kernels.products import plain as plain
from rlx.codegen.kernels.products import tiles as tiles
