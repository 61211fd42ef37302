"""Analysis: over which axes of ranks each value of a graph differs from rank to rank.

    %0: f32[4] = input {w}                       {}            equal on all ranks
    %1: f32[4] = input {x}                       {"ranks"}
    %2: f32[4] = mul %0, %1                      {"ranks"}
    %3: f32[4] = all_reduce %2, %communicator    {}

A sum over an axis is the same on all of its ranks; an operation on several values varies over the
axes of each. JAX tracks the same for `shard_map`, as varying manual axes. An axis that `vmap` maps
over has no communicator, and no entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.passes.rewrite import bodies_of

Axes = frozenset[str]
"""Names of axes of a mesh."""

NONE: Axes = frozenset()


class Varying:
    """The axes over which the values of one graph vary; the graph may grow between questions."""

    def __init__(self, inputs: Mapping[Value, Axes] | None = None) -> None:
        self.known: dict[Value, Axes] = dict(inputs or {})
        """Of inputs it is given; one that is not here is equal on all ranks."""
        self._done = 0

    def of(self, value: Value) -> Axes:
        nodes = value.graph.nodes
        for node in nodes[self._done : value.node.index + 1]:
            if node.operands or node.op is ops.axis_index:
                self.known.update(zip(node.results, self._results(node), strict=True))
        self._done = max(self._done, value.node.index + 1)
        return self.known.get(value, NONE)

    def _results(self, node: Node) -> Sequence[Axes]:
        given = [self.known.get(operand, NONE) for operand in node.operands]
        rule = _BODIES.get(node.op.name)
        if rule is not None:
            return rule(node, given)
        return [_after(node, _union(given))] * len(node.results)


def _after(node: Node, axes: Axes) -> Axes:
    """Return the axes of the result of an op whose operands vary over `axes`."""
    if node.op is ops.axis_index and node.operands:
        return axes | {node.attribute("axis_name")}
    exchanged = node.op.has(Trait.EQUALIZES) and len(node.operands) == 2
    if exchanged:
        return axes - {node.attribute("axis_name")}
    if node.op is ops.vary or (node.op.has(Trait.DISTRIBUTES) and len(node.operands) == 2):
        return axes | {node.attribute("axis_name")}
    return axes.union(*(_inside(body) for body in bodies_of(node.attrs)))


def _inside(body: Graph) -> Iterator[str]:
    """Yield the axes that the ops of a body name, for an op that has no rule for its bodies."""
    for node in body.nodes:
        if node.op.has(Trait.DISTRIBUTES) or node.op is ops.axis_index:
            yield node.attribute("axis_name")
        for inner in bodies_of(node.attrs):
            yield from _inside(inner)


def _union(axes: Sequence[Axes]) -> Axes:
    return NONE.union(*axes)


def _outputs(body: Graph, given: Sequence[Axes]) -> list[Axes]:
    varying = Varying(dict(zip(body.inputs, given, strict=True)))
    return [varying.of(output) for output in body.outputs]


def _scan(node: Node, given: Sequence[Axes]) -> Sequence[Axes]:
    count, body = node.attribute("num_carries"), node.attribute("body")
    carries, rest = list(given[:count]), given[count:]
    while True:
        found = _outputs(body, [*carries, *rest])
        grown = [a | b for a, b in zip(carries, found, strict=False)]
        if grown == carries:
            last = carries if node.attribute("length") == 0 else found[:count]
            return [*last, *found[count:]]
        carries = grown


def _while_loop(node: Node, given: Sequence[Axes]) -> Sequence[Axes]:
    """Ranks that leave the loop at different trips have different carries."""
    count = len(given) - node.attribute("num_consts")
    carries, consts = list(given[:count]), given[count:]
    while True:
        found = _outputs(node.attribute("body"), [*carries, *consts])
        grown = [a | b for a, b in zip(carries, found, strict=True)]
        if grown == carries:
            (holds,) = _outputs(node.attribute("condition"), [*carries, *consts])
            return [*(carry | holds for carry in carries), holds]
        carries = grown


def _chosen(node: Node, given: Sequence[Axes]) -> Sequence[Axes]:
    selector, operands = given[0], given[1:]
    found = [_outputs(branch, operands) for branch in bodies_of(node.attrs)]
    return [selector.union(*each) for each in zip(*found, strict=True)]


def _called(node: Node, given: Sequence[Axes]) -> Sequence[Axes]:
    return _outputs(node.attribute("body"), given)


def _stated(node: Node, given: Sequence[Axes]) -> Sequence[Axes]:
    return given[: node.attribute("num_results")]


_BODIES: dict[str, Callable[[Node, Sequence[Axes]], Sequence[Axes]]] = {
    "scan": _scan,
    "while_loop": _while_loop,
    "switch": _chosen,
    "cond": _chosen,
    "custom_call": _called,
    "checkpoint": _called,
    "custom_derivative": _stated,
}
"""Ops that apply bodies to their operands, by name: this file loads none of them."""
