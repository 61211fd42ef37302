"""Convolutions: plain, in register tiles, depthwise, Winograd."""
