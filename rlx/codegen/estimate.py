"""Estimated time of a thunk on one thread, from which the division among threads is decided.

An estimate is right within a factor of a few on the processors of laptops and servers, and low
rather than high: to share what is not worth it costs more than not to share what is.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx.codegen.cost import thunk_cost
from rlx.codegen.schedule import AnyThunk, BranchThunk, Thunk
from rlx.ir import ops
from rlx.ir.op import Attrs
from rlx.passes.rewrite import bodies_of

_BYTES = 100
"""Bytes of operands and results per nanosecond, from the caches."""
_FLOPS = 64
"""FLOPs per nanosecond."""


def nanoseconds(thunk: Thunk) -> int:
    """Return the estimate for a thunk at the largest extents of its symbols."""
    cost = thunk_cost(thunk, {symbol.name: symbol.max or 1 for symbol in thunk.symbols})
    return cost.bytes // _BYTES + cost.flops // _FLOPS


def run_nanoseconds(thunks: Sequence[AnyThunk]) -> int | None:
    """Return the estimate for all of some thunks; None where nothing bounds the trips of a loop."""
    times = [_time_of(thunk) for thunk in thunks]
    known = [time for time in times if time is not None]
    return sum(known) if len(known) == len(times) else None


def _time_of(thunk: AnyThunk) -> int | None:
    if isinstance(thunk, Thunk):
        is_open = thunk.kind == ops.while_loop.name or _has_while(thunk.attrs)
        return None if is_open else nanoseconds(thunk)
    if isinstance(thunk, BranchThunk):
        times = [run_nanoseconds(branch) for branch in thunk.branches]
        known = [time for time in times if time is not None]
        return max(known) if len(known) == len(times) else None
    once = run_nanoseconds((*thunk.condition, *thunk.body))
    return None if once is None or thunk.steps is None else once * thunk.steps


def _has_while(attrs: Attrs) -> bool:
    """True if a kernel has a loop whose trips depend on values, at any depth."""
    return any(
        node.op is ops.while_loop or _has_while(node.attrs)
        for body in bodies_of(attrs)
        for node in body.nodes
    )
