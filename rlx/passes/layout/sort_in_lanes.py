"""Batch vectorization of sorts: many short rows at once, each in a lane of vectors.

    %1: f32[1000, 16] = sort %0  ->  %1 = sort %0 lowering = batch_in_lanes(lanes = 16)

A network of exchanges has no branches; insertion, which sorts other short rows, waits for one at
every step. Longer rows, up to `LONGEST_ALONE`, fill vectors by themselves, one row after the other:

    %1: f32[1000, 1000] = sort %0  ->  %1 = sort %0 lowering = bitonic(lanes = 16)
"""

from __future__ import annotations

from collections.abc import Mapping

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node
from rlx.ir.lowering import BatchInLanes, Bitonic
from rlx.ir.op import OpDef
from rlx.ir.shape import product, upper
from rlx.passes.rewrite import (
    GraphPass,
    LocalRewrite,
    Replacement,
    Rewritten,
    apply_rewrites,
    with_lowering,
)
from rlx.target import Target

LONGEST = 32
"""Rows up to this length: their network has 191 exchanges, in as many lines of code."""

LONGEST_ALONE: Mapping[OpDef, int] = {ops.sort: 4096, ops.argsort: 2048}
"""Rows up to this length are sorted in vectors, longer ones by moving digits; where that is sooner
done is an estimate, not measured."""

INDEXED = (DType.F32, DType.I32, DType.U32)
SORTED = (*INDEXED, DType.F64, DType.I64, DType.U64)
"""What vectors read as it is stored; to keys of 64 bits no index is added."""

_RECORD = 8
"""Bytes of a key followed by its index."""


def sort_in_lanes(target: Target) -> GraphPass:
    """Return the pass."""

    def rule(node: Node) -> Replacement:
        if node.lowering is not None or not _is_read_in_vectors(node):
            return None
        if (lanes := _lanes(node, target)) > 1:
            return with_lowering(node, BatchInLanes(lanes))
        lanes = _lanes_of_one(node, target)
        return with_lowering(node, Bitonic(lanes)) if lanes > 1 else None

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [LocalRewrite((ops.sort, ops.argsort), rule)])

    return GraphPass("sort-in-lanes", run, __doc__ or "")


def _is_read_in_vectors(node: Node) -> bool:
    x = node.operands[0].type
    return x.dtype in (SORTED if node.op is ops.sort else INDEXED) and isinstance(x.shape[-1], int)


def _lanes(node: Node, target: Target) -> int:
    """Return how many rows are sorted at once, in lanes; 1 where each is sorted by itself."""
    rows, length = upper(product(node.operands[0].shape[:-1])), upper(node.operands[0].shape[-1])
    if not 2 <= length <= LONGEST or not rows:
        return 1
    return min(_vector(node, target), 1 << (min(length, rows).bit_length() - 1))


def _lanes_of_one(node: Node, target: Target) -> int:
    """Return how many lanes a row fills that is sorted by itself; 1 if it fills none."""
    length = upper(node.operands[0].shape[-1])
    if not LONGEST < length <= LONGEST_ALONE[node.op]:
        return 1
    lanes = _vector(node, target)
    while lanes * max(lanes, 8) > 1 << (length - 1).bit_length():
        lanes //= 2
    return lanes


def _vector(node: Node, target: Target) -> int:
    """Return how many records fit a vector."""
    return target.lanes(node.operands[0].dtype.size if node.op is ops.sort else _RECORD)
