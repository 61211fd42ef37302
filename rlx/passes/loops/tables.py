"""Arrays that a body in registers leaves in memory and indexes at run time, updated in place.

Elements at positions known only at run time cannot be in registers. A table is an input of a
loop's body whose elements are read one by one in place, and, if it is a carry, replaced or
added to there: `x.at[i].set(v)` is one store. Whatever the body does to a table makes a new
version of it, in the same memory; so nothing may read an older one afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import field

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import OpDef, Trait


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables of a body: arrays in memory, with their reads and updates."""

    versions: dict[Value, int] = field(default_factory=dict)
    """Values that are tables -> the position of the input whose memory they share."""
    additions: frozenset[Value] = frozenset()
    """Values that are added to a table and nothing else: never formed, but for their terms."""
    counts: frozenset[Value] = frozenset()
    """`iota`s that are read as tables: each element is its own index."""

    def holds(self, value: Value) -> bool:
        """True if `value` is not in registers."""
        return value in self.versions or value in self.additions or value in self.counts


NO_TABLES = Tables()


def _indexes(op: OpDef) -> bool:
    """True for ops that read operand 0, or write in its place, where an operand says."""
    return op.has(Trait.INDEXED_READ) or (op.has(Trait.INDEXED_WRITE) and op.has(Trait.IN_PLACE))


def table_positions(graphs: Iterable[Graph], largest: int) -> frozenset[int]:
    """Return the inputs, alike in all `graphs`, that have to be tables."""
    found: set[int] = set()
    for graph in graphs:
        positions = {value: position for position, value in enumerate(graph.inputs)}
        found.update(p for value, p in positions.items() if _elements(value) > largest)
        for node in graph.nodes:
            if _indexes(node.op) and node.operands[0] in positions:
                found.add(positions[node.operands[0]])
            if node.op is ops.add and any(o.op.has(Trait.SCATTERS_SUM) for o in node.operands):
                found.update(positions[o] for o in node.operands if o in positions)
    return frozenset(found)


def find_tables(
    graph: Graph, positions: frozenset[int], num_carries: int, largest: int
) -> Tables | None:
    """Return how `graph` uses the inputs at `positions` as tables; None if it cannot.

    It reads elements of the last version only, makes new versions of carries in place, and
    uses as a whole only what has at most `largest` elements.
    """
    search = _Search(graph, num_carries, largest, {graph.inputs[p]: p for p in positions})
    return search.run()


@dataclass(slots=True)
class _Search:
    graph: Graph
    num_carries: int
    largest: int
    versions: dict[Value, int]
    additions: set[Value] = field(default_factory=set)
    counts: set[Value] = field(default_factory=set)
    last: dict[int, Value] = field(default_factory=dict)
    readers: dict[Value, list[Node]] = field(default_factory=dict)

    def run(self) -> Tables | None:
        self.last = {position: value for value, position in self.versions.items()}
        for node in self.graph.nodes:
            for operand in dict.fromkeys(node.operands):
                self.readers.setdefault(operand, []).append(node)
        allowed = all(self._enter(node) for node in self.graph.nodes)
        if not allowed or not all(map(self._leaves, range(len(self.graph.outputs)))):
            return None
        return Tables(self.versions, frozenset(self.additions), frozenset(self.counts))

    def _enter(self, node: Node) -> bool:
        """Note what `node` makes of tables; return False if it may not."""
        if node.op is ops.iota and self._is_only_gathered(node.result):
            self.counts.add(node.result)
        tables = [operand for operand in node.operands if operand in self.versions]
        if any(self.last[self.versions[table]] is not table for table in tables):
            return False
        if node.op.has(Trait.SCATTERS_SUM) or self._is_large_pad(node):
            self.additions.add(node.result)
            whole = _has_whole_indices(node) and all(map(self._is_small, tables))
            return whole and self._is_only_added(node.result)
        added = [operand for operand in node.operands if operand in self.additions]
        if added and not tables:
            self.additions.add(node.result)
            alike = len(added) == 2 and _has_one_shape(node)
            return alike and self._is_only_added(node.result)
        if added or (node.op is ops.dynamic_update_slice and node.operands[0] in tables):
            return self._replace(node, tables)
        if node.op.has(Trait.SUBSET) and node.operands[0] in tables:
            return _has_whole_indices(node) and all(map(self._is_small, tables[1:]))
        return all(map(self._is_small, tables))

    def _replace(self, node: Node, tables: list[Value]) -> bool:
        table = tables[0]
        position = self.versions[table]
        if len(tables) > 1 or position >= self.num_carries or not _has_whole_indices(node):
            return False
        if node.op is ops.add and not _has_one_shape(node):
            return False
        self.versions[node.result] = position
        self.last[position] = node.result
        return True

    def _leaves(self, place: int) -> bool:
        """True if an output can be stored after everything else."""
        output = self.graph.outputs[place]
        if output in self.additions or output in self.counts:
            return False
        position = self.versions.get(output)
        if position is None:
            return True
        stays = position == place and place < self.num_carries
        return self.last[position] is output and (stays or self._is_small(output))

    def _is_small(self, value: Value) -> bool:
        return _elements(value) <= self.largest

    def _is_large_pad(self, node: Node) -> bool:
        return node.op is ops.pad and not self._is_small(node.result) and _pads_zeros(node)

    def _is_only_gathered(self, value: Value) -> bool:
        readers = self.readers.get(value, [])
        return all(
            node.op is ops.gather and node.operands[0] is value and node.operands[1] is not value
            for node in readers
        )

    def _is_only_added(self, value: Value) -> bool:
        readers = self.readers.get(value, [])
        return len(readers) == 1 and readers[0].op is ops.add


def _elements(value: Value) -> int:
    return math.prod(value.type.static_shape) if value.type.is_static else 1


def _has_one_shape(node: Node) -> bool:
    return all(operand.shape == node.result.shape for operand in node.operands)


def _has_whole_indices(node: Node) -> bool:
    """Indices that are floats are rounded; that is left to the kernels of whole ops."""
    if _indexes(node.op) or node.op.has(Trait.SCATTERS_SUM):
        return node.operands[-1].dtype.is_int
    return True


def _pads_zeros(node: Node) -> bool:
    low, high = node.attribute("low"), node.attribute("high")
    return node.attribute("value") == 0 and min((*low, *high), default=0) >= 0
