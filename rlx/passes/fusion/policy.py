"""Fusion heuristics, each with its reason."""

from __future__ import annotations

from rlx.dataclass import dataclass
from rlx.ir.graph import Node, Value
from rlx.ir.op import Trait
from rlx.ir.ops.attention import attention
from rlx.ir.ops.attention_layout import layout_of
from rlx.ir.ops.fused import is_pointwise
from rlx.ir.ops.indexing import gather
from rlx.ir.ops.reduction import reduced_axes
from rlx.ir.ops.shape import iota
from rlx.ir.shape import product, upper
from rlx.passes.effects import is_impure


@dataclass(frozen=True, slots=True)
class FusionPolicy:
    """The knobs of fusion. The defaults suit kernels that compute a row at a time."""

    largest_body: int = 64
    """Nodes in a body. Longer bodies spill registers and take compilers long, and the traffic
    saved per node falls with the length."""

    longest_body: int = 2048
    """Nodes in a body whose parts would store many values for each other: what registers do not
    hold is in the first cache then, and not in memory."""

    least_saved: int = 3
    """Values that each part of such a body stores less than if it were a kernel of its own."""

    most_long_values: int = 48
    """Operands and results of such a body: the parts that it replaces have more."""

    most_values: int = 24
    """Operands and results of a fusion: beyond, address registers and cache ways run out."""

    most_siblings: int = 4
    """Reductions that share a pass: each needs accumulators of its own in registers."""

    shortest_row: int = 8
    """Elements of a row that a reduction folds by vectors. Shorter rows are folded one by one, so
    what follows would not run in vectors either; alone it does."""

    many_rows: int = 64
    """Rows from which vectors over their results pay for another kernel."""

    most_pieces: int = 4
    """Most operands of a `concat` that is fused into its readers; larger ones are copied."""

    most_recomputed: int = 12
    """Cheap operations that are repeated rather than stored: about a load from the next cache."""

    def is_cheap(self, node: Node) -> bool:
        return node.op.has(Trait.CHEAP)

    def takes_movement(self, node: Node) -> bool:
        """True for anchors that read their operand through guards and at any stride."""
        return node.op.has(Trait.REDUCTION) and self.takes_prologue(node)

    def takes_slices(self, anchor: Node) -> bool:
        """True for anchors that read slices of larger arrays, and nothing computed."""
        return anchor.op.has(Trait.READS_SLICES)

    def takes_widened(self, anchor: Node) -> bool:
        """True for anchors that widen an operand as they read it, in vectors.

        Attention of few queries reads each key about once. Many queries read keys once per tile of
        them, one number at a time: these are better widened once.
        """
        return anchor.op is attention and layout_of(anchor).is_direct

    def takes_epilogue(self, node: Node) -> bool:
        """True if what reads `node` may join it.

        Its result is in a register when the elementwise reader needs it: one pass over memory
        less, whatever the reader costs. What a library computes is in memory.
        """
        known = node.op.has(Trait.EPILOGUE) and len(node.results) == 1
        known &= node.lowering is None or not node.lowering.calls_library
        return known and not self.folds_short_rows(node)

    def folds_short_rows(self, node: Node) -> bool:
        """True for reductions that fold their rows one by one."""
        if not node.op.has(Trait.REDUCTION):
            return False
        shape = node.operands[0].shape
        folded = reduced_axes(node)
        rows = [shape[axis] for axis in folded if shape[axis] != 1]
        in_rows = len(shape) - 1 in folded and node.result.rank > 0
        many = upper(product(node.result.shape)) >= self.many_rows
        return in_rows and many and upper(product(rows)) < self.shortest_row

    def takes_prologue(self, node: Node) -> bool:
        """True if what only feeds operand 0 of `node` may join it.

        Such anchors read it once or a few times, in order. A matrix product reads each element
        many times: its operands are better computed once.
        """
        reads_once = node.op.has(Trait.PROLOGUE) or is_index_check(node)
        return reads_once and len(node.results) == 1

    def is_smaller(self, node: Node) -> bool:
        """True if the result of an anchor has fewer elements than its operand 0."""
        return upper(product(node.results[0].shape)) < upper(product(node.operands[0].shape))

    def suits_prologue(self, node: Node, anchor: Node) -> bool:
        """True if `anchor` may compute `node` as often as it reads its operand."""
        reads_again = anchor.op.has(Trait.ROW_WISE) or anchor.op.has(Trait.ALL_ELEMENTS)
        return not reads_again or node.op.has(Trait.CHEAP)

    def keeps_operand_shape(self, anchor: Node) -> bool:
        """True if a value before `anchor` can be a result of the fusion, too."""
        return anchor.op.has(Trait.ROW_WISE)


def is_fusable(node: Node) -> bool:
    """True for a pointwise node that computes something and may be put into a body."""
    if not node.op.has(Trait.ELEMENTWISE) and (not is_pointwise(node) or is_free(node)):
        return False
    return not is_impure(node)


def is_index_check(node: Node) -> bool:
    """True for a `gather` of indices themselves: it checks that they are in range."""
    return node.op is gather and node.operands[0].op is iota


def is_free(node: Node) -> bool:
    """True for what a body recomputes at no cost: broadcasts, unit axes, scalars, extents.

    Such nodes are copied into every body that reads them and belong to none.
    """
    if node.op.has(Trait.ELEMENTWISE):
        return False
    if node.op.has(Trait.GENERATED):
        return node.results[0].rank == 0
    if node.op.name == "constant":
        return node.results[0].type.elements == 1
    return is_pointwise(node)


def is_literal(node: Node) -> bool:
    """True for scalars without operands: each body that reads one has a copy."""
    return not node.operands and is_free(node)


def free_source(value: Value) -> Value:
    """Return what `value` is a broadcast or reshape of."""
    while value.node.operands and is_free(value.node):
        value = value.node.operands[0]
    return value
