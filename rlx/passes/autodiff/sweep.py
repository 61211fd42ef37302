"""The two sweeps, inside one graph: cotangents backward, tangents forward.

    (dx,) = vjp_in_graph(graph, [y], [x], [seed])       # appends the backward nodes
    (dy,) = jvp_in_graph(graph, [y], [x], [tangent])    # appends the tangent nodes

Both append to the graph they differentiate, so they nest, and a tracer can call them while
it traces. They follow every path from `inputs` to `outputs`; a function transformation that
must not see outer uses of its argument traces its function into a graph of its own.

A node is differentiated by its op's own rule, or else by one derived from what the op says:
in reverse `vjp`, fact, transposed `jvp`, formula; forward `jvp`, fact, formula, twice
transposed `vjp` (whose ops may pay in reverse mode only, so the formula goes first).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from rlx.errors import InternalError
from rlx.ir.graph import Graph, Node, Value
from rlx.passes.algebra import add_under_mask
from rlx.passes.autodiff.derived import (
    Decline,
    Derived,
    Mask,
    Request,
    Scratch,
    Sparse,
    derivative_type,
    place,
    present,
    spread,
)
from rlx.passes.autodiff.errors import AutodiffError, NoDerivativeError
from rlx.passes.autodiff.registry import (
    Pullback,
    Pushforward,
    facts,
    jvp,
    straight_through,
    vjp,
    zeros_everywhere,
)
from rlx.passes.effects import quiet_attributes
from rlx.passes.rewrite import ancestors

Derivation: TypeAlias = Callable[[Request], Derived | None]


def vjp_in_graph(
    graph: Graph,
    outputs: Sequence[Value],
    inputs: Sequence[Value],
    cotangents: Sequence[Value | None],
) -> list[Value | None]:
    """Append the pullback of `cotangents` from `outputs` to `inputs`; `None` is zero.

    Contributions add in reverse order of the consumers, and within a consumer in the order
    of its operands.
    """
    sums: dict[Value, Value] = {}
    for output, cotangent in zip(outputs, cotangents, strict=True):
        _accumulate(sums, output, cotangent)
    active = active_values(graph, inputs, outputs)
    for node in reversed(graph.nodes[: _end(outputs)]):
        given = tuple(sums.get(result) if result in active else None for result in node.results)
        wanted = tuple(operand in active for operand in node.operands)
        if any(wanted) and present(given) and not _stops(node):
            with graph.attributed(node.source, node.scope):
                for operand, cotangent in zip(
                    node.operands, pull_back(node, given, wanted), strict=True
                ):
                    _accumulate(sums, operand, cotangent if operand in active else None)
    return [sums.get(input) for input in inputs]


def jvp_in_graph(
    graph: Graph,
    outputs: Sequence[Value],
    inputs: Sequence[Value],
    tangents: Sequence[Value | None],
) -> list[Value | None]:
    """Append the pushforward of `tangents` from `inputs` to `outputs`; `None` is zero."""
    known: dict[Value, Value] = {}
    for input, tangent in zip(inputs, tangents, strict=True):
        if tangent is not None:
            _check(input, tangent)
            known[input] = tangent
    needed = _differentiated(outputs)
    for node in graph.nodes[: _end(outputs)]:
        given = tuple(known.get(operand) for operand in node.operands)
        flows = any(result in needed and carries(result) for result in node.results)
        if flows and present(given) and not _stops(node):
            with graph.attributed(node.source, node.scope):
                moved = push_forward(node, given)
            for result, tangent in zip(node.results, moved, strict=True):
                if tangent is not None and result not in known:
                    _check(result, tangent)
                    known[result] = tangent
    return [known.get(output) for output in outputs]


def _differentiated(outputs: Iterable[Value]) -> set[Value]:
    """Return the values whose tangents those of `outputs` may be computed from.

    What a rule states the tangents of is not differentiated: its ops may have no derivatives.
    """
    found: set[Value] = set()
    pending = list(outputs)
    while pending:
        value = pending.pop()
        if value not in found:
            found.add(value)
            node = value.node
            stated = node.op.name == "custom_derivative"
            pending.extend(node.operands[node.attribute("num_results") if stated else 0 :])
    return found


def active_values(graph: Graph, inputs: Iterable[Value], outputs: Iterable[Value]) -> set[Value]:
    """Return the values on a differentiable path from `inputs` to `outputs`."""
    needed = ancestors(outputs)
    active = {input for input in inputs if input in needed}
    for node in graph.nodes[: _end(outputs)]:
        if not _stops(node) and any(operand in active for operand in node.operands):
            active.update(r for r in node.results if r in needed and carries(r))
    return active


def carries(value: Value) -> bool:
    """Whether derivatives flow through `value`: by its dtype, or straight through its op."""
    return value.dtype.is_differentiable or value.op in straight_through


def pull_back(node: Node, cotangents: Sparse, wanted: Mask) -> Sparse:
    """Append the pullback of one node; one cotangent or `None` per operand."""
    fact = facts.get(node.op)
    rule = vjp.get(node.op) or (fact.vjp if fact else None)
    if rule is not None:
        at = Pullback(node.results[0].graph, node.results, cotangents, wanted)
        pulled = rule(at, *node.operands, **quiet_attributes(node).as_dict())
        if not isinstance(pulled, Decline):
            return spread(pulled, len(node.operands))
    request = Request.of(node, wanted, tuple(c is not None for c in cotangents))
    return _derive(node, _derived_pullback, request, "reverse").graft(node, cotangents)


def push_forward(node: Node, tangents: Sparse) -> Sparse:
    """Append the pushforward of one node; one tangent or `None` per result."""
    fact = facts.get(node.op)
    rule = jvp.get(node.op) or (fact.jvp if fact else None)
    if rule is not None:
        at = Pushforward(node.results[0].graph, node.results, tangents)
        moved = rule(at, *node.operands, **quiet_attributes(node).as_dict())
        if not isinstance(moved, Decline):
            return spread(moved, len(node.results))
    flowing = tuple(carries(result) for result in node.results)
    request = Request.of(node, tuple(t is not None for t in tangents), flowing)
    return _derive(node, _derived_pushforward, request, "forward").graft(node, tangents)


def _derive(node: Node, derivation: Derivation, request: Request, mode: str) -> Derived:
    try:
        derived = derivation(request)
    except AutodiffError as error:
        message = f"{node.op.name}: {error.message}"
        raise type(error)(message, source=node.source, remedy=error.remedy) from error
    if derived is not None:
        return derived
    reason = facts.reason(node.op)
    raise NoDerivativeError(
        f"{node.op.name} has no {mode}-mode derivative" + (f": {reason}" if reason else ""),
        source=node.source,
        remedy="stop_gradient its operands, or register a rule in rlx.passes.autodiff.registry",
    )


@functools.lru_cache(maxsize=4096)
def _derived_pullback(request: Request) -> Derived | None:
    """By transposing the linear graph that the tangent rule builds, or by the formula."""
    formula, rule = request.op.decompose, jvp.get(request.op)
    scratch = Scratch.open(request, "vjp")
    graph, operands, attributes = scratch.graph, scratch.operands, request.attrs.as_dict()
    cotangents = scratch.derivatives("cotangent", request.results, request.flowing)
    if rule is not None:
        tangents = scratch.derivatives("tangent", request.operands, request.active)
        at = Pushforward(graph, scratch.results, tangents)
        moved = spread(rule(at, *operands, **attributes), len(request.results))
        pulled = _transpose(graph, tangents, moved, cotangents)
    elif formula is not None:
        results = present(spread(formula(*operands, **attributes), len(request.results)))
        wanted = [o for o, active in zip(operands, request.active, strict=True) if active]
        pulled = vjp_in_graph(graph, results, wanted, cotangents)
    else:
        return None
    return scratch.close(place(pulled, request.active))


@functools.lru_cache(maxsize=4096)
def _derived_pushforward(request: Request) -> Derived | None:
    """By the formula, or by transposing the pullback as a function of its cotangent."""
    formula, rule = request.op.decompose, vjp.get(request.op)
    scratch = Scratch.open(request, "jvp")
    graph, operands, attributes = scratch.graph, scratch.operands, request.attrs.as_dict()
    tangents = scratch.derivatives("tangent", request.operands, request.active)
    if formula is not None:
        results = present(spread(formula(*operands, **attributes), len(request.results)))
        return scratch.close(jvp_in_graph(graph, results, operands, tangents))
    if rule is None:
        return None
    cotangents = scratch.derivatives("cotangent", request.results, request.flowing)
    at = Pullback(graph, scratch.results, cotangents, request.active)
    pulled = spread(rule(at, *operands, **attributes), len(operands))
    moved = _transpose(graph, cotangents, pulled, tangents)
    return scratch.close(place(moved, request.flowing))


def _transpose(
    graph: Graph, linear_in: Sparse, linear_out: Sparse, given: Sparse
) -> list[Value | None]:
    """Pull `given` back through a linear graph: from its outputs to what it is linear in."""
    pairs = [
        (out, derivative)
        for out, derivative in zip(linear_out, given, strict=True)
        if out is not None and derivative is not None
    ]
    outputs, derivatives = [out for out, _ in pairs], [derivative for _, derivative in pairs]
    return vjp_in_graph(graph, outputs, present(linear_in), derivatives)


def _stops(node: Node) -> bool:
    return zeros_everywhere.reason(node.op) is not None


def _end(outputs: Iterable[Value]) -> int:
    return max((output.node.index + 1 for output in outputs), default=0)


def _accumulate(sums: dict[Value, Value], value: Value, cotangent: Value | None) -> None:
    if cotangent is None:
        return
    _check(value, cotangent)
    sums[value] = add_under_mask(sums[value], cotangent) if value in sums else cotangent


def _check(primal: Value, derivative: Value) -> None:
    """A rule that gives a derivative of another type is a fault of the rule."""
    expected = derivative_type(primal.type)
    if derivative.type != expected:
        raise InternalError(
            f"autodiff: {primal.op.name} at {primal.label} has type {primal.type}, so its "
            f"derivative has type {expected}; a rule gave {derivative.type}",
            source=primal.node.source,
        )
