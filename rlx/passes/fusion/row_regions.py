"""Row regions: kernels that pass over the same rows or columns one after another become one.

A softmax or a normalization that a program spells out is several kernels after fusion: reductions
along one axis, and elementwise regions that read their results. Each would pass over memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.index_maps import Position, address, composed, identity, index_map
from rlx.ir.op import Trait
from rlx.ir.shape import Extent, Shape, product, upper
from rlx.passes.effects import is_impure
from rlx.passes.fusion.policy import FusionPolicy
from rlx.passes.fusion.regions import connected, contracted
from rlx.passes.phases import setup_nodes
from rlx.passes.rewrite import GraphPass, Rewritten, over_bodies, unchanged
from rlx.target import Target

SHORTEST_ROW = 8
"""Elements of a row: shorter ones are folded one by one, side by side."""

LONGEST_ROW = 1 << 17
"""Elements of a row: longer ones do not stay in the second cache from loop to loop."""

SHORTEST_COLUMN, LONGEST_COLUMN = 2, 1024
"""Elements of a column: some neighboring longer ones do not stay in the second cache."""

FEWEST_COLUMNS = 64
"""Neighboring columns: with fewer there is nothing to fill vectors with."""

FEWEST_ROWS = 4
"""Rows of a large array: with fewer there is nothing to share among threads."""

LARGE = 1 << 15
"""Elements of an array that threads share, and that the first cache does not hold."""

FEW_ROWS = 8
"""Rows of which all loops take no longer than calls of kernels of their own."""

SHORTEST_OF_FUNCTIONS = 64
"""Elements of a row of which vectors compute functions as `exp`: a shorter loop ends before its
first result is there."""

LONGEST_OF_FUNCTIONS = 256
"""Elements of a column of which they do: of longer ones blocks are only a few vectors wide."""

MOST_NODES = 128
"""Nodes of a region: beyond, compilers take long for one function."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a shape, or its columns: what is along one axis."""

    shape: Shape
    axis: int

    @property
    def are_columns(self) -> bool:
        return product(self.shape[self.axis + 1 :]) != 1

    @property
    def length(self) -> Extent:
        return self.shape[self.axis]

    @property
    def count(self) -> Extent:
        return product((*self.shape[: self.axis], *self.shape[self.axis + 1 :]))

    @property
    def numbers(self) -> tuple[Shape, Shape]:
        """The shapes of a reduction along the axis: without it, and with one element."""
        before, after = self.shape[: self.axis], self.shape[self.axis + 1 :]
        return (*before, *after), (*before, 1, *after)


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A node as a kernel over rows, before regions are formed."""

    rows: Rows
    """Of which it computes or folds each."""
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
    if not any(_folded(node) for node in graph.nodes):
        return []
    kernels = _kernels(graph)
    if has_vectors:
        kernels = {node: k for node, k in kernels.items() if _fills_vectors(node, k.rows)}
    else:  # whose stack is small
        kernels = {node: k for node, k in kernels.items() if not k.rows.are_columns}
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
    return [
        part
        for part in parts
        if any(kernels[node].is_fold for node in part)
        and any(_reads_fold(node, kernels, set(part)) for node in part)
    ]


def _body(node: Node) -> Graph | None:
    return node.attribute("body") if node.op is ops.fused else None


def _anchors(node: Node) -> tuple[Node, ...]:
    """Return what a node's kernel is built around: itself, or the anchors of its body."""
    body = _body(node)
    if body is not None:
        return ops.anchors_of(body)
    return (node,) if ops.is_anchor(node) else ()


def _folded(node: Node) -> Rows | None:
    """Return what a node of reductions along one axis of one shape folds; None for others."""
    found = {_folded_by(anchor) for anchor in _anchors(node)}
    return found.pop() if len(found) == 1 else None


def _folded_by(anchor: Node) -> Rows | None:
    if ops.sibling_key(anchor) is None or anchor.lowering is not None:
        return None
    shape = anchor.operands[0].shape
    folded = [axis for axis in ops.reduced_axes(anchor) if shape[axis] != 1]
    return Rows(shape, folded[0]) if len(folded) == 1 else None


def _kernels(graph: Graph) -> dict[Node, _Kernel]:
    """Return what may be part of a region, in order."""
    donated = {graph.outputs[place].node for place in graph.donations.values()}
    hoisted = setup_nodes(graph) if graph.params else frozenset[Node]()
    found: dict[Node, _Kernel] = {}
    axes = _folded_axes(graph)
    for node in graph.nodes:
        if node in hoisted or node in donated or not _is_plain(node):
            continue
        kernel = _kernel(node, found, axes)
        if kernel is not None and _is_suited(kernel.rows):
            found[node] = kernel
    return found


def _folded_axes(graph: Graph) -> dict[Value | Shape, int]:
    """Return the axis along which a value is folded first, and all values of a shape last."""
    found: dict[Value | Shape, int] = {}
    for node in graph.nodes:
        rows = _folded(node)
        if rows is not None:
            found[rows.shape] = rows.axis
            for operand in node.operands:
                if operand.shape == rows.shape:
                    found.setdefault(operand, rows.axis)
    return found


def _is_plain(node: Node) -> bool:
    """True for a node of elements of machine types that is pointwise, or folds rows."""
    if node.op.has(Trait.LEAF) or is_impure(node) or not node.results:
        return False
    if not (_folded(node) or (not _anchors(node) and _computes(node))):
        return False
    body = _body(node)
    nodes = (node,) if body is None else body.nodes
    values = (value for each in nodes for value in (*each.operands, *each.results))
    if any(each.op.has(Trait.MAY_FAULT) for each in nodes):
        return False
    return not any(v.dtype.is_complex or v.type.layout is not None for v in values)


def _computes(node: Node) -> bool:
    return node.op is ops.fused or node.op.has(Trait.ELEMENTWISE)


def _is_suited(rows: Rows) -> bool:
    length, work = upper(rows.length), upper(product(rows.shape))
    shortest, longest = SHORTEST_ROW, LONGEST_ROW
    lines = upper(rows.count)
    if rows.are_columns:
        shortest, longest = SHORTEST_COLUMN, LONGEST_COLUMN
        lines //= FEWEST_COLUMNS
        if upper(product(rows.shape[rows.axis + 1 :])) < FEWEST_COLUMNS:
            return False
    return shortest <= length <= longest and work > 0 and (lines >= FEWEST_ROWS or work < LARGE)


def _kernel(
    node: Node, before: dict[Node, _Kernel], axes: Mapping[Value | Shape, int]
) -> _Kernel | None:
    """Return a node as a kernel over rows; of numbers of rows, if it reads those of a region."""
    shapes = {result.shape for result in node.results}
    if len(shapes) != 1:
        return None
    (shape,), folded = shapes, _folded(node)
    if folded is not None:
        return _Kernel(folded, _reads(node, folded), is_fold=True)
    known = [(before[o.node].rows, o.shape) for o in node.operands if o.node in before]
    fitting = [rows for rows, _ in known if shape in rows.numbers]
    fitting += [rows for rows, read in known if shape == rows.shape and read in rows.numbers]
    fitting += [rows for rows, _ in known if shape == rows.shape]
    keys: tuple[Value | Shape, ...] = (*node.results, shape)
    fitting += [Rows(shape, axes[key]) for key in keys if key in axes]
    return _Kernel(fitting[0], _reads(node, fitting[0]), is_fold=False) if fitting else None


def _reads(node: Node, rows: Rows) -> dict[Value, bool]:
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


def _is_own(position: Position, value: Value, space: Shape, rows: Rows) -> bool:
    """True if `value`, at `position` over `space`, is an element of the iteration's own row.

    Or its number of that row; `space` is that of all elements, or of a number for each row.
    """
    rank, here = len(space), identity(space)
    if space != rows.shape and space not in rows.numbers:
        return False  # a result of another shape, whose positions are not those of rows
    if value.shape in rows.numbers:
        along = rank == len(rows.shape)
        kept = (*here[: rows.axis], *here[rows.axis + along :])
        own = address(kept, rows.numbers[0], rank)
    elif value.shape == rows.shape == space:
        own = address(here, rows.shape, rank)
    else:
        return False
    return address(position, value.shape, rank) == own


def _fills_vectors(node: Node, rows: Rows) -> bool:
    """True if a loop over one row is as fast as over all, or calls cost more than that loses."""
    length = upper(rows.length)
    is_long = (
        length <= LONGEST_OF_FUNCTIONS if rows.are_columns else length >= SHORTEST_OF_FUNCTIONS
    )
    if upper(rows.count) <= FEW_ROWS or (is_long and upper(product(rows.shape)) >= LARGE):
        return True
    body = _body(node)
    nodes = (node,) if body is None else body.nodes
    return not any(n.op.has(Trait.EXPENSIVE) and n.result.shape == rows.shape for n in nodes)


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
    shape = kernels[node].rows.shape
    if not kernels[node].is_fold and node.results[0].shape != shape:
        return False
    return any(o.node in members and o.shape != shape for o in node.operands)
