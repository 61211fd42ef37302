"""Loop nests: which loops become one kernel on local buffers, and which values get buffers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from rlx.ir import ops
from rlx.ir.fold_maps import fold_map
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.index_maps import index_map, moves
from rlx.ir.op import Trait
from rlx.ir.shape import product, upper
from rlx.passes.loops.batch_axis import Lanes
from rlx.passes.loops.vector_axes import is_long, vector_axes
from rlx.passes.rewrites.decompose import is_pointwise_formula
from rlx.target import Target

LARGEST_NEST = 64 * 1024
"""Bytes of a body's buffers: they stay in the caches, and fit on any stack."""

MOST_PRODUCTS = 1 << 14
"""Multiply-adds of one product: beyond, it is worth packed operands."""

MOST_TILED_PRODUCTS = 1 << 10
"""The same where both operands are matrices: the kernels with register tiles are faster."""

MOST_NODES = 256
"""Nodes of a body: beyond, compilers take long for one function."""

LARGEST_CONSTANT = 64
"""Elements of a constant that is spelled out."""

LONGEST = 12
"""Operations in one expression; longer ones get a place in between."""

FEW_TERMS = 4
"""Terms of a sum that is one expression."""

MOST_SPELLED = 128
"""Operations of one instance that are spelled out where loops would have much fewer."""

MUCH_SHORTER = 3
"""So many times fewer statements than operations are worth loops over arrays."""

LEAST_BLOCK = 8
"""Instances that fill a vector."""

LARGEST_WHOLE = 128 * 1024
"""Bytes of values that one block computes, of which fused loops keep a fraction in memory."""

LARGEST_SMALL = 4 * 1024
"""The same on a small machine, whose stack they are on."""

_OTHERS = (ops.input, ops.constant, ops.iota, ops.barrier, ops.reshape, ops.matmul)


def fits_nest(body: Graph) -> bool:
    """True if the values of a body fit the caches, and a loop nest can compute its ops."""
    if not _all_computed(body):
        return False
    buffers = {*values_to_keep(body), *body.inputs, *body.outputs}
    return sum(value.type.bytes for value in buffers) <= LARGEST_NEST


def block_in_arrays(body: Graph, lanes: Lanes, *, is_small: bool) -> int | None:
    """Return how many instances loops over arrays compute at a time, if they are much shorter.

    The derivatives of a body in several directions are alike: one statement in a loop over the
    directions, next to one for each of them where an instance is spelled out. Folds are not, and
    where instances are not neighbors in memory, copies would cost more than registers that spill.
    `is_small` is the target's: its stack has room for less.
    """
    if lanes.partial or not _all_computed(body) or not _is_much_shorter(body, lanes):
        return None
    outside = {*body.inputs, *body.outputs}
    shared = outside - lanes.axes.keys()
    if any(lanes.axes[value] != value.rank - 1 for value in outside - shared):
        return None
    kept = [value for value in {*values_to_keep(body), *outside} if value in lanes.axes]
    apart = sum(value.type.bytes for value in kept) // lanes.extent
    if apart * lanes.extent <= (LARGEST_SMALL if is_small else LARGEST_WHOLE):
        return lanes.extent
    if not shared.isdisjoint(body.outputs):  # each block would compute it
        return None
    least, bytes = (1, LARGEST_SMALL) if is_small else (LEAST_BLOCK, LARGEST_NEST)
    most = bytes // max(apart, 1)
    blocks = [size for size in range(least, most + 1) if lanes.extent % size == 0]
    return max(blocks, key=lambda size: (size % LEAST_BLOCK == 0, size), default=None)


def _is_much_shorter(body: Graph, lanes: Lanes) -> bool:
    """True if loops over the long axes of an instance have much fewer statements than it has."""
    computing = [node for node in body.nodes if node.op.has(Trait.ELEMENTWISE)]
    shapes = [lanes.local_shape(node.results[0]) for node in computing]
    spelled = sum(map(math.prod, shapes))
    looped = sum(math.prod(e for e in shape if not is_long(e)) for shape in shapes)
    is_long_text = spelled >= max(MOST_SPELLED, MUCH_SHORTER * looped)
    return is_long_text and all(fold_map(node) is None for node in body.nodes)


def _all_computed(body: Graph) -> bool:
    return len(body.nodes) <= MOST_NODES and all(_is_computed(node) for node in body.nodes)


def _is_computed(node: Node) -> bool:
    if len(node.results) != 1 or not node.result.type.is_static or is_composed(node.result):
        return False
    if 0 in node.result.shape or any(0 in operand.shape for operand in node.operands):
        return False
    if node.op is ops.matmul:
        return _is_small_product(node)
    if node.op is ops.constant:
        return math.prod(node.result.type.static_shape) <= LARGEST_CONSTANT
    return not is_pointwise_formula(node.op) and has_elements(node)


def has_elements(node: Node) -> bool:
    """True if an element of the result follows from elements of the operands, one by one."""
    if len(node.results) != 1:
        return False
    known = node.op in _OTHERS or node.op.folds_values
    return known or node.op.has(Trait.ELEMENTWISE) or moves(node)


def _is_small_product(node: Node) -> bool:
    shape = (*node.result.type.static_shape, count_terms(node))
    tiled = all(is_long(extent) for extent in shape[-3:])
    return math.prod(shape) <= (MOST_TILED_PRODUCTS if tiled else MOST_PRODUCTS)


def fits_while_nest(condition: Graph, body: Graph) -> bool:
    """True if a loop nest can compute a conditional loop, whose condition is one element."""
    (output,) = condition.outputs
    one = output.type.is_static and math.prod(output.type.static_shape) == 1
    return one and fits_nest(condition) and fits_nest(body)


def has_short_products(body: Graph) -> bool:
    """True if a nest of short loops over little matrices is all that a body needs.

    It reads as the program does, and compilers unroll it themselves.
    """
    products = any(node.op is ops.matmul for node in body.nodes)
    return products and fits_nest(body) and not vector_axes(body)


def spills_registers(body: Graph, target: Target) -> bool:
    """True if a value has more elements than the target has registers, and a nest can be made.

    Unrolled, they would be on the stack, and each operation would be code of its own.
    """
    values = (result for node in body.nodes for result in node.results)
    largest = max(math.prod(value.type.static_shape) for value in values)
    return largest > target.vector_registers and fits_nest(body)


def is_composed(value: Value) -> bool:
    """True for elements that are not of one machine type."""
    return value.dtype.is_low_precision or value.dtype.is_complex


def values_to_keep(body: Graph) -> set[Value]:
    """Return the values that get buffers: what is read more than once, and what takes loops."""
    return _kept(body, _takes_loops)


def values_to_name(body: Graph, outputs: Sequence[Value]) -> set[Value]:
    """Return the values whose elements get names in registers, where nothing takes loops."""
    stored = set(outputs)
    return _kept(body, lambda node: node.result in stored and not moves(node))


def _kept(body: Graph, asked: Callable[[Node], bool]) -> set[Value]:
    """Return what is asked for, computed more than once or long otherwise."""
    reads = count_reads(body)
    lengths: dict[Value, int] = {}
    kept: set[Value] = set()
    for node in body.nodes:
        if node.op is ops.input:
            continue
        length = _length(node, lengths)
        shared = length > 0 and reads[node.result] > 1
        if asked(node) or length > LONGEST or shared:
            kept.add(node.result)
            length = 0
        lengths[node.result] = length
    return kept


def _length(node: Node, lengths: dict[Value, int]) -> int:
    """Return the operations of the expression of one element."""
    length = sum(lengths.get(operand, 0) for operand in node.operands)
    if fold_map(node) is not None:
        return (length + 2) * count_terms(node)
    return length + node.op.has(Trait.ELEMENTWISE)


def _takes_loops(node: Node) -> bool:
    if node.op is ops.constant:
        return math.prod(node.result.type.static_shape) > 1
    return is_in_pieces(node) or is_long_fold(node)


def is_in_pieces(node: Node) -> bool:
    """True for what reads several operands, or none, depending on the index: pads and joins."""
    found = index_map(node) if node.op.has(Trait.MOVEMENT) else None
    return found is not None and (found.fill is not None or len(found.pieces) != 1)


def count_reads(body: Graph) -> Counter[Value]:
    """Count the reads of each value; an element that is read repeatedly counts twice."""
    reads: Counter[Value] = Counter(body.outputs)
    for node in reversed(body.nodes):
        times = math.prod(node.result.type.static_shape)
        folds = fold_map(node) is not None
        if folds:
            times *= count_terms(node)
        moves = not node.op.has(Trait.ELEMENTWISE) and not folds
        for operand in node.operands:
            again = times > math.prod(operand.type.static_shape)
            reads[operand] += max(2 if again else 1, reads[node.result] if moves else 1)
    return reads


def is_long_fold(node: Node) -> bool:
    return count_terms(node) > FEW_TERMS


def count_terms(node: Node) -> int:
    """Return how many terms an element of a fold has; 0 for what is no fold."""
    fold = fold_map(node)
    return 0 if fold is None else upper(product(fold.folded))
