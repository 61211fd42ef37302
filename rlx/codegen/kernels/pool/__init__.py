"""Pools: folds of windows, and the positions that they chose."""
