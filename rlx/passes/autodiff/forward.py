"""Forward mode as a pass: a graph becomes one that also pushes tangents to its outputs.

g = jvp(graph, ["x"])          # inputs: .., tangent_x; outputs: primals.., tangents..
h = hvp(graph, ["x"])          # outputs: loss, aux.., grad, t_loss, t_aux.., H @ tangent_x
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlx.dataclass import dataclass
from rlx.ir.graph import Graph, Value
from rlx.ir.op import Trait
from rlx.passes.algebra import zeros
from rlx.passes.autodiff.derived import derivative_type
from rlx.passes.autodiff.errors import NonDifferentiableError, UnknownInputError
from rlx.passes.autodiff.prepare import prepare, set_outputs_like
from rlx.passes.autodiff.reverse import (
    STRICT,
    Missing,
    describe,
    differentiate,
    find_value,
    fresh_name,
)
from rlx.passes.autodiff.sweep import jvp_in_graph


@dataclass(frozen=True, slots=True)
class Tangents:
    """A graph with tangents, and its maps of values."""

    graph: Graph
    names: tuple[str, ...]
    """The names of the tangent inputs, in the order asked for."""
    value_map: Mapping[Value, Value]
    """The copy of each value of the differentiated graph."""


def jvp(graph: Graph, tangent_for: Sequence[Value | str]) -> Graph:
    """Return `<name>_jvp` with outputs primals.., tangents.. and inputs `tangent_<name>`.

    `tangent_for` names floating or complex leaves. The tangent of an output that depends on
    none of them is zero.
    """
    return push(graph, tangent_for).graph


def push(graph: Graph, tangent_for: Sequence[Value | str]) -> Tangents:
    """As `jvp`, also returning the map from values to their tangents."""
    leaves = [_require_leaf(find_value(graph, target)) for target in tangent_for]
    copied = prepare(graph, f"{graph.name}_jvp")
    copy, value_map = copied.graph, copied.value_map
    names, tangents = [], []
    for leaf in leaves:
        names.append(fresh_name(copy, f"tangent_{leaf.node.name}"))
        tangents.append(copy.input(names[-1], leaf.shape, leaf.dtype))
    outputs = [value_map[output] for output in graph.outputs]
    moved = jvp_in_graph(copy, outputs, [value_map[leaf] for leaf in leaves], tangents)
    filled = [
        zeros(copy, derivative_type(output.type) or output.type) if tangent is None else tangent
        for output, tangent in zip(outputs, moved, strict=True)
    ]
    set_outputs_like(graph, copy, value_map, *filled)
    return Tangents(copy, tuple(names), value_map)


def hvp(graph: Graph, wrt: Sequence[Value | str], *, missing: Missing = STRICT) -> Graph:
    """Return the forward derivative of the gradient: Hessian times `tangent_<name>`.

    Outputs: loss, aux.., gradients.., then the tangent of each; those of the gradients are
    the products. `wrt` names leaves.
    """
    leaves = [_require_leaf(find_value(graph, target)) for target in wrt]
    gradient = differentiate(graph, leaves, missing=missing)
    return jvp(gradient.graph, [str(leaf.node.name) for leaf in leaves])


def _require_leaf(value: Value) -> Value:
    if not value.op.has(Trait.LEAF) or value.op.name == "constant":
        raise UnknownInputError(
            f"{describe(value)} is the result of {value.op.name}; tangents enter at inputs "
            "and params",
            source=value.node.source,
            remedy="name an input or a param",
        )
    if not value.dtype.is_differentiable:
        raise NonDifferentiableError(
            f"{describe(value)} has dtype {value.dtype}, which carries no tangent",
            source=value.node.source,
            remedy="give tangents for floats and complex numbers only",
        )
    return value
