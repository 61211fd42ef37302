"""Recompute long formulas for a later kernel that reads many of their intermediate values.

Between a formula and its derivative there often is what no kernel of elements holds: a sort, a
product, a loop. All that the derivative reads of the formula would be stored until then, tens of
arrays for a special function. They are computed again from the formula's operands.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.passes.fusion.policy import free_source, is_free, is_fusable, is_literal
from rlx.passes.rewrite import GraphPass, Rewritten, copy_node, finish, over_bodies, unchanged

_LEAST_SAVED = 6
"""Values that need not be stored: to store fewer takes no longer than to compute them again."""

_MOST_NODES_PER_VALUE = 16
"""Nodes that may be computed again for each value that is not stored."""


def recompute_formulas() -> GraphPass:
    """Return the pass that copies elementwise nodes for later readers of many of them.

    %1..%40 = a formula of %0                   %1..%40 = a formula of %0
    %41 = sort %40                              %41 = sort %40
    %50 = reads %41 and %1..%39         ->      %42 = barrier %0, %41
                                                %43..%82 = the formula of %42
                                                %90 = reads %41 and %43..%81
    """

    def run(graph: Graph) -> Rewritten:
        found = _Formulas(graph).chosen()
        return _Copies(graph, found).run() if found else unchanged(graph)

    return over_bodies("recompute-formulas", run, inspect.getdoc(recompute_formulas) or "")


@dataclass(frozen=True, slots=True)
class _Formula:
    """Nodes that are computed again, and the readers of their results."""

    nodes: Set[Node]
    readers: Sequence[Node]
    after: Value
    """What is computed before the readers and after the formula."""
    copies: dict[Value, Value] = field(default_factory=dict)
    """What was computed again so far."""


class _Formulas:
    def __init__(self, graph: Graph) -> None:
        self.users = graph.users()
        self.outputs = set(graph.outputs)
        self.levels = _levels(graph)
        self.after = _after(graph, self.levels)
        self.nodes = [node for node in graph.nodes if _is_part(node)]

    def chosen(self) -> list[_Formula]:
        """Return the formulas that are worth it, for each of the levels at which they are read."""
        if len(set(self.levels.values())) < 2:
            return []
        return [found for part in self._parts() for found in self._of_part(part)]

    def _parts(self) -> Iterable[list[Node]]:
        """Return connected sets of nodes of one shape that one kernel could compute."""
        root: dict[Node, Node] = {}

        def find(node: Node) -> Node:
            while root[node] is not node:
                root[node] = node = root[root[node]]
            return node

        for node in self.nodes:
            root[node] = node
            for source in _sources(node):
                if source in root and self._is_near(source, node):
                    root[find(source)] = find(node)
        parts: dict[Node, list[Node]] = defaultdict(list)
        for node in self.nodes:
            parts[find(node)].append(node)
        return parts.values()

    def _is_near(self, a: Node, b: Node) -> bool:
        return self.levels[a] == self.levels[b] and a.result.shape == b.result.shape

    def _of_part(self, part: list[Node]) -> Iterator[_Formula]:
        members = set(part)
        later: dict[int, list[Node]] = defaultdict(list)
        for node in part:
            for reader in self.users.get(node.result, ()):
                if reader not in members and self._can_hold(reader, node):
                    later[self.levels[reader]].append(node)
        for level, read in later.items():
            formula = self._formula(members, dict.fromkeys(read), level)
            if formula is not None:
                yield formula

    def _can_hold(self, reader: Node, node: Node) -> bool:
        """True for a later node whose kernel could compute `node`, too."""
        is_later = reader in self.levels and self.levels[reader] > self.levels[node]
        return is_later and _is_part(reader) and reader.result.shape == node.result.shape

    def _formula(self, members: set[Node], read: Iterable[Node], level: int) -> _Formula | None:
        """Return what computes the values that are read at `level`, if it saves enough."""
        again = [node for node in read if not self._is_stored(node, members, level)]
        if len(again) < _LEAST_SAVED:
            return None
        needed, pending, inputs = set(again), [*again], set[Value]()
        while pending:
            for operand in pending.pop().operands:
                source = free_source(operand)
                if source.node in members and not self._is_stored(source.node, members, level):
                    if source.node not in needed:
                        needed.add(source.node)
                        pending.append(source.node)
                elif not is_literal(source.node):
                    inputs.add(source)
        kept = [v for v in inputs if not v.op.has(Trait.LEAF) and v.node not in members]
        saved = len(again) - len(kept)
        if saved < _LEAST_SAVED or len(needed) > _MOST_NODES_PER_VALUE * saved:
            return None
        readers = {r for node in again for r in self.users[node.result] if self._at(r, level)}
        ordered = sorted(readers, key=lambda node: node.index)
        return _Formula(needed, ordered, self.after[ordered[0]])

    def _at(self, reader: Node, level: int) -> bool:
        return self.levels.get(reader) == level and _is_part(reader)

    def _is_stored(self, node: Node, members: set[Node], level: int) -> bool:
        """True for a value that is an output, or that others than kernels of elements read."""
        if node.result in self.outputs:
            return True
        readers = (r for r in self.users.get(node.result, ()) if r not in members)
        return any(not self._at(reader, level) for reader in readers)


class _Copies:
    """Copies a graph, and of formulas what a reader needs before it."""

    def __init__(self, graph: Graph, formulas: Iterable[_Formula]) -> None:
        self.graph = graph
        self.target = Graph(graph.name)
        self.value_map: dict[Value, Value] = {}
        self.formulas: dict[Node, list[_Formula]] = defaultdict(list)
        for formula in formulas:
            for reader in formula.readers:
                self.formulas[reader].append(formula)

    def run(self) -> Rewritten:
        for node in self.graph.nodes:
            changed: dict[Value, Value] = {}
            for formula in self.formulas.get(node, ()):
                read = [operand for operand in node.operands if operand.node in formula.nodes]
                changed.update((operand, self._copy(formula, operand)) for operand in read)
            self._copy_node(node, changed)
        finish(self.target, self.graph, self.value_map)
        return Rewritten(self.target, self.value_map)

    def _copy_node(self, node: Node, changed: Mapping[Value, Value]) -> None:
        """Copy a node that reads some `changed` operands."""
        own = {value: self.value_map[value] for value in changed}
        self.value_map.update(changed)
        copy_node(self.target, node, self.value_map)
        self.value_map.update(own)

    def _copy(self, formula: _Formula, wanted: Value) -> Value:
        """Return the copy of `wanted`, a value of a formula, a broadcast of one, or an operand."""
        made, pending = formula.copies, [wanted]
        while pending:
            value = pending[-1]
            node = value.node
            is_copied = node in formula.nodes or bool(node.operands and is_free(node))
            missing = [o for o in node.operands if o not in made] if is_copied else []
            if missing and value not in made:
                pending += missing
                continue
            pending.pop()
            if value in made:
                continue
            if is_copied:
                made[value] = self._again(node, made)
            elif is_literal(node) or node.op.has(Trait.RESIDENT):
                made[value] = self.value_map[value]
            else:
                made[value] = ops.barrier(self.value_map[value], self.value_map[formula.after])
        return made[wanted]

    def _again(self, node: Node, made: Mapping[Value, Value]) -> Value:
        first = self.value_map[node.result]
        self._copy_node(node, {operand: made[operand] for operand in node.operands})
        again, self.value_map[node.result] = self.value_map[node.result], first
        return again


def _levels(graph: Graph) -> dict[Node, int]:
    """Return for each node how many others on a path to it no kernel of elements computes."""
    levels: dict[Node, int] = {}
    for node in graph.nodes:
        below = max((levels[operand.node] for operand in node.operands), default=0)
        levels[node] = below if _is_within(node) else below + 1
    return levels


def _after(graph: Graph, levels: Mapping[Node, int]) -> dict[Node, Value]:
    """Return for nodes a result of their level that they depend on and no kernel of it computes."""
    after: dict[Node, Value] = {}
    for node in graph.nodes:
        alike = (o for o in node.operands if levels[o.node] == levels[node] > 0)
        operand = next(alike, None) if _is_within(node) else None
        if operand is not None:
            after[node] = after[operand.node] if _is_within(operand.node) else operand
    return after


def _is_within(node: Node) -> bool:
    return node.op.has(Trait.LEAF) or _is_part(node) or is_free(node)


def _is_part(node: Node) -> bool:
    return is_fusable(node) and len(node.results) == 1


def _sources(node: Node) -> Iterator[Node]:
    return (free_source(operand).node for operand in node.operands)
