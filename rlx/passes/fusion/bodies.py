"""Outlining of groups into `fused` nodes: their bodies, by the contract of `rlx.ir.ops.fused`."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import make_attrs
from rlx.passes.fusion.groups import Group, Groups
from rlx.passes.fusion.policy import FusionPolicy, free_source, is_free, is_index_check, is_literal
from rlx.passes.ordering import sorted_by_need
from rlx.passes.rewrite import Rewritten, copy_node, finish, unchanged

_NAMED_OPS = 4
"""Op names that a body's name spells out."""


def contract(groups: Groups, policy: FusionPolicy) -> Rewritten:
    """Return the graph with every group of several nodes as one `fused` node."""
    bodies = {
        group: _Body(groups, group, policy)
        for group in dict.fromkeys(groups.group_of.values())
        if _is_worth_a_body(groups, group, policy)
    }
    # What reads nothing but scalars has no operand to be a body of.
    bodies = {group: body for group, body in bodies.items() if body.operands}
    if not bodies:
        return unchanged(groups.graph)
    return _Emission(groups, bodies).run()


def _is_worth_a_body(groups: Groups, group: Group, policy: FusionPolicy) -> bool:
    if len(group.members) > 1:
        return True
    (node,) = group.members
    if any(map(groups.recomputed.repeats, node.operands)):
        return True
    sunk = node.operands if group.anchor is None else node.operands[:1]
    takes = policy.takes_prologue(node) or ops.is_pointwise(node)
    return (takes and any(_grows(operand) for operand in sunk)) or is_index_check(node)


def _grows(value: Value) -> bool:
    """True if `value` is a broadcast that need not be stored."""
    return is_free(value.node) and value.type.elements != free_source(value).type.elements


_ROLES = {
    ("add", True): "bias",
    ("add", False): "addend",
    ("sub", False): "subtrahend",
    ("mul", True): "scale",
    ("mul", False): "factor",
}
"""Name of a further operand of an anchor, by op and whether it is a broadcast."""


def _operand_name(node: Node, position: int) -> str:
    names = node.op.operands
    name = names[min(position, len(names) - 1)]
    return ops.operand_name(name, node.operands[position].type)


class _Body:
    """The body graph of a group, what it reads and what it yields."""

    def __init__(self, groups: Groups, group: Group, policy: FusionPolicy) -> None:
        self.groups = groups
        self.group = group
        self.graph = Graph(_name(group))
        self.operands: list[Value] = []
        self.value_map: dict[Value, Value] = {}
        self._taken: dict[str, int] = {}
        self._sinks_into_anchor = group.anchor is not None and policy.takes_prologue(group.anchor)
        self._declare_inputs()
        for node in group.members:
            for operand in node.operands:
                self._reach(operand)
            self._append(node)
        self.results = tuple(
            node.results[0] for node in group.members if not groups.is_private(node, group)
        )
        self.graph.outputs = tuple(self.value_map[result] for result in self.results)

    def _declare_inputs(self) -> None:
        """Declare an input for each value from outside, in the order of first use.

        The anchor's own operands come first: but for a prologue they stay as they are.
        """
        anchor = self.group.anchor
        if anchor is not None:
            for position, operand in enumerate(anchor.operands):
                if position or not self._sinks_into_anchor:
                    self._declare(operand, _operand_name(anchor, position))
        for node in self.group.members:
            for position, operand in enumerate(node.operands):
                for outer in self._outermost(operand):
                    self._declare(outer, self._role(node, position, outer))

    def _role(self, node: Node, position: int, outer: Value) -> str:
        """Return the role of `outer` in `node`: a bias, a scale, an addend of an anchor."""
        if self.group.anchor is None or node is self.group.anchor:
            return _operand_name(node, position)
        is_spread = outer.type.elements != node.results[0].type.elements
        return _ROLES.get((node.op.name, is_spread)) or _operand_name(node, position)

    def _outermost(self, value: Value) -> list[Value]:
        """Return the values from which `value` is recomputed and which are not available yet."""
        found: dict[Value, None] = {}
        pending, seen = [value], {value}
        while pending:
            reached = pending.pop()
            known = reached in self.value_map or not self.groups.recomputed.holds(reached.node)
            if known or not reached.node.operands:
                found[reached] = None
                continue
            inner = [operand for operand in reached.node.operands if operand not in seen]
            seen.update(inner)
            pending += reversed(inner)
        return list(found)

    def _declare(self, value: Value, role: str) -> None:
        inside = value.node in self.group.members
        if inside or value in self.value_map or self._is_made_here(value):
            return
        name = role if role not in self._taken else f"{role}_{self._taken[role] + 1}"
        self._taken[role] = self._taken.get(role, 0) + 1
        self.value_map[value] = self.graph.input_of(name, value.type)
        self.operands.append(value)

    def _is_made_here(self, value: Value) -> bool:
        """True for scalars without operands, and for the indices that a check of an index reads."""
        anchor = self.group.anchor
        table = anchor is not None and is_index_check(anchor) and value is anchor.operands[0]
        return table or is_literal(value.node)

    def _reach(self, value: Value) -> None:
        """Copy what is recomputed between `value` and what is known."""
        if value in self.value_map:
            return
        for operand in value.node.operands:
            self._reach(operand)
        self._append(value.node)

    def _append(self, node: Node) -> None:
        """Append a copy without name and scope, so that bodies of equal layers are equal."""
        operands = tuple(self.value_map[operand] for operand in node.operands)
        results = self.graph.append(node.op, operands, node.attrs, source=node.source, copied=node)
        self.value_map.update(zip(node.results, results, strict=True))


def _name(group: Group) -> str:
    """Return a name from the ops of the body; equal bodies have equal names."""
    names = [node.op.name for node in group.members]
    if len(names) <= _NAMED_OPS:
        return "_".join(names)
    if group.anchor is not None:
        return f"{group.anchor.op.name}_and_{len(names) - 1}_more"
    return f"{'_'.join(names[:2])}_and_{len(names) - 2}_more"


class _Emission:
    """Writes the contracted graph: groups in the order of their last nodes, as far as possible."""

    def __init__(self, groups: Groups, bodies: dict[Group, _Body]) -> None:
        self.groups = groups
        self.bodies = bodies
        self.target = Graph(groups.graph.name)
        self.value_map: dict[Value, Value] = {}

    def run(self) -> Rewritten:
        for node in self._order():
            group = self.groups.group_of.get(node)
            if group is not None and group in self.bodies:
                self._emit_fused(self.bodies[group])
            else:
                self._emit(node)
        for output in self.groups.graph.outputs:
            self._reach(output)
        finish(self.target, self.groups.graph, self.value_map)
        return Rewritten(self.target, self.value_map)

    def _order(self) -> list[Node]:
        """Return one node for each group, and the leaves that no body swallows, sorted."""
        nodes = (n for n in self.groups.graph.nodes if not self.groups.recomputed.holds(n))
        last = {node: self._last(node) for node in nodes}
        units = [node for node in last if last[node] is node]
        needed: dict[Node, set[Node]] = {unit: set() for unit in units}
        for node, unit in last.items():
            stored = [source for o in node.operands for source in self.groups.sources(o)]
            needed[unit] |= {last[s.node] for s in stored if s.node in last} - {unit}
        return sorted_by_need(units, needed)

    def _last(self, node: Node) -> Node:
        group = self.groups.group_of.get(node)
        return node if group is None else group.members[-1]

    def _emit_fused(self, body: _Body) -> None:
        for operand in body.operands:
            self._reach(operand)
        named = [result.node for result in body.results if result.node.name is not None]
        like = (named or [body.results[-1].node])[-1]
        results = self.target.append(
            ops.fused,
            tuple(self.value_map[operand] for operand in body.operands),
            make_attrs(ops.fused, {"body": body.graph}),
            name=like.name,
            source=like.source,
            scope=like.scope,
        )
        self.value_map.update(zip(body.results, results, strict=True))

    def _emit(self, node: Node) -> None:
        for operand in node.operands:
            self._reach(operand)
        copy_node(self.target, node, self.value_map)

    def _reach(self, value: Value) -> None:
        """Emit what `value` is recomputed from, unless it is there already."""
        if value in self.value_map:
            return
        self._emit(value.node)
