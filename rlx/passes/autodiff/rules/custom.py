"""Derivatives that the user stated; the mode without one differentiates the body."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.passes.autodiff.algebra import or_zeros
from rlx.passes.autodiff.derived import Derivatives
from rlx.passes.autodiff.registry import Pullback, Pushforward, jvp, vjp
from rlx.passes.autodiff.through import pull_through, push_through


@vjp(ops.custom_call)
def custom_call_vjp(
    at: Pullback,
    *operands: Value,
    body: Graph,
    vjp_body: Graph | None = None,
    jvp_body: Graph | None = None,
) -> Derivatives:
    if vjp_body is None:
        return pull_through(at, operands, lambda values, _: values[0].graph.inline(body, values))
    cotangents = [
        or_zeros(at.graph, d, result.type)
        for d, result in zip(at.cotangents, at.results, strict=True)
    ]
    pulled = at.graph.inline(vjp_body, [*operands, *at.results, *cotangents])
    return [p if wanted else None for p, wanted in zip(pulled, at.wanted, strict=True)]


@jvp(ops.custom_call)
def custom_call_jvp(
    at: Pushforward,
    *operands: Value,
    body: Graph,
    vjp_body: Graph | None = None,
    jvp_body: Graph | None = None,
) -> Derivatives:
    if jvp_body is None:
        return push_through(at, operands, lambda values, _: values[0].graph.inline(body, values))
    tangents = [
        or_zeros(at.graph, t, operand.type)
        for t, operand in zip(at.tangents, operands, strict=True)
    ]
    moved = at.graph.inline(jvp_body, [*operands, *at.results, *tangents])
    pairs = zip(moved, at.results, strict=True)
    return [t if result.dtype.is_differentiable else None for t, result in pairs]
