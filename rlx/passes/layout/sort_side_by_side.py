"""Batch vectorization of sorts: many short rows at once, each in a lane of vectors.

    %1: f32[1000, 16] = sort %0  ->  %1 = sort %0 lowering = side_by_side(lanes = 16)

A network of exchanges has no branches; insertion, which sorts other short rows, waits for one at
every step.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node
from rlx.ir.lowering import SideBySide
from rlx.ir.shape import product, upper
from rlx.ir.types import TensorType
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

INDEXED = (DType.F32, DType.I32, DType.U32)
SORTED = (*INDEXED, DType.F64, DType.I64, DType.U64)
"""What vectors read as it is stored; to keys of 64 bits no index is added."""

_RECORD = 8
"""Bytes of a key with its index behind it."""


def sort_side_by_side(target: Target) -> GraphPass:
    """Return the pass."""

    def rule(node: Node) -> Replacement:
        lanes = _lanes(node, target)
        return with_lowering(node, SideBySide(lanes)) if lanes > 1 else None

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [LocalRewrite((ops.sort, ops.argsort), rule)])

    return GraphPass("sort-side-by-side", run, __doc__ or "")


def _lanes(node: Node, target: Target) -> int:
    """Return how many rows are sorted side by side; 1 where each is sorted by itself."""
    x: TensorType = node.operands[0].type
    rows, length = upper(product(x.shape[:-1])), x.shape[-1]
    dtypes = SORTED if node.op is ops.sort else INDEXED
    if node.lowering is not None or x.dtype not in dtypes or not isinstance(length, int):
        return 1
    if not 2 <= length <= LONGEST or not rows:
        return 1
    record = x.dtype.size if node.op is ops.sort else _RECORD
    return min(target.lanes(record), 1 << (min(length, rows).bit_length() - 1))
