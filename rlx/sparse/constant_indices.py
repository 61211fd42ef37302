"""Gathers and sums at indices that are known when the program is traced."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.sparse.pattern import Integers


def taken(x: Any, indices: Integers) -> Any:
    """Return the slices of `x` along axis 0."""
    return rnp.take(x, as_indices(indices), axis=0)


def as_indices(indices: Integers) -> Any:
    """Return indices in the smaller dtype, if they fit."""
    fits = indices.max(initial=0) < np.iinfo(np.int32).max
    return indices.astype(np.int32) if fits else indices
