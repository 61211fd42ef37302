"""Reverse mode as a pass: a graph becomes one that also computes gradients.

    step = grad_with_loss(graph, wrt=[w])      # outputs: loss, aux.., d loss / d w

The first output is the loss, of any shape: the result is a vector-Jacobian product with the
new last input, normally `d_output` (ones for the gradient of a scalar loss).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rlx.errors import GraphError
from rlx.ir.graph import Graph, Value
from rlx.passes.autodiff.algebra import zeros
from rlx.passes.autodiff.errors import (
    MissingGradientError,
    NonDifferentiableError,
    UnknownInputError,
)
from rlx.passes.autodiff.prepare import prepare, set_outputs_like
from rlx.passes.autodiff.sweep import vjp_in_graph

Missing = Literal["error", "zero"]
STRICT: Missing = "error"
TRAINING: Missing = "zero"


@dataclass(frozen=True, slots=True)
class Gradient:
    """A graph with gradients, and how to find one's way in it."""

    graph: Graph
    seed: str
    """The name of the input that carries the cotangent of the loss."""
    gradients: tuple[Value, ...]
    image: Mapping[Value, Value]
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
    """Do what `grad_with_loss` does and return where everything went."""
    if not graph.outputs:
        raise GraphError(f"graph {graph.name!r} has no outputs; the first one is the loss")
    targets = [find_value(graph, target) for target in wrt]
    _require_differentiable(graph.outputs[0], "the loss")
    for target in targets:
        _require_differentiable(target, f"wrt {describe(target)}")
    copied = prepare(graph, f"{graph.name}_grad")
    copy, image = copied.graph, copied.image
    loss = image[graph.outputs[0]]
    seed = fresh_name(copy, "d_output")
    reached = [image[target] for target in targets if target in image]
    seeds = [copy.input(seed, loss.shape, loss.dtype)]
    found = dict(zip(reached, vjp_in_graph(copy, [loss], reached, seeds), strict=True))
    cotangents = [found.get(image[target]) if target in image else None for target in targets]
    if missing == STRICT:
        _require_all(targets, cotangents)
    gradients = [
        zeros(copy, target.type) if cotangent is None else cotangent
        for target, cotangent in zip(targets, cotangents, strict=True)
    ]
    set_outputs_like(graph, copy, image, *gradients)
    return Gradient(copy, seed, tuple(gradients), image)


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


def _require_differentiable(value: Value, what: str) -> None:
    if not value.dtype.is_differentiable:
        raise NonDifferentiableError(
            f"{what} has dtype {value.dtype}; only floating and complex values have derivatives",
            source=value.node.source,
            remedy="cast it to a floating dtype",
        )


def _require_all(targets: Sequence[Value], cotangents: Sequence[Value | None]) -> None:
    lost = [
        target for target, cotangent in zip(targets, cotangents, strict=True) if cotangent is None
    ]
    if lost:
        raise MissingGradientError(
            f"the loss does not depend differentiably on {', '.join(map(describe, lost))}",
            names=[target.node.name or target.label for target in lost],
            remedy='leave it out of wrt, or pass missing="zero"',
        )
