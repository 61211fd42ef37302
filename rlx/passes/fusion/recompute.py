"""Producer duplication: bodies recompute movement, and cheap elementwise work below it.

A `narrow`, `pad`, `concat`, `reverse` or strided `slice` only says where its operand is read: its
readers can read there themselves. Elementwise work that is read through movement is then
computed by each reader at the places that it reads, from what is in memory: a difference of
neighbors costs less than storing and loading it. Work that is read once may cost anything. What
`setup` computes for the runs is stored: it is computed once for all of them.

Cheap work on broadcasts whose result is large, and much larger than what it is computed from, is
recomputed by each reader, too: differences of all pairs of points are not stored.
"""

from __future__ import annotations

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.index_maps import index_map
from rlx.ir.op import Trait
from rlx.passes.fusion.policy import FusionPolicy, free_source, is_free, is_fusable
from rlx.passes.phases import setup_nodes

_MOST_ONCE = 64
"""Operations that are computed where they are read if that is once: bodies stay small."""

_ONCE = 1 + 1e-6
"""Once, if shares of readers are added up in floating point."""

_LARGE = 1 << 20
"""Bytes of a result that no second-level cache keeps until it is read again."""

_GROWTH = 2
"""How many times its sources' bytes a large result has at least to be recomputed."""

_MANY = 100
"""More readers than this are not distinguished."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """The nodes that belong to no group: each body that reads them holds a copy."""

    nodes: frozenset[Node]
    """Movement and cheap work; broadcasts and scalars (`is_free`) are recomputed anyway."""
    moved: frozenset[Node]
    """Those of them that read something at another index than their own."""
    sources: dict[Value, tuple[Value, ...]]
    """What each value is recomputed from: itself if it is stored, or a scalar constant."""

    def holds(self, node: Node) -> bool:
        return node in self.nodes or is_free(node)

    def repeats(self, value: Value) -> bool:
        """True if `value` is not just a broadcast of what it is recomputed from."""
        return free_source(value).node in self.nodes

    def moves(self, value: Value) -> bool:
        """True if `value` is recomputed from elements at other indices."""
        return free_source(value).node in self.moved


def is_movable(node: Node, policy: FusionPolicy) -> bool:
    """True for movement that costs a reader no more than another index.

    Permuted axes are read with large strides; a tile of their own is faster.
    """
    if not node.op.has(Trait.MOVEMENT) or node.op is ops.transpose or is_free(node):
        return False
    found = index_map(node)
    return found is not None and len(found.pieces) <= policy.most_pieces


def is_slice(node: Node) -> bool:
    """True for part of an array, its last axis possibly split: rows of it are still rows."""
    if node.op is ops.narrow:
        return True
    if node.op is not ops.reshape or not is_slice(node.operands[0].node):
        return False
    source, shape = node.operands[0].shape, node.result.shape
    return is_free(node) or source[:-1] == shape[: len(source) - 1]


def is_widening(node: Node) -> bool:
    """True for a cast that reads fewer bits than it gives."""
    (source, *_), result = (*node.operands, None), node.results[0]
    narrow = source is not None and source.dtype in (DType.F16, DType.BF16)
    return node.op is ops.cast and narrow and result.dtype is DType.F32


def find_recomputed(graph: Graph, policy: FusionPolicy) -> Recomputed:
    """Return what the bodies of `graph` recompute; linear in its nodes."""
    return _Search(graph, policy).run()


def _grown(graph: Graph, policy: FusionPolicy) -> set[Node]:
    """Return the large results of cheap work on much smaller values, which several nodes read.

    Also those that only such results are computed from.
    """
    found: set[Node] = set()
    sources: dict[Node, frozenset[Node]] = {}
    readers: dict[Node, set[Node]] = {}
    for node in graph.nodes:
        sources[node] = frozenset((node,))
        operands = [free_source(x).node for x in node.operands]
        for operand in operands:
            readers.setdefault(operand, set()).add(node)
        if not is_fusable(node) or not policy.is_cheap(node) or len(node.results) != 1:
            continue
        roots = frozenset[Node]().union(*(sources[operand] for operand in operands))
        read = sum(root.results[0].type.bytes for root in roots)
        if node.result.type.bytes >= max(_LARGE, _GROWTH * read):
            sources[node] = roots
            found.add(node)
    for node in reversed(graph.nodes):
        of = readers.get(node, set())
        if node in found and len(of) < 2 and not of <= found:
            found.remove(node)
    return found


class _Search:
    def __init__(self, graph: Graph, policy: FusionPolicy) -> None:
        self.graph = graph
        self.policy = policy
        self.readers: dict[Node, list[tuple[Node, int]]] = {node: [] for node in graph.nodes}
        for node in graph.nodes:
            for position, operand in enumerate(node.operands):
                self.readers[operand.node].append((node, position))
        self.movable = {node for node in graph.nodes if is_movable(node, policy)}
        self.escaping = {output.node for output in graph.outputs}
        self.setup = setup_nodes(graph)
        self.grown = _grown(graph, policy)
        self.taken: set[Node] = set()
        """Nodes whose readers all can recompute them."""
        self.below_movement: set[Node] = set()
        self.reread: set[Node] = set()
        """What a kernel that reads slices reads, several times: of it, only slices are."""
        self.times: dict[Node, float] = {}
        """How often each node would be computed if all that may were recomputed: four readers of a
        quarter each compute it once."""
        self.cost: dict[Node, int] = {}
        self.chosen: set[Node] = set()
        self.epilogues: set[Node] = set()
        """Pointwise work on the result of a product or reduction, which is stored for others."""

    def run(self) -> Recomputed:
        for node in reversed(self.graph.nodes):
            self._look_at_readers(node)
        sources: dict[Value, tuple[Value, ...]] = {}
        moved: set[Node] = set()
        for node in self.graph.nodes:
            if self._is_worth_it(node):
                self.chosen.add(node)
                operands = {free_source(operand).node for operand in node.operands}
                if node in self.movable or not moved.isdisjoint(operands):
                    moved.add(node)
            again = node in self.chosen or (is_free(node) and node.operands)
            inner = [source for operand in node.operands for source in sources[operand]]
            for result in node.results:
                sources[result] = tuple(dict.fromkeys(inner)) if again else (result,)
        return Recomputed(frozenset(self.chosen), frozenset(moved), sources)

    def _look_at_readers(self, node: Node) -> None:
        readers = self.readers[node]
        kept = node in self.escaping or self._is_prepared(node)
        if not kept and all(self._takes(node, *reader) for reader in readers):
            self.taken.add(node)
        self.times[node] = min(sum(self._times_for(node, r) for r, _ in readers), _MANY)
        if any(self._pulls(r) or self._passes_on(r) for r, _ in readers):
            self.below_movement.add(node)
        if any(self.policy.takes_slices(r) or self._is_seen_through(r) for r, _ in readers):
            self.reread.add(node)

    def _times_for(self, node: Node, reader: Node) -> float:
        """Return how often `node` would be computed for one of its readers."""
        if not self._may_be_recomputed(reader):
            return 1
        elements, read = node.results[0].type.elements, reader.results[0].type.elements
        known = isinstance(elements, int) and isinstance(read, int) and elements > 0
        return self.times[reader] * (min(read / elements, 1) if known else 1)

    def _is_prepared(self, node: Node) -> bool:
        """True for what `setup` computes and the runs read."""
        return node in self.setup and not is_free(node) and self._feeds_runs(node)

    def _feeds_runs(self, node: Node) -> bool:
        """True if a run reads `node`, or a broadcast of it."""
        return any(
            reader not in self.setup or (is_free(reader) and self._feeds_runs(reader))
            for reader, _ in self.readers[node]
        )

    def _pulls(self, reader: Node) -> bool:
        """True for movement that computes its operand where it reads it.

        A reshape that is stored is a view of its operand, and has nothing to compute.
        """
        return reader in self.movable and (reader.op is not ops.reshape or reader in self.taken)

    def _passes_on(self, reader: Node) -> bool:
        """True for pointwise work below movement; what a kernel stores ends there."""
        return reader in self.below_movement and (is_free(reader) or is_fusable(reader))

    def _is_seen_through(self, reader: Node) -> bool:
        """True for what may be recomputed between a node and a kernel that reads slices."""
        through = reader in self.movable or is_free(reader) or is_fusable(reader)
        return reader in self.reread and through

    def _takes(self, node: Node, reader: Node, position: int) -> bool:
        """True if the kernel of `reader` can compute that operand, which is `node`, itself."""
        if self.policy.takes_slices(reader):
            return is_slice(node) or (is_widening(node) and self.policy.takes_widened(reader))
        if self._pulls(reader) or is_fusable(reader):
            return True
        if is_free(reader):
            return reader in self.taken
        return position == 0 and self.policy.takes_movement(reader)

    def _may_be_recomputed(self, node: Node) -> bool:
        if is_free(node):
            return True
        below = node in self.below_movement or node in self.grown
        return node in self.taken and (is_movable(node, self.policy) or below)

    def _is_worth_it(self, node: Node) -> bool:
        operands = {operand.node for operand in node.operands}
        cost = sum(self.cost[operand] for operand in operands)
        self.cost[node] = cost if is_free(node) else 0
        if len(node.results) != 1 or is_free(node) or node not in self.taken:
            return False
        if node in self.reread and not is_slice(node):
            return is_widening(node)
        within = cost < self.policy.most_recomputed
        if node in self.movable:
            moved = len(operands) > 1 or not operands.isdisjoint(self.chosen)
            self.cost[node] = cost + moved if within else 0
            return within
        below = node in self.below_movement or node in self.grown
        if not below or not is_fusable(node) or self._is_epilogue(node):
            return False
        once = self.times[node] <= _ONCE and cost < _MOST_ONCE
        if not once and not (within and self.policy.is_cheap(node)):
            return False
        self.cost[node] = cost + 1
        return True

    def _is_epilogue(self, node: Node) -> bool:
        """True for what a product or reduction computes better before it stores its result.

        What is stored for several readers, each of them widens.
        """
        sources = [free_source(operand).node for operand in node.operands]
        found = any(self._is_finished_by(s, node) for s in sources)
        if found:
            self.epilogues.add(node)
        return found

    def _is_finished_by(self, source: Node, node: Node) -> bool:
        """True if the product or reduction that computes `source` computes `node`, too."""
        if source not in self.epilogues:
            return self.policy.takes_epilogue(source)
        widens = node.result.dtype.size > source.result.dtype.size
        return not widens or len(self.readers[source]) == 1
