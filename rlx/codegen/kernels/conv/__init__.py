"""Convolutions that are no plain contractions: depthwise by rows, Winograd's."""
