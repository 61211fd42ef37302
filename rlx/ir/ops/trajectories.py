"""Scans of one carry that keep its values, and their reverse sweeps: formulas over `scan`.

    kept = g.scan_trajectory(c, x, body=body, length=10, num_checkpoints=3)        # 3 rows
    dc = g.scan_backward(
        c, kept, upstream, x, body_vjp=pullback, length=10, save_trajectory=True,
        num_checkpoints=3, forward_body=body,
    )

Row `k` of a trajectory with K rows is the carry after step `ceil((k + 1) * L / K) - 1`, so that
the last row is the last carry. Of a trajectory with fewer rows than steps, the sweep computes one
segment at a time again, from the row before it; both kinds give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx.errors import GraphError
from rlx.ir.captures import Captures
from rlx.ir.composite import composite
from rlx.ir.graph import Graph, Value
from rlx.ir.op import Trait
from rlx.ir.ops.loops import require_carries, require_inputs, scan, switch
from rlx.ir.ops.segments import Segments, declare, row_of, run_steps
from rlx.ir.ops.trajectory_sweep import Sweep

_FAMILY = "control"

_BEHIND_CONSTS = Captures(
    ("body",), lambda given, _: 1 + given.get("num_consts", 0), count="num_consts"
)


@composite(_FAMILY, Trait.ALL_ELEMENTS, captures=_BEHIND_CONSTS)
def scan_trajectory(
    init: Value,
    *operands: Value,
    body: Graph,
    length: int,
    num_consts: int = 0,
    num_checkpoints: int = 0,
) -> Value:
    """Return the carries of a scan, or those at `num_checkpoints` steps, as rows.

    `body` takes the carry, the consts and a row of each of the `xs`, and returns the next carry.
    """
    segments = Segments.of(length, num_checkpoints)
    consts, xs = operands[:num_consts], operands[num_consts:]
    require_inputs(body, (init.type, *(c.type for c in consts), *(row_of(x, length) for x in xs)))
    require_carries(body, (init.type,), exactly=True)
    if segments.are_steps:
        return _every_carry(init, consts, xs, body, length)

    def segment(carry: Value, given: Sequence[Value]) -> tuple[Value, Value]:
        start, longer, *rest = given
        split = len(rest) - num_consts
        rows, inner = rest[:split], rest[split:]
        cut = [segments.rows(x, start) for x in rows]
        (reached,) = _steps(body, carry, inner, cut, segments.short)
        if segments.are_equal:
            return reached, reached
        further = [segments.last_row(x, start) for x in rows]
        (last,) = switch(longer, reached, *inner, *further, branches=(_keeping(body, 1), body))
        return last, last

    rows = (*segments.places(init.graph), *segments.scanned(xs))
    shared = (*segments.shared(xs), *consts)
    return run_steps(segment, init, rows, shared, segments.count)[1]


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def scan_backward(
    init: Value,
    trajectory: Value,
    upstream: Value,
    *xs: Value,
    body_vjp: Graph,
    length: int,
    save_trajectory: bool,
    num_checkpoints: int = 0,
    forward_body: Graph | None = None,
) -> Value:
    """Pull `upstream` back through a scan to its first carry.

    `body_vjp` takes the carry, a row of each of the `xs` and `d_output`, the cotangent of the
    next carry; it returns the cotangents of the carry and of each row. `upstream` belongs to the
    last carry or, with `save_trajectory`, to the rows of the trajectory: all, or those kept.
    With fewer rows than steps, `forward_body` computes the carries between again.
    """
    sweep = Sweep.of(
        init, trajectory, upstream, xs, body_vjp, length, save_trajectory, num_checkpoints,
        forward_body,
    )  # fmt: skip
    return sweep.run()[0]


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def scan_backward_xs(
    init: Value,
    trajectory: Value,
    upstream: Value,
    *xs: Value,
    body_vjp: Graph,
    length: int,
    save_trajectory: bool,
    xs_idx: int,
    num_checkpoints: int = 0,
    forward_body: Graph | None = None,
) -> Value:
    """Pull `upstream` back through a scan, as `scan_backward`, to the rows of operand `xs_idx`."""
    if not 0 <= xs_idx < len(xs):
        raise GraphError(
            f"xs_idx is {xs_idx}; it must be in 0..{len(xs) - 1}, the scanned xs",
            remedy="give the position of an operand in xs",
        )
    sweep = Sweep.of(
        init, trajectory, upstream, xs, body_vjp, length, save_trajectory, num_checkpoints,
        forward_body,
    )  # fmt: skip
    return sweep.run()[1][xs_idx]


def _steps(
    body: Graph, carry: Value, consts: Sequence[Value], xs: Sequence[Value], length: int
) -> tuple[Value, ...]:
    return scan(
        carry, *consts, *xs, body=body, length=length, num_carries=1, num_consts=len(consts)
    )


def _every_carry(
    init: Value, consts: Sequence[Value], xs: Sequence[Value], body: Graph, length: int
) -> Value:
    def step(carry: Value, given: Sequence[Value]) -> tuple[Value, Value]:
        rows, fixed = given[: len(xs)], given[len(xs) :]
        (following,) = carry.graph.inline(body, (carry, *fixed, *rows))
        return following, following

    return run_steps(step, init, xs, consts, length)[1]


def _keeping(body: Graph, carries: int) -> Graph:
    """Return the body that takes what `body` takes and returns its carries as they are."""
    idle = Graph("no_step")
    idle.set_outputs(declare(idle, [value.type for value in body.inputs])[:carries])
    return idle


__all__ = ["scan_backward", "scan_backward_xs", "scan_trajectory"]
