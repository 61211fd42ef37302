"""Estimated time of a thunk on one thread, from which the division among threads is decided.

An estimate is right within a factor of a few on the processors of laptops and servers, and low
rather than high: to share what is not worth it costs more than not to share what is.
"""

from __future__ import annotations

from rlx.codegen.cost import thunk_cost
from rlx.codegen.schedule import Thunk

_BYTES = 100
"""Bytes of operands and results per nanosecond, from the caches."""
_FLOPS = 64
"""FLOPs per nanosecond."""


def nanoseconds(thunk: Thunk) -> int:
    """Return the estimate for a thunk at the largest extents of its symbols."""
    cost = thunk_cost(thunk, {symbol.name: symbol.max or 1 for symbol in thunk.symbols})
    return cost.bytes // _BYTES + cost.flops // _FLOPS
