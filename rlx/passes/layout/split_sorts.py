"""Parallelization of long sorts: stages whose blocks threads share.

%1: i64[100000] = argsort %0    ->    %1: i64[100000] = keys of %0, each with its index
                                      %2: i32[6, 2048] = radix_counts %1 {start = 32, ..}
                                      %3 = transpose, reshape, cumsum of %2
                                      %4: i64[100000] = radix_move %1, %3 {start = 32, ..}
                                      ... for two more digits
                                      %5: i64[100000] = bitwise_and %4, 4294967295

Indices of elements of 64 bits take two such sorts, one for each half of the key.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.ops.sort_stages import argsort_by_digits, sort_by_digits
from rlx.ir.shape import product
from rlx.passes.rewrite import Rewritten, apply_rewrites, graph_pass, rewrite

LONG = 1 << 16
"""Elements from which several threads pay for their stages."""
_LONGEST = (1 << 31) - 1
"""Places are i32."""


@graph_pass
def split_sorts(graph: Graph) -> Rewritten:
    """Replace sorts of one long row by stages."""
    return apply_rewrites(graph, [_sort, _argsort])


@rewrite(ops.sort)
def _sort(node: Node) -> Value | None:
    return _of_row(node, sort_by_digits(_flat(node))) if _is_long(node) else None


@rewrite(ops.argsort)
def _argsort(node: Node) -> Value | None:
    return _of_row(node, argsort_by_digits(_flat(node))) if _is_long(node) else None


def _is_long(node: Node) -> bool:
    """True for a single row; several are shared by threads as they are."""
    shape = node.operands[0].shape
    length = shape[-1]
    if not isinstance(length, int):
        return False
    return LONG <= length <= _LONGEST and product(shape) == length


def _flat(node: Node) -> Value:
    return ops.reshape(node.operands[0], shape=node.operands[0].shape[-1:])


def _of_row(node: Node, found: Value) -> Value:
    return ops.reshape(found, shape=node.operands[0].shape)
