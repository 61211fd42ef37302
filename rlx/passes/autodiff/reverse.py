"""Reverse mode as a pass: a graph becomes one that also computes gradients.

    step = grad_with_loss(graph, wrt=[w])      # outputs: loss, aux.., d loss / d w

The first output is the loss, of any shape: the result is a vector-Jacobian product with the
new last input, normally `d_output` (ones for the gradient of a scalar loss).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from rlx.dataclass import dataclass
from rlx.errors import GraphError
from rlx.ir.graph import Graph, Value
from rlx.passes.algebra import zeros
from rlx.passes.autodiff.complex_cotangents import from_rules, to_rules
from rlx.passes.autodiff.derived import derivative_type
from rlx.passes.autodiff.errors import (
    MissingGradientError,
    NonDifferentiableError,
    UnknownInputError,
)
from rlx.passes.autodiff.prepare import prepare, set_outputs_like
from rlx.passes.autodiff.sweep import carries, vjp_in_graph

Missing = Literal["error", "zero"]
STRICT: Missing = "error"
TRAINING: Missing = "zero"


@dataclass(frozen=True, slots=True)
class Gradient:
    """A graph with gradients, and its maps of values."""

    graph: Graph
    seed: str
    """The name of the input that carries the cotangent of the loss."""
    gradients: tuple[Value, ...]
    value_map: Mapping[Value, Value]
    """The copy of each value of the differentiated graph."""


def grad_with_loss(graph: Graph, wrt: Sequence[Value | str], *, missing: Missing = STRICT) -> Graph:
    """Return `<name>_grad` with outputs loss, aux.., then one gradient per value in `wrt`.

    `wrt` names leaves or any values of `graph`. A value that receives no cotangent is an
    error, or a zero gradient with `missing="zero"`.
    """
    return differentiate(graph, wrt, missing=missing).graph


def grad(graph: Graph, wrt: Sequence[Value | str], *, missing: Missing = STRICT) -> Graph:
    """Return the graph of `grad_with_loss` with the gradients as its only outputs."""
    gradient = differentiate(graph, wrt, missing=missing)
    gradient.graph.set_outputs(gradient.gradients)
    return gradient.graph


def differentiate(
    graph: Graph, wrt: Sequence[Value | str], *, missing: Missing = STRICT
) -> Gradient:
    """As `grad_with_loss`, also returning the map from values to their gradients."""
    targets = _checked_targets(graph, wrt)
    copied = prepare(graph, f"{graph.name}_grad", targets)
    copy, value_map = copied.graph, copied.value_map
    loss = value_map[graph.outputs[0]]
    seed_type = derivative_type(loss.type) or loss.type
    seed = copy.input(fresh_name(copy, "d_output"), seed_type.shape, seed_type.dtype)
    reached = [target for target in targets if target in value_map]
    pulled = vjp_in_graph(copy, [loss], [value_map[target] for target in reached], [to_rules(seed)])
    found = {t: None if g is None else from_rules(g) for t, g in zip(reached, pulled, strict=True)}
    if missing == STRICT:
        _require_all(target for target in targets if found.get(target) is None)
    gradients = [_or_zero(copy, found.get(target), target) for target in targets]
    set_outputs_like(graph, copy, value_map, *gradients)
    return Gradient(copy, str(seed.node.name), tuple(gradients), value_map)


def find_value(graph: Graph, target: Value | str) -> Value:
    """Return the value of `graph` that `target` is or names."""
    if isinstance(target, str):
        return graph.leaf(target)
    if target.graph is not graph:
        raise UnknownInputError(
            f"value {target.label} belongs to graph {target.graph.name!r}, not {graph.name!r}",
            remedy="name a leaf, or look the value up in the graph you differentiate",
        )
    return target


def fresh_name(graph: Graph, wanted: str) -> str:
    """Return `wanted`, or the first free of `wanted_1`, `wanted_2`, .."""
    taken = {leaf.node.name for leaf in (*graph.inputs, *graph.params)}
    suffix, name = 0, wanted
    while name in taken:
        suffix += 1
        name = f"{wanted}_{suffix}"
    return name


def describe(value: Value) -> str:
    """Return the value's name where it has one."""
    return repr(value.node.name) if value.node.name else value.label


def _checked_targets(graph: Graph, wrt: Sequence[Value | str]) -> list[Value]:
    if not graph.outputs:
        raise GraphError(
            f"graph {graph.name!r} has no outputs; the first one is the loss",
            remedy="call set_outputs([loss, ...])",
        )
    loss = graph.outputs[0]
    if not carries(loss):
        raise _not_differentiable(loss, "the loss")
    targets = [find_value(graph, target) for target in wrt]
    for target in targets:
        if derivative_type(target.type) is None:
            raise _not_differentiable(target, f"wrt {describe(target)}")
    return targets


def _or_zero(graph: Graph, cotangent: Value | None, target: Value) -> Value:
    if cotangent is not None:
        return cotangent
    return zeros(graph, derivative_type(target.type) or target.type)


def _not_differentiable(value: Value, what: str) -> NonDifferentiableError:
    return NonDifferentiableError(
        f"{what} has dtype {value.dtype}; only floating and complex values have derivatives",
        source=value.node.source,
        remedy="cast it to a floating dtype",
    )


def _require_all(missing: Iterable[Value]) -> None:
    lost = list(missing)
    if lost:
        raise MissingGradientError(
            f"the loss does not depend differentiably on {', '.join(map(describe, lost))}",
            names=[target.node.name or target.label for target in lost],
            remedy='leave it out of wrt, or pass missing="zero"',
        )
