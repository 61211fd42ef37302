"""Custom derivatives of users; the mode without one differentiates the body."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.shape import Shape
from rlx.passes.algebra import is_zero, or_zeros
from rlx.passes.autodiff.derived import Decline, Derivatives
from rlx.passes.autodiff.registry import Pullback, Pushforward, jvp, vjp
from rlx.passes.autodiff.through import pull_through, push_through
from rlx.passes.vmap.whole import for_examples


@vjp(ops.custom_call)
def custom_call_vjp(
    at: Pullback,
    *operands: Value,
    body: Graph,
    vjp_body: Graph | None = None,
    jvp_body: Graph | None = None,
    forward: Graph | None = None,
    batching: str | None = None,
    examples: Shape = (),
    example_axes: tuple[str, ...] = (),
) -> Derivatives:
    if vjp_body is None:
        return pull_through(at, operands, lambda values, _: values[0].graph.inline(body, values))
    rule = for_examples(vjp_body, examples, example_axes)
    return _pulled(at, rule, operands, at.wanted)


@jvp(ops.custom_call)
def custom_call_jvp(
    at: Pushforward,
    *operands: Value,
    body: Graph,
    vjp_body: Graph | None = None,
    jvp_body: Graph | None = None,
    forward: Graph | None = None,
    batching: str | None = None,
    examples: Shape = (),
    example_axes: tuple[str, ...] = (),
) -> Derivatives:
    if jvp_body is None:
        return push_through(at, operands, lambda values, _: values[0].graph.inline(body, values))
    rule = for_examples(jvp_body, examples, example_axes)
    return _pushed(at, rule, operands, at.tangents)


@vjp(ops.custom_derivative)
def custom_derivative_vjp(
    at: Pullback, *operands: Value, num_results: int, rule: Graph
) -> Derivatives:
    wanted = at.wanted[num_results:]
    if len(rule.outputs) == num_results != len(wanted):
        return Decline.BY_FORMULA  # the rule pushes tangents, and is transposed
    return (*(None,) * num_results, *_pulled(at, rule, operands[num_results:], wanted))


@jvp(ops.custom_derivative)
def custom_derivative_jvp(
    at: Pushforward, *operands: Value, num_results: int, rule: Graph
) -> Derivatives:
    return _pushed(at, rule, operands[num_results:], at.tangents[num_results:])


def _pulled(
    at: Pullback, rule: Graph, operands: Sequence[Value], wanted: Sequence[bool]
) -> list[Value | None]:
    cotangents = [
        or_zeros(at.graph, d, result.type)
        for d, result in zip(at.cotangents, at.results, strict=True)
    ]
    pulled = at.graph.inline(rule, [*operands, *at.results, *cotangents])
    # what a rule states to be 0 is left out: infinite slopes do not make it NaN
    return [
        p if wants and not is_zero(p) else None for p, wants in zip(pulled, wanted, strict=True)
    ]


def _pushed(
    at: Pushforward, rule: Graph, operands: Sequence[Value], given: Sequence[Value | None]
) -> list[Value | None]:
    tangents = [
        or_zeros(at.graph, t, operand.type) for t, operand in zip(given, operands, strict=True)
    ]
    moved = at.graph.inline(rule, [*operands, *at.results, *tangents])
    pairs = zip(moved, at.results, strict=True)
    return [t if result.dtype.is_differentiable else None for t, result in pairs]
