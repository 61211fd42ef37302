"""Params that bodies read: each becomes one more operand, after the user's.

    body.set_outputs([c * body.param("w", (3,))])
    graph.scan(c, body=body, ...)          # c and graph.param("w") are its operands

A param of a body is that of the same name in the enclosing graph, which is declared there
if need be. They come in the order in which the bodies read them, and are differentiated like
any operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rlx.dataclass import dataclass
from rlx.errors import GraphError
from rlx.ir.graph import Graph, Node, Value


@dataclass(frozen=True, slots=True)
class Captures:
    """Conversion of params that bodies read to operands of the op."""

    bodies: tuple[str, ...]
    """The attributes that hold the bodies, which all take the same operands."""
    place: Callable[[dict[str, Any], int], int] = lambda _, inputs: inputs
    """Position of the new inputs, from the attributes and the number of a body's inputs."""
    leading: int = 0
    """How many operands of the op precede those of the bodies."""
    count: str | None = None
    """The attribute that grows by the number of the new operands."""
    unless: tuple[str, ...] = ()
    """Attributes holding bodies that know nothing of further operands."""

    def close(
        self, graph: Graph, operands: Sequence[Any], attributes: dict[str, Any]
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return operands and attributes of the op with bodies that have no params."""
        params = _params_of([body for name in self.bodies for body in _each(attributes, name)])
        if not params:
            return operands, attributes
        for name in self.unless:
            if attributes.get(name) is not None:
                raise _not_closed(attributes[name], params[0])
        place = self.place(attributes, len(operands) - self.leading)
        closed = dict(attributes)
        for name in self.bodies:
            bodies = tuple(_without_params(b, params, place) for b in _each(attributes, name))
            closed[name] = bodies if isinstance(attributes[name], (tuple, list)) else bodies[0]
        if self.count is not None:
            closed[self.count] = attributes.get(self.count, 0) + len(params)
        split = place + self.leading
        outer = [_declared(graph, param) for param in params]
        return (*operands[:split], *outer, *operands[split:]), closed


def _each(attributes: dict[str, Any], name: str) -> Sequence[Graph]:
    held = attributes.get(name)
    return held if isinstance(held, (tuple, list)) else () if held is None else (held,)


def _params_of(bodies: Sequence[Graph]) -> list[Value]:
    """Return the params that `bodies` read, each name once, in the order of first use."""
    found: dict[str, Value] = {}
    for body in bodies:
        read = [operand for node in body.nodes for operand in node.operands]
        for value in (*read, *body.outputs):
            if value.op.name == "param":
                found.setdefault(str(value.node.name), value)
    return list(found.values())


def _without_params(body: Graph, params: Sequence[Value], place: int) -> Graph:
    """Return the body with inputs in place of `params`, after its first `place` inputs."""
    closed = type(body)(body.name)
    value_map: dict[Value, Value] = {}
    taken = {str(value.node.name) for value in body.inputs}
    for value in body.inputs[:place]:
        value_map[value] = _mirrored(closed, value, str(value.node.name))
    named = {}
    for param in params:
        name = str(param.node.name)
        named[name] = _mirrored(closed, param, f"{name}_captured" if name in taken else name)
    for value in body.inputs[place:]:
        value_map[value] = _mirrored(closed, value, str(value.node.name))
    for node in body.nodes:
        if node.op.name == "param":
            _bind(node, named, value_map)
        elif node.op.name != "input":
            closed.copy_node(node, value_map)
    closed.set_outputs(value_map[output] for output in body.outputs)
    return closed


def _bind(param: Node, named: dict[str, Value], value_map: dict[Value, Value]) -> None:
    """Replace params by the inputs of their names; unread params have none."""
    found = named.get(str(param.name))
    if found is not None:
        _require_same(str(param.name), found, param.result)
        value_map[param.result] = found


def _declared(graph: Graph, param: Value) -> Value:
    """Return the param of this name of `graph`."""
    name = str(param.node.name)
    known = {str(value.node.name): value for value in (*graph.inputs, *graph.params)}
    if name not in known:
        return graph.param(name, param.shape, param.dtype)
    _require_same(name, known[name], param)
    if known[name].op.name != "param":
        raise GraphError(
            f"a body reads param {name!r}, which is an input of graph {graph.name!r}",
            source=param.node.source,
            remedy="pass it into the body as an operand",
        )
    return known[name]


def _require_same(name: str, one: Value, other: Value) -> None:
    if one.type != other.type:
        raise GraphError(
            f"param {name!r} has type {other.type} in body {other.graph.name!r} and type "
            f"{one.type} elsewhere",
            source=other.node.source,
            remedy="give both params one type, or different names",
        )


def _not_closed(derivative: Graph, param: Value) -> GraphError:
    return GraphError(
        f"body {param.graph.name!r} has param {param.node.name!r}, of which {derivative.name!r}, "
        "its derivative, has no operand",
        source=param.node.source,
        remedy="pass params into a function with derivatives of its own as operands",
    )


def _mirrored(graph: Graph, value: Value, name: str) -> Value:
    with graph.attributed(value.node.source):
        return graph.input(name, value.shape, value.dtype)
