"""Functions with derivatives of their own keep them: all their bodies are batched."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.passes.vmap.batching import Batching
from rlx.passes.vmap.registry import Batched, batch, stated_rule
from rlx.passes.vmap.sweep import batch_body


@batch(ops.custom_call)
def custom_call_batch(
    at: Batching,
    *operands: Value,
    body: Graph,
    vjp_body: Graph | None,
    jvp_body: Graph | None,
    forward: Graph | None,
    batching: str | None,
) -> Batched:
    """Batch every operand, so that results and derivatives are batched, too.

    A call with a rule of its own is what the rule says.
    """
    if batching is not None:
        return stated_rule(batching)(at, *operands)
    results: Batched = ops.custom_call(
        *at.lifted(operands),
        body=_whole(body, at),
        vjp_body=None if vjp_body is None else _whole(vjp_body, at),
        jvp_body=None if jvp_body is None else _whole(jvp_body, at),
        forward=None if forward is None else _whole(forward, at),
    )
    return results


def _whole(body: Graph, at: Batching) -> Graph:
    known = at.axis.whole
    if id(body) not in known:
        everything, every_result = (True,) * len(body.inputs), (True,) * len(body.outputs)
        known[id(body)] = body, batch_body(body, everything, at.axis, due=every_result)[0]
    return known[id(body)][1]
