"""Gaussian splatting: lists of tiles, pixels, and the backward sweep."""
