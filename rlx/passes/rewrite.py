"""Infrastructure of passes: rebuilding of graphs, and local rewrites to a fixpoint.

A pass makes a new graph. What it must keep is kept here once for all of them: every leaf, in
order, even if dead; names, source lines, donations and output positions; bodies of control
flow, rewritten by the same pass. A map from old values to new ones says what changed.

    @rewrite(ops.neg)
    def neg_of_neg(node: Node) -> Value | None:
        inner = node.operands[0]
        return inner.node.operands[0] if inner.op is ops.neg else None

    @graph_pass
    def simplify(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [neg_of_neg])

`simplify(graph)` is the new graph; `simplify.rewrite(graph)` also has the value map.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from rlx.dataclass import dataclass
from rlx.errors import InternalError, blamed
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.lowering import Lowering
from rlx.ir.op import Attrs, OpDef, Trait, may_hold_bodies

ValueMap: TypeAlias = Mapping[Value, Value]
Replacement: TypeAlias = Value | Sequence[Value] | None
Rule: TypeAlias = Callable[[Node], Replacement]

_DEEPEST = 200
"""Rewrites of rewrites nest no deeper; more means two rules that undo each other."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A new graph, and the map from old values to new ones (without dead ones)."""

    graph: Graph
    value_map: ValueMap

    def then(self, following: GraphPass) -> Rewritten:
        """Run `following` and compose the value maps."""
        after = following.rewrite(self.graph)
        if after.graph is self.graph:
            return self
        value_map = {
            old: after.value_map[new]
            for old, new in self.value_map.items()
            if new in after.value_map
        }
        return Rewritten(after.graph, value_map)


@dataclass(frozen=True, slots=True)
class GraphPass:
    """A named `Graph -> Graph` function; `rewrite` also returns the map of values."""

    name: str
    rewrite: Callable[[Graph], Rewritten]
    doc: str = ""

    def __call__(self, graph: Graph) -> Graph:
        return self.rewrite(graph).graph


def graph_pass(function: Callable[[Graph], Rewritten]) -> GraphPass:
    """Make a pass of `function`; its name is the function's with dashes."""
    return GraphPass(function.__name__.replace("_", "-"), function, inspect.getdoc(function) or "")


@dataclass(frozen=True, slots=True)
class LocalRewrite:
    """A rule and the ops it looks at, or which those are; no ops means every op."""

    definitions: tuple[OpDef, ...] | Callable[[OpDef], bool]
    rule: Rule
    when: Callable[[Node], bool] | None = None
    """False for nodes of these ops that the rule does not change: a graph of such is not copied."""

    def looks_at(self, definition: OpDef) -> bool:
        if callable(self.definitions):
            return self.definitions(definition)
        return not self.definitions or definition in self.definitions


def rewrite(
    *definitions: OpDef,
    having: Trait | None = None,
    when: Callable[[Node], bool] | None = None,
) -> Callable[[Rule], LocalRewrite]:
    """Mark a rule for nodes of `definitions` (every node if none are given) that fulfil `when`.

    With `having` it is for the ops of that trait.

    The rule sees a node whose operands are already in normal form. It returns a replacement
    for each result, of equal type but for its layout, built on the node's own graph, or None
    for "no change".
    """
    looked_at = definitions if having is None else partial(OpDef.has, trait=having)
    return lambda rule: LocalRewrite(looked_at, rule, when)


class _Itself(Mapping[Value, Value]):
    """The identity map of values, for passes that change nothing."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __getitem__(self, value: Value) -> Value:
        if value.graph is not self._graph:
            raise KeyError(value)
        return value

    def __iter__(self) -> Iterator[Value]:
        return (result for node in self._graph.nodes for result in node.results)

    def __len__(self) -> int:
        return sum(len(node.results) for node in self._graph.nodes)


def unchanged(graph: Graph) -> Rewritten:
    """Return `graph` as its own rewriting."""
    return Rewritten(graph, _Itself(graph))


def is_leaf(node: Node) -> bool:
    """True for inputs and params, which every pass keeps; constants may go."""
    return node.op.has(Trait.LEAF) and node.op.name != "constant"


def bodies_of(attrs: Attrs) -> list[Graph]:
    """Return the sub-graphs among the attributes, in declaration order."""
    found: list[Graph] = []
    if not may_hold_bodies(type(attrs)):
        return found
    for value in attrs.as_dict().values():
        members = value if isinstance(value, tuple) else (value,)
        found.extend(member for member in members if isinstance(member, Graph))
    return found


def map_bodies(attrs: Attrs, change: Callable[[Graph], Graph]) -> Attrs:
    """Replace every sub-graph by `change` of it; return `attrs` itself if none changes."""
    bodies = bodies_of(attrs)
    value_maps = {id(body): change(body) for body in bodies}
    if all(value_maps[id(body)] is body for body in bodies):
        return attrs

    def mapped(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(mapped(item) for item in value)
        return value_maps[id(value)] if isinstance(value, Graph) else value

    return dataclasses.replace(
        attrs, **{name: mapped(value) for name, value in attrs.as_dict().items()}
    )


def holders(graph: Graph) -> tuple[Node, ...]:
    """Return the nodes whose bodies passes change: not those that are one kernel."""
    return graph.once(_holders)


def _holders(graph: Graph) -> tuple[Node, ...]:
    nodes = (node for node in graph.nodes if may_hold_bodies(type(node.attrs)))
    return tuple(node for node in nodes if not node.is_one_kernel)


def ops_within(graph: Graph) -> frozenset[OpDef]:
    """Return the ops of a graph and of the bodies of its `holders`: the rules that may apply."""
    return graph.once(_ops_within)


def _ops_within(graph: Graph) -> frozenset[OpDef]:
    own = frozenset(node.op for node in graph.nodes)
    return own.union(*(ops_within(b) for node in holders(graph) for b in bodies_of(node.attrs)))


def with_lowering(node: Node, lowering: Lowering) -> tuple[Value, ...]:
    """Append `node` again with a record of how it is computed."""
    return node.results[0].graph.append(node.op, node.operands, node.attrs, lowering=lowering)


def has_effect(node: Node) -> bool:
    """True for what runs even if its results are unread, and for ops with such a node in a body."""
    if node.op.has(Trait.EFFECT):
        return True
    bodies = bodies_of(node.attrs) if _may_hold_effects(node.op) else ()
    return any(map(_body_has_effect, bodies))


def _body_has_effect(body: Graph) -> bool:
    """Look into a body once: bodies of nested rules hold each other many times."""
    if body.effects is None or body.effects[0] != len(body.nodes):
        body.effects = len(body.nodes), any(map(has_effect, body.nodes))
    return body.effects[1]


@functools.cache
def _may_hold_effects(definition: OpDef) -> bool:
    return definition.holds_bodies and not definition.has(Trait.FUSED)


@functools.cache
def _may_be_root(definition: OpDef) -> bool:
    roots = definition.has(Trait.LEAF) or definition.has(Trait.EFFECT)
    return roots or _may_hold_effects(definition)


def live_nodes(graph: Graph, replaced: Collection[Node] = ()) -> set[Node]:
    """Return the leaves, what has effects, and everything that they and the outputs depend on.

    Effects of nodes in `replaced` are those of other nodes now.
    """
    live = {
        n
        for n in graph.nodes
        if _may_be_root(n.op) and (is_leaf(n) or (has_effect(n) and n not in replaced))
    }
    live.update(output.node for output in graph.outputs)
    for node in reversed(graph.nodes):
        if node in live:
            live.update(operand.node for operand in node.operands)
    return live


def copy_node(
    target: Graph,
    node: Node,
    value_map: dict[Value, Value],
    *,
    attrs: Attrs | None = None,
) -> tuple[Value, ...]:
    """Append `node` to `target` with operands mapped by `value_map`, which learns its results.

    `attrs` replace its own.
    """
    if is_leaf(node):
        target.copy_node(node, value_map)
        return tuple(value_map[result] for result in node.results)
    results = target.append(
        node.op,
        tuple(value_map[operand] for operand in node.operands),
        attrs or node.attrs,
        name=node.name,
        source=node.source,
        scope=node.scope,
        copied=node,
    )
    value_map.update(zip(node.results, results, strict=True))
    return results


def rebuild(
    graph: Graph,
    nodes: Sequence[Node],
    change_body: Callable[[Graph], Graph] = lambda body: body,
    same_as: ValueMap | None = None,
) -> Rewritten:
    """Return a copy of `graph` of only `nodes`, in that order; bodies go through `change_body`.

    `same_as` names, for values whose nodes are left out, the values that replace them.
    Bodies of `fused` nodes stay as they are: they belong to code generation. If nothing
    changes, the result is `graph` itself.
    """
    kept = set(nodes)
    attrs = {n: map_bodies(n.attrs, change_body) for n in holders(graph) if n in kept}
    if all(new is node.attrs for node, new in attrs.items()) and list(nodes) == graph.nodes:
        return unchanged(graph)
    stand_ins = same_as or {}
    target = Graph(graph.name)
    value_map: dict[Value, Value] = {}
    for node in nodes:
        operands = (value_map[stand_ins.get(operand, operand)] for operand in node.operands)
        value_map.update(zip(node.operands, operands, strict=True))
        copy_node(target, node, value_map, attrs=attrs.get(node))
    value_map.update((old, value_map[new]) for old, new in stand_ins.items() if new in value_map)
    finish(target, graph, value_map)
    return Rewritten(target, value_map)


def over_bodies(name: str, form: Callable[[Graph], Rewritten], doc: str) -> GraphPass:
    """Return the pass that applies `form` to the bodies of loops and branches, then to the graph.

    Bodies of bodies come before these.
    """

    def run(graph: Graph) -> Rewritten:
        return unchanged(graph).then(inner).then(GraphPass(name, form))

    inner = GraphPass(name, lambda graph: rebuild(graph, graph.nodes, lambda b: run(b).graph))
    return GraphPass(name, run, doc)


def finish(target: Graph, source: Graph, value_map: ValueMap) -> None:
    """Give `target` the outputs of `source` and their names, and its leaves the same roles."""
    target.outputs = tuple(value_map[output] for output in source.outputs)
    target.output_names, target.output_labels = source.output_names, source.output_labels
    target.take_roles(source)


def apply_rewrites(graph: Graph, rewrites: Iterable[LocalRewrite]) -> Rewritten:
    """Apply local rewrites bottom-up until none matches; return `graph` itself if none did.

    Every node is visited once, after its operands took their final form, and so is every node
    that a rule builds: the cost is linear in nodes plus rewrites. Rules may look at operands,
    never at readers, which do not exist yet.
    """
    return _Rewriter(graph, list(rewrites)).run()


class _Rewriter:
    """One run of `apply_rewrites`: grows `target`, which also collects what is replaced."""

    def __init__(self, source: Graph, rewrites: list[LocalRewrite]) -> None:
        self.source = source
        self.target = Graph(source.name)
        self.target.take_roles(source)  # rules ask which leaves are replaced
        self.rewrites = rewrites
        self.changed = False
        self.depth = 0
        self.replaced: dict[Value, Value] = {}
        """Values of `target` that a rule replaced, and by what."""
        self.gone: set[Node] = set()
        """Nodes of `target` in whose place there are others."""
        self.origins: dict[Node, Node] = {}
        """New nodes of `target` -> the node of `source` in whose place they were built."""
        self.bodies: dict[int, Graph] = {}
        self.by_op: dict[OpDef, list[LocalRewrite]] = {}

    def run(self) -> Rewritten:
        if not any(map(self._rules, ops_within(self.source))):
            return unchanged(self.source)
        if not self._any_applies() and not self._any_body_changes():
            return unchanged(self.source)
        value_map: dict[Value, Value] = {}
        for node in self.source.nodes:
            results = self._copy(node, value_map)
            value_map.update(zip(node.results, self._normalize(results[0].node, node), strict=True))
        if not self.changed:
            return unchanged(self.source)
        finish(self.target, self.source, value_map)
        return self._sweep(value_map)

    def _any_applies(self) -> bool:
        """True if a rule may apply to some node of the graph itself."""
        looked_at = {op for op in ops_within(self.source) if self._rules(op)}
        return any(
            local.when is None or local.when(node)
            for node in self.source.nodes
            if node.op in looked_at
            for local in self._rules(node.op)
        )

    def _any_body_changes(self) -> bool:
        """True if a rule applies within a body; without, the graph needs no copy."""
        nodes = holders(self.source)
        return any(map_bodies(node.attrs, self._body) is not node.attrs for node in nodes)

    def _copy(self, node: Node, value_map: dict[Value, Value]) -> tuple[Value, ...]:
        held = may_hold_bodies(type(node.attrs)) and not node.is_one_kernel
        attrs = map_bodies(node.attrs, self._body) if held else node.attrs
        return copy_node(self.target, node, value_map, attrs=attrs)

    def _body(self, body: Graph) -> Graph:
        """Rewrite a sub-graph, once if several nodes share it."""
        if id(body) not in self.bodies:
            self.bodies[id(body)] = _Rewriter(body, self.rewrites).run().graph
        result = self.bodies[id(body)]
        self.changed |= result is not body
        return result

    def _normalize(self, node: Node, origin: Node) -> tuple[Value, ...]:
        """Return the final values of `node`, a node of `target` with final operands."""
        rules = self._rules(node.op)
        if not rules or not node.results:
            return node.results
        start, replacement = len(self.target.nodes), None
        context = f"rewriting {node.title}"
        with blamed(context, origin.source), self.target.attributed(origin.source):
            for local in rules:
                if local.when is None or local.when(node):
                    start = len(self.target.nodes)
                    replacement = local.rule(node)
                    if replacement is not None:
                        break
        if replacement is None:
            return node.results
        return self._replace(node, replacement, self.target.nodes[start:], origin)

    def _replace(
        self, node: Node, replacement: Value | Sequence[Value], built: list[Node], origin: Node
    ) -> tuple[Value, ...]:
        self.changed = True
        self.depth += 1
        if self.depth > _DEEPEST:
            raise InternalError(f"rewrites of {node.op.name} do not come to an end")
        for new in built:
            self._normalize_built(new, origin)
        self.depth -= 1
        values = (replacement,) if isinstance(replacement, Value) else tuple(replacement)
        final = tuple(self._final(value) for value in values)
        _check_types(node, final)
        if not any(result in final for result in node.results):
            self.gone.add(node)
        return final

    def _normalize_built(self, new: Node, origin: Node) -> None:
        """Bring a node that a rule built to its final form."""
        operands = tuple(self._final(operand) for operand in new.operands)
        built = new
        if operands != new.operands:
            results = self.target.append(
                new.op, operands, new.attrs, source=origin.source, copied=new
            )
            built = results[0].node
        self.origins[built] = origin
        final = self._normalize(built, origin)
        self.replaced.update(
            (old, value) for old, value in zip(new.results, final, strict=True) if old is not value
        )

    def _final(self, value: Value) -> Value:
        while value in self.replaced:
            value = self.replaced[value]
        return value

    def _rules(self, definition: OpDef) -> list[LocalRewrite]:
        if definition not in self.by_op:
            self.by_op[definition] = [
                local for local in self.rewrites if local.looks_at(definition)
            ]
        return self.by_op[definition]

    def _sweep(self, value_map: dict[Value, Value]) -> Rewritten:
        """Keep the live part of `target`; name what a rule built after what it replaces."""
        results = {r for output in value_map.values() for r in output.node.results}
        live = live_nodes(self.target, self.gone)
        kept = [node for node in self.target.nodes if node in live]
        like = {n: _anonymous(o, n, results) for n, o in self.origins.items() if n in live}
        self.target.keep(kept, like)
        found = {old: new for old, new in value_map.items() if new.node in live}
        return Rewritten(self.target, found)


def _anonymous(origin: Node, node: Node, results: set[Value]) -> Node:
    """Return `origin`, without its name for a node that yields none of its values."""
    if any(result in results for result in node.results):
        return origin
    return dataclasses.replace(origin, name=None)


def _check_types(node: Node, values: tuple[Value, ...]) -> None:
    expected = tuple(result.type.plain for result in node.results)
    given = tuple(value.type.plain for value in values)
    if expected != given:
        raise InternalError(
            f"a rewrite replaced {node.op.name} of type {', '.join(map(str, expected))} "
            f"by a value of type {', '.join(map(str, given))}"
        )


def ancestors(outputs: Iterable[Value], known: Container[Value] = ()) -> set[Value]:
    """Return `outputs` and every value that they are computed from, given those in `known`."""
    found: set[Value] = set()
    pending = list(outputs)
    while pending:
        value = pending.pop()
        if value not in found:
            found.add(value)
            pending.extend(() if value in known else value.node.operands)
    return found
