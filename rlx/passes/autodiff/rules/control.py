"""Rematerialization: the body of a `checkpoint` runs again in the backward pass."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.passes.autodiff.derived import place, present
from rlx.passes.autodiff.registry import Derivatives, Pullback, Pushforward, jvp, vjp
from rlx.passes.autodiff.sweep import vjp_in_graph


@vjp(ops.checkpoint)
def checkpoint_vjp(at: Pullback, *operands: Value, body: Graph) -> Derivatives:
    """Recompute the body from its operands, held back until the cotangent is there.

    The barriers make the second run differ from the first, so that no pass merges the two,
    and depend on the cotangent, so that no schedule runs it early: what the body computes
    lives only around its own backward pass.
    """
    fresh = [ops.barrier(operand, *present(at.cotangents)) for operand in operands]
    results = at.graph.inline(body, fresh)
    wanted = [value for value, wants in zip(fresh, at.wanted, strict=True) if wants]
    return place(vjp_in_graph(at.graph, results, wanted, at.cotangents), at.wanted)


@vjp(ops.barrier)
def barrier_vjp(at: Pullback, x: Value, *dependencies: Value) -> Derivatives:
    return at.cotangent


@jvp(ops.barrier)
def barrier_jvp(at: Pushforward, x: Value, *dependencies: Value) -> Derivatives:
    tangent = at.tangents[0]
    return None if tangent is None else ops.barrier(tangent, *dependencies)
