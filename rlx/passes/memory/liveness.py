"""Liveness of buffers and their aliases, and in-place reuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from rlx.dataclass import dataclass
from rlx.errors import GraphError
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.loop_signature import is_loop, loop_signature
from rlx.ir.op import Trait
from rlx.ir.shape import upper
from rlx.passes.loops.fuse_loop_bodies import LARGEST_VALUE
from rlx.passes.phases import execution_order, setup_nodes
from rlx.passes.rewrite import is_leaf
from rlx.passes.views import root_of, view_of


@dataclass(slots=True, eq=False)
class Range:
    """Memory of one owner: `size` bytes that hold something from `birth` to `death`."""

    owner: Value
    size: int
    birth: int
    death: int
    resident: bool = False
    outside: bool = False
    """True if the memory is not the planned graph's own (see `memory.bodies`)."""
    tenants: list[Value] = field(default_factory=list)
    """Values computed in place of the owner, in order; views are not listed."""


@dataclass(slots=True)
class Liveness:
    """The ranges of a graph and their values; the planner gives each range an offset."""

    graph: Graph
    order: list[Node]
    step: dict[Node, int]
    ranges: dict[Value, Range]
    """By owner."""
    holder: dict[Value, Value]
    """For every value that is no view, the owner of its range."""
    in_place: dict[Node, tuple[tuple[int, int], ...]]
    last_read: dict[Value, int]
    """For every value that is no view, the last step that reads it or a view of it."""


def find_liveness(graph: Graph) -> Liveness:
    """Return the live ranges of `graph`; every donation must fit (`DonationCheck`)."""
    return _Analysis(graph, execution_order(graph), setup_nodes(graph)).run()


def find_body_liveness(body: Graph, outside: Iterable[Value] = ()) -> Liveness:
    """Return the live ranges of a sub-graph, none of which is hoisted into `setup`.

    The values of `outside` own memory elsewhere: their ranges have no bytes.
    """
    return _Analysis(body, list(body.nodes), frozenset(), frozenset(outside)).run()


class _Analysis:
    def __init__(
        self,
        graph: Graph,
        order: list[Node],
        setup: frozenset[Node],
        outside: frozenset[Value] = frozenset(),
    ) -> None:
        self.graph = graph
        self.order = order
        self.outside = outside
        self.step = {node: position for position, node in enumerate(self.order)}
        self.end = len(self.order)
        """The step after the last: outputs are read there."""
        self.setup = setup
        self.last_read = last_reads(graph, self.step, self.end)
        self.donated = donated_roots(graph)
        self.replacement = {leaf: root for root, leaf in self.donated.items()}
        self.ranges: dict[Value, Range] = {}
        self.holder: dict[Value, Value] = {}
        self.in_place: dict[Node, tuple[tuple[int, int], ...]] = {}

    def run(self) -> Liveness:
        donations = DonationCheck(self.graph)
        for name, position in self.graph.donations.items():
            donations.require(self.graph.leaf(name), self.graph.outputs[position])
        # Leaves first: one may be replaced by an earlier output.
        for node in sorted(self.order, key=lambda node: not is_leaf(node)):
            if view_of(node) is None:
                self._place_results(node)
        return Liveness(
            self.graph,
            self.order,
            self.step,
            self.ranges,
            self.holder,
            self.in_place,
            self.last_read,
        )

    def _place_results(self, node: Node) -> None:
        taken: list[Range] = []
        for result in node.results:
            if result in self.donated:
                self._donate(result)
            elif result in self.outside:
                self._own(node, result)
            elif (held := self._overwritten(node, result, taken)) is not None:
                taken.append(held)
                self._move_in(result, held)
            else:
                self._own(node, result)
        shared = tuple(self._shared(node))
        if shared:
            self.in_place[node] = shared

    def _shared(self, node: Node) -> Iterator[tuple[int, int]]:
        """Yield the (operand, result) positions of `node` in one range."""
        held = [self.holder[root_of(operand)[0]] for operand in node.operands]
        for result in node.results:
            for position, owner in enumerate(held):
                if owner is self.holder[result]:
                    yield position, result.index

    def _donate(self, result: Value) -> None:
        """Give `result` the range of the leaf that it replaces."""
        self._move_in(result, self.ranges[self.donated[result]])

    def _overwritten(self, node: Node, result: Value, taken: list[Range]) -> Range | None:
        """Return the range of an operand that dies here and that `result` may take over."""
        for position in overwritable(node, result):
            operand = root_of(node.operands[position])[0]
            held = self.ranges[self.holder[operand]]
            if held not in taken and self._may_overwrite(node, operand, result, held):
                return held
        return None

    def _may_overwrite(self, node: Node, operand: Value, result: Value, held: Range) -> bool:
        dies = self.last_read[operand] == self.step[node]
        bound = is_leaf(held.owner.node) or held.resident or held.outside
        bound = bound and not self._is_passed_on(result, held.owner)
        bound = bound or self._is_kept(result, node)
        return dies and not bound and held.size == result.type.bytes

    def _is_passed_on(self, result: Value, leaf: Value) -> bool:
        """True if `result` is no longer needed when the output is there that replaces `leaf`.

        So an array may be updated in place several times on its way to the output.
        """
        output = self.replacement.get(leaf)
        if output is None or self.last_read.get(result, 0) > self.step[output.node]:
            return False
        readers = enumerate(output.node.operands)
        reading = {i for i, operand in readers if root_of(operand)[0] is result}
        return reading <= set(overwritable(output.node, output))

    def _own(self, node: Node, result: Value) -> None:
        step = self.step[node]
        held = Range(result, result.type.bytes, step, max(step, self.last_read.get(result, step)))
        held.outside = result in self.outside
        held.resident = node.op.has(Trait.RESIDENT) or self._is_kept(result, node)
        if node.op.has(Trait.LEAF) or held.resident:
            held.birth, held.death = 0, self.end
        self.ranges[result] = held
        self.holder[result] = result

    def _is_kept(self, result: Value, node: Node) -> bool:
        """True for what `setup` computes and `run`, or the caller, reads."""
        return node in self.setup and self.last_read.get(result, 0) >= len(self.setup)

    def _move_in(self, result: Value, held: Range) -> None:
        held.tenants.append(result)
        held.death = max(held.death, self.last_read.get(result, 0), self.step[result.node])
        self.holder[result] = held.owner


def last_reads(graph: Graph, step: dict[Node, int], end: int) -> dict[Value, int]:
    """Return for every owner of memory the last step that reads it or a view of it."""
    found: dict[Value, int] = {}
    for node in graph.nodes:
        if view_of(node) is not None:
            continue
        for operand in node.operands:
            root = root_of(operand)[0]
            found[root] = max(found.get(root, 0), step[node])
    found.update((root_of(output)[0], end) for output in graph.outputs)
    return found


def overwritable(node: Node, result: Value) -> list[int]:
    """Return the operands whose memory `result` may take over if they die at `node`.

    Both have one type, for C lets the compiler assume that a float and an int never overlap.
    Elementwise nodes and regions read each element of such an operand before they write
    the result's at the same index; other ops with IN_PLACE promise that for operand 0. The last
    value of a carry may share the range of its first one. An
    operand that shares memory with another one, other than as the same value, is left alone.
    """
    if node.op is ops.fused:
        positions: Iterable[int] = _pointwise_inputs(node, result)
    elif node.op is ops.row_region:
        positions = _row_inputs(node, result)
    elif is_loop(node):
        positions = _first_carry(node, result)
    elif not node.op.has(Trait.IN_PLACE):
        positions = ()
    elif node.op.has(Trait.ELEMENTWISE):
        positions = range(len(node.operands))
    else:
        positions = range(1)
    return [position for position in positions if _fits(node, result, position)]


def _first_carry(node: Node, result: Value) -> list[int]:
    """Return where the first value of the carry that `result` is the last of is given.

    A loop in one kernel reads small values again after it has stored results: only what is too
    large for registers is changed in place.
    """
    if result.index >= loop_signature(node).num_carries:
        return []
    if node.operands.count(node.operands[result.index]) > 1:
        return []
    small = node.is_one_kernel and upper(result.type.elements) <= LARGEST_VALUE
    return [] if small else [result.index]


def _fits(node: Node, result: Value, position: int) -> bool:
    operand = node.operands[position]
    root, offset = root_of(operand)
    others = [root_of(other) for other in node.operands if other is not operand]
    alone = all(other != root or at == offset for other, at in others)
    whole = offset == 0 and root.type.bytes == operand.type.bytes
    same_extents = all(o.shape == operand.shape for o in node.operands if root_of(o)[0] is root)
    return operand.type == result.type and alone and whole and same_extents


def _pointwise_inputs(node: Node, result: Value) -> list[int]:
    """Return the operands of a `fused` node that its kernel reads at the result's index only.

    With an anchor these are operands of the epilogue alone, and only for anchors whose kernels
    store each element once, when it is final.
    """
    body: Graph = node.attribute("body")
    anchors = ops.anchors_of(body)
    if not all(anchor.op.has(Trait.STORES_ONCE) for anchor in anchors):
        return []
    elsewhere = ops.moved(body) | ops.needed_by(anchors)
    return [
        position
        for position, value in enumerate(body.inputs)
        if value.shape == result.shape and value.node not in elsewhere
    ]


def _row_inputs(node: Node, result: Value) -> list[int]:
    """Return the operands of a row region that are read no later than `result` is stored."""
    body: Graph = node.attribute("body")
    if not ops.is_of_last_row_pass(body, result.index):
        return []
    elsewhere = ops.moved(body)
    return [
        position
        for position, value in enumerate(body.inputs)
        if value.shape == result.shape and value.node not in elsewhere
    ]


def donated_roots(graph: Graph) -> dict[Value, Value]:
    """Return for each owner of a donated output the leaf that it replaces.

    A leaf that replaces itself is left out: nothing happens to it.
    """
    pairs = ((graph.leaf(name), graph.outputs[at]) for name, at in graph.donations.items())
    return {root_of(output)[0]: leaf for leaf, output in pairs if output is not leaf}


def updates_of(graph: Graph) -> list[tuple[Node, Value]]:
    """Return the nodes that may compute in place what leads to donated outputs, and of what.

    Each node comes with the value whose memory its result takes over: the leaf itself, or what
    an update before made of it.
    """
    found: list[tuple[Node, Value]] = []
    for root, leaf in donated_roots(graph).items():
        chain = _chain(root, leaf)
        overwritten = [leaf, *chain[:-1]]
        found += [(v.node, old) for v, old in zip(chain, overwritten, strict=True)]
    return [(node, old) for node, old in found if node.operands]


def _chain(output: Value, leaf: Value) -> list[Value]:
    """Return the values that are computed in place of each other from `leaf` to `output`."""
    came_from: dict[Value, Value | None] = {output: None}
    waiting = [output]
    while waiting:
        value = waiting.pop()
        for position in overwritable(value.node, value):
            source = root_of(value.node.operands[position])[0]
            if source is leaf:
                return list(_followed(value, came_from))
            if source not in came_from:
                came_from[source] = value
                waiting.append(source)
    return [output]


def _followed(value: Value, came_from: Mapping[Value, Value | None]) -> Iterator[Value]:
    following: Value | None = value
    while following is not None:
        yield following
        following = came_from[following]


class DonationCheck:
    """Which donated outputs can be computed in the memory of the leaf that they replace."""

    def __init__(self, graph: Graph) -> None:
        order = execution_order(graph)
        self.step = {node: position for position, node in enumerate(order)}
        self.last_read = last_reads(graph, self.step, len(order))
        roots = [root_of(graph.outputs[at])[0] for at in graph.donations.values()]
        self.claims = Counter(roots)

    def fits(self, leaf: Value, output: Value) -> bool:
        """True if `output` can be computed in the place of `leaf`.

        Its owner must be a node's result of the leaf's size that replaces no other leaf, and
        every reader of the leaf must run before; at the node itself the leaf may only be
        read where it is overwritten.
        """
        root, offset = root_of(output)
        if output is leaf:
            return True
        if root.op.has(Trait.LEAF) or offset or root.type.bytes != leaf.type.bytes:
            return False
        if self.claims[root] > 1 or self.last_read.get(leaf, 0) > self.step[root.node]:
            return False
        operands = enumerate(root.node.operands)
        reading = {i for i, operand in operands if root_of(operand)[0] is leaf}
        return reading <= set(overwritable(root.node, root))

    def require(self, leaf: Value, output: Value) -> None:
        """Raise GraphError unless `output` fits in the place of `leaf`."""
        if not self.fits(leaf, output):
            raise GraphError(
                f"output {output.label} cannot be computed in the place of {leaf.node.name!r}: "
                "the old value is read later, or elsewhere than it is overwritten",
                source=output.node.source,
                remedy="run the pass `copy-outputs` first",
            )
