"""Row regions: kernels that pass over the same rows one after another become one.

A softmax or a normalization that a program spells out is several kernels after fusion: reductions
along the last axis, and elementwise regions that read their results. Each would pass over memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.index_maps import Position, address, composed, identity, index_map
from rlx.ir.op import Trait
from rlx.ir.shape import Shape, product, upper
from rlx.passes.fusion.fuse import over_bodies
from rlx.passes.fusion.policy import FusionPolicy
from rlx.passes.fusion.regions import connected, contracted
from rlx.passes.lowering.phases import setup_nodes
from rlx.passes.rewrite import GraphPass, Rewritten, unchanged
from rlx.passes.rewrites.common_subexpressions import is_impure
from rlx.target import Target

SHORTEST_ROW = 8
"""Elements of a row: shorter ones are folded one by one, side by side."""

LONGEST_ROW = 8192
"""Elements of a row: longer ones do not stay in the first cache from loop to loop."""

FEWEST_ROWS = 4
"""Rows of a large array: with fewer there is nothing to share among threads."""

LARGE = 1 << 15
"""Elements of an array that threads share, and that the first cache does not hold."""

FEW_ROWS = 8
"""Rows of which all loops take no longer than calls of kernels of their own."""

SHORTEST_OF_FUNCTIONS = 64
"""Elements of a row of which vectors compute functions as `exp`: a shorter loop ends before its
first result is there."""

MOST_NODES = 128
"""Nodes of a region: beyond, compilers take long for one function."""


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A node as a kernel over rows, before regions are formed."""

    rows: Shape
    """The shape of which it computes or folds each row."""
    read: dict[Value, bool]
    """The node's operands, and whether each is read at the iteration's own row and element."""
    is_fold: bool


def row_regions(target: Target, policy: FusionPolicy | None = None) -> GraphPass:
    """Return the pass that forms `row_region` nodes.

        %1: f32[8, 64] = exp %0
        %2: f32[8, 1] = reduce_sum %1 {axes = (1,), keepdims = true}
        %3: f32[8, 64] = div %1, %2              ->     %1: f32[8, 64] = row_region %0

    Requires that fusion has run: what joined a product or another kernel there stays with it.
    """
    chosen = policy or FusionPolicy()

    def form(graph: Graph) -> Rewritten:
        regions = find_row_regions(graph, chosen, has_vectors=target.has_vectors)
        return contracted(graph, regions, ops.row_region) if regions else unchanged(graph)

    return over_bodies("row-regions", form, row_regions.__doc__ or "")


def find_row_regions(graph: Graph, policy: FusionPolicy, *, has_vectors: bool) -> list[list[Node]]:
    """Return the regions that are worth it: convex, within the policy's limits.

    Each reads a row again, with what it folds of that row.
    """
    if not any(_folds_rows(node) for node in graph.nodes):
        return []
    kernels = _kernels(graph)
    if has_vectors:
        kernels = {node: k for node, k in kernels.items() if _fills_vectors(node, k.rows)}
    kinds = {node: kernel.rows for node, kernel in kernels.items()}
    found = connected(graph, kinds, lambda value, reader: kernels[reader].read[value])
    users, outputs = graph.users(), set(graph.outputs)

    def fits(region: Sequence[Node]) -> bool:
        members = set(region)
        read = {o for node in region for o in node.operands if o.node not in members}
        results = (result for node in region for result in node.results)
        stored = [r for r in results if r in outputs or not members.issuperset(users[r])]
        return _count(region) <= MOST_NODES and len(read) + len(stored) <= policy.most_values

    parts = (part for region in found for part in _parts(region, fits))
    return [part for part in parts if any(_reads_fold(n, kernels, set(part)) for n in part)]


def _body(node: Node) -> Graph | None:
    return node.attribute("body") if node.op is ops.fused else None


def _anchors(node: Node) -> tuple[Node, ...]:
    """Return what a node's kernel is built around: itself, or the anchors of its body."""
    body = _body(node)
    if body is not None:
        return ops.anchors_of(body)
    return (node,) if ops.is_anchor(node) else ()


def _folds_rows(node: Node) -> bool:
    """True for reductions along the last axis of one shape."""
    anchors = _anchors(node)
    return bool(anchors) and all(map(_folds_last_axis, anchors))


def _folds_last_axis(anchor: Node) -> bool:
    if ops.sibling_key(anchor) is None or anchor.lowering is not None:
        return False
    shape = anchor.operands[0].shape
    folded = [axis for axis in ops.reduced_axes(anchor) if shape[axis] != 1]
    return folded == [len(shape) - 1]


def _kernels(graph: Graph) -> dict[Node, _Kernel]:
    """Return what may be part of a region, in order."""
    donated = {graph.outputs[place].node for place in graph.donations.values()}
    hoisted = setup_nodes(graph) if graph.params else frozenset[Node]()
    found: dict[Node, _Kernel] = {}
    for node in graph.nodes:
        if node in hoisted or node in donated or not _is_plain(node):
            continue
        kernel = _kernel(node, found)
        if kernel is not None and _is_suited(kernel.rows):
            found[node] = kernel
    return found


def _is_plain(node: Node) -> bool:
    """True for a node of elements of machine types that is pointwise, or folds rows."""
    if node.op.has(Trait.LEAF) or is_impure(node) or not node.results:
        return False
    if not (_folds_rows(node) or (not _anchors(node) and _computes(node))):
        return False
    body = _body(node)
    nodes = (node,) if body is None else body.nodes
    values = (value for each in nodes for value in (*each.operands, *each.results))
    if any(each.op.has(Trait.MAY_FAULT) for each in nodes):
        return False
    return not any(v.dtype.is_complex or v.type.layout is not None for v in values)


def _computes(node: Node) -> bool:
    return node.op is ops.fused or node.op.has(Trait.ELEMENTWISE)


def _is_suited(shape: Shape) -> bool:
    length, work = shape[-1], upper(product(shape))
    if not isinstance(length, int) or not SHORTEST_ROW <= length <= LONGEST_ROW or work == 0:
        return False
    return upper(product(shape[:-1])) >= FEWEST_ROWS or work < LARGE


def _kernel(node: Node, before: dict[Node, _Kernel]) -> _Kernel | None:
    """Return a node as a kernel over rows; of numbers of rows, if it reads those of a region."""
    shapes = {result.shape for result in node.results}
    if len(shapes) != 1:
        return None
    (shape,), anchors = shapes, _anchors(node)
    if anchors:
        rows = anchors[0].operands[0].shape
        return _Kernel(rows, _reads(node, rows), is_fold=True)
    known = (before[o.node].rows for o in node.operands if o.node in before)
    rows = next((rows for rows in known if _has_number_of_row(shape, rows)), shape)
    return _Kernel(rows, _reads(node, rows), is_fold=False) if rows else None


def _has_number_of_row(shape: Shape, rows: Shape) -> bool:
    """True for the shape of a reduction of `rows`, with or without the folded axis."""
    return shape in (rows[:-1], (*rows[:-1], 1))


def _reads(node: Node, rows: Shape) -> dict[Value, bool]:
    """Return for each operand whether it is read only at the row and element of the iteration."""
    body = _body(node)
    leaves = node.operands if body is None else body.inputs
    outer = dict(zip(leaves, node.operands, strict=True))
    roots = [anchor.operands[0] for anchor in _anchors(node)]
    roots += node.results if body is None else body.outputs
    own = dict.fromkeys(node.operands, True)
    for root in roots:
        for value, position in _positions(root, leaves):
            at_own = position is not None and _is_own(position, value, root.shape, rows)
            own[outer[value]] = own[outer[value]] and at_own
    return own


def _positions(root: Value, leaves: Sequence[Value]) -> Iterator[tuple[Value, Position | None]]:
    """Yield each leaf that `root` is computed from, and where: None where that is moved."""
    rank = root.rank
    pending: list[tuple[Value, Position | None]] = [(root, identity(root.shape))]
    seen = set(pending)
    while pending:
        value, position = pending.pop()
        if value in leaves:
            yield value, position
        elif not ops.is_anchor(value.node):
            places = _operand_positions(value.node, position, rank)
            fresh = set(zip(value.node.operands, places, strict=True)) - seen
            seen |= fresh
            pending += fresh


def _operand_positions(node: Node, position: Position | None, rank: int) -> list[Position | None]:
    if position is None or not ops.is_pointwise(node):
        return [None] * len(node.operands)
    found = index_map(node)
    assert found is not None, "pointwise nodes have one"
    return [composed(piece.position, position, rank) for piece in found.pieces]


def _is_own(position: Position, value: Value, space: Shape, rows: Shape) -> bool:
    """True if `value`, at `position` over `space`, is an element of the iteration's own row.

    Or its number of that row; `space` is that of all elements, or of a number for each row.
    """
    rank, here = len(space), identity(space)
    if _has_number_of_row(value.shape, rows):
        own = address(here[: len(rows) - 1], rows[:-1], rank)
    elif value.shape == rows == space:
        own = address(here, rows, rank)
    else:
        return False
    return address(position, value.shape, rank) == own


def _fills_vectors(node: Node, rows: Shape) -> bool:
    """True if a loop over one row is as fast as over all, or calls cost more than that loses."""
    count, work = upper(product(rows[:-1])), upper(product(rows))
    if count <= FEW_ROWS or (upper(rows[-1]) >= SHORTEST_OF_FUNCTIONS and work >= LARGE):
        return True
    body = _body(node)
    nodes = (node,) if body is None else body.nodes
    return not any(n.op.has(Trait.EXPENSIVE) and n.result.shape == rows for n in nodes)


def _parts(region: Sequence[Node], fits: Callable[[Sequence[Node]], bool]) -> Iterator[list[Node]]:
    """Yield the parts of a region that one kernel may hold each, in order.

    What is consecutive in a topological order of a convex set is convex.
    """
    part: list[Node] = []
    for node in region:
        if part and not fits([*part, node]):
            yield part
            part = []
        part.append(node)
    yield part


def _count(region: Sequence[Node]) -> int:
    bodies = map(_body, region)
    return sum(1 if body is None else len(body.nodes) for body in bodies)


def _reads_fold(node: Node, kernels: dict[Node, _Kernel], members: Set[Node]) -> bool:
    """True for a pass over all elements of rows that reads what a member folds of them."""
    rows = kernels[node].rows
    if not kernels[node].is_fold and node.results[0].shape != rows:
        return False
    return any(o.node in members and o.shape != rows for o in node.operands)
