"""Reference semantics of walks through decision trees."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.reference.registry import Array, reference


@reference.exact(ops.walk_trees)
def walk_trees(keys: Array, table: Array, starts: Array, *, trees: int, width: int) -> Array:
    """Walk all rows and chains one step at a time, until all have ended."""
    rows = np.arange(len(keys))[:, None]
    found = np.zeros((len(keys), trees + 1), np.int32)
    places = np.broadcast_to(starts.astype(np.int64), (len(keys), len(starts)))
    while True:
        found[rows, table[places + 3]] = places
        value = keys[rows, table[places + 1]]
        if width == 5:
            value = value & table[places + 4]
        after = table[places + 2] + width * (value > table[places])
        if not after.any():
            return found
        places = after
