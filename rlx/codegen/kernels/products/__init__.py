"""Matrix products: plain, tiled, split over threads, streamed, by a library, and the
packing of operands."""
