"""Functions with derivatives of their own keep them: what runs is batched, the rules when used."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.shape import Shape
from rlx.passes.vmap.batching import Batching
from rlx.passes.vmap.registry import Batched, batch, stated_rule
from rlx.passes.vmap.whole import batch_whole


@batch(ops.custom_call)
def custom_call_batch(
    at: Batching,
    *operands: Value,
    body: Graph,
    vjp_body: Graph | None,
    jvp_body: Graph | None,
    forward: Graph | None,
    batching: str | None,
    examples: Shape,
    example_axes: tuple[str, ...],
) -> Batched:
    """Batch every operand and the body; the derivatives stay those of one example.

    A call with a rule of its own is what the rule says.
    """
    if batching is not None:
        return stated_rule(batching)(at, *operands)
    results: Batched = ops.custom_call(
        *at.lifted(operands),
        body=batch_whole(body, at.axis),
        vjp_body=vjp_body,
        jvp_body=jvp_body,
        forward=forward,
        examples=(at.size, *examples),
        example_axes=(at.axis_name or "", *example_axes),
    )
    return results
