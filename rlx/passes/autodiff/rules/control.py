"""Rematerialization: the body of a `checkpoint` runs again in the backward pass."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.op import Trait
from rlx.passes.autodiff.derived import graft, place, present
from rlx.passes.autodiff.errors import NoDerivativeError
from rlx.passes.autodiff.registry import Derivatives, Pullback, Pushforward, jvp, vjp, zero
from rlx.passes.autodiff.sweep import vjp_in_graph
from rlx.passes.autodiff.through import declare

_STOP = "stop_gradient its operand"

zero(ops.check, because="it is done for its effect, which the values of a program decide")


@vjp(ops.checkpoint)
def checkpoint_vjp(at: Pullback, *operands: Value, body: Graph, kept: int) -> Derivatives:
    """Rerun the body and its pullback, on operands with a barrier on the cotangents.

    What the body computes then lives only around its own backward pass. What it keeps is not
    computed again, nor what only that was computed from.
    """
    again = Graph("checkpoint_vjp")
    inputs = declare(again, "x", operands)
    cotangents = iter(declare(again, "d", present(at.cotangents)))
    seeds = [None if given is None else next(cotangents) for given in at.cotangents]
    wanted = [value for value, wants in zip(inputs, at.wanted, strict=True) if wants]
    outputs = again.inline(body, inputs)
    pulled = vjp_in_graph(again, outputs, wanted, seeds)
    again.set_outputs(present(pulled))
    waiting = [_held_back(operand, at) for operand in operands]
    first = len(outputs) - kept
    known = {
        x: _held_back(own, at) for x, own in zip(outputs[first:], at.results[first:], strict=True)
    }
    moved = iter(graft(at.graph, again, (*waiting, *present(at.cotangents)), known))
    return place((None if p is None else next(moved) for p in pulled), at.wanted)


def _held_back(operand: Value, at: Pullback) -> Value:
    """Make the second run differ from the first, so that no pass merges them, and run late.

    Params may be merged and hoisted: what depends on them alone is computed in `setup`.
    """
    if operand.op.has(Trait.RESIDENT):
        return operand
    return ops.barrier(operand, *present(at.cotangents))


@vjp(ops.refuse_derivative)
def refuse_derivative_vjp(at: Pullback, x: Value, *, because: str) -> Derivatives:
    raise NoDerivativeError(because, remedy=_STOP)


@jvp(ops.refuse_derivative)
def refuse_derivative_jvp(at: Pushforward, x: Value, *, because: str) -> Derivatives:
    if at.tangents[0] is None:
        return None
    raise NoDerivativeError(because, remedy=_STOP)


@vjp(ops.barrier)
def barrier_vjp(at: Pullback, x: Value, *dependencies: Value) -> Derivatives:
    return at.cotangent
