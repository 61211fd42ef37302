"""Sharing of factorizations: a matrix of several systems is factored once, as for gradients.

    %x = solve %a, %b                             %f, _, %p = lu %a
    %y = solve %a, %g {transposed = true}   ->    %x = U \\ (L \\ permuted(%b))
                                                  %y = permuted back(L.T \\ (U.T \\ %g))

The factors take n**3 / 3 multiply-adds, what follows n**2 per right-hand side, but in more kernels:
so this pays from `LEAST` rows on, for few right-hand sides. Run it after common subexpressions,
so that equal matrices are one value. Solves that a library computes stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.types import TensorType
from rlx.passes.rewrite import Rewritten, copy_node, finish, graph_pass, unchanged

LEAST = 32
"""Rows below which eliminating twice is as fast as several kernels."""

_COLUMNS = 4
"""Right-hand sides of a system at most: permuting one takes as long as solving for it."""


@graph_pass
def share_factors(graph: Graph) -> Rewritten:
    """Replace solves that share a matrix by substitutions with its factors."""
    systems = Counter(node.operands[0] for node in graph.nodes if _is_candidate(node))
    if not any(count > 1 for count in systems.values()):
        return unchanged(graph)
    target, value_map = Graph(graph.name), dict[Value, Value]()
    factors: dict[Value, Sequence[Value]] = {}
    for node in graph.nodes:
        if not _is_candidate(node) or systems[node.operands[0]] < 2:
            copy_node(target, node, value_map)
            continue
        a, b = (value_map[operand] for operand in node.operands)
        with target.attributed(node.source, node.scope):
            if a not in factors:
                factors[a] = ops.lu(a)
            value_map[node.result] = _solution(factors[a], b, node)
    finish(target, graph, value_map)
    return Rewritten(target, value_map)


def _is_candidate(node: Node) -> bool:
    """True for a solve that the generated kernel computes, of a size where sharing pays."""
    if node.op is not ops.solve or node.lowering is not None:
        return False
    a, b = node.operands
    columns = 1 if node.attribute("vector") else b.shape[-1]
    rows = a.shape[-1]
    if not isinstance(rows, int) or not isinstance(columns, int):
        return False
    return rows >= LEAST and columns <= _COLUMNS


def _solution(factors: Sequence[Value], b: Value, node: Node) -> Value:
    """Return the solution for `b`, from `a[permutation] = l @ u`."""
    triangles, _, permutation = factors
    singular = node.attribute("on_singular")
    x = ops.reshape(b, shape=(*b.shape, 1)) if node.attribute("vector") else b
    if node.attribute("transposed"):
        x = ops.triangular_solve(triangles, x, lower=False, transposed=True, on_singular=singular)
        x = ops.triangular_solve(triangles, x, unit_diagonal=True, transposed=True)
        x = _permuted(x, permutation, back=True)
    else:
        x = ops.triangular_solve(triangles, _permuted(x, permutation), unit_diagonal=True)
        x = ops.triangular_solve(triangles, x, lower=False, on_singular=singular)
    return ops.reshape(x, shape=b.shape) if node.attribute("vector") else x


def _permuted(x: Value, permutation: Value, *, back: bool = False) -> Value:
    """Return the rows `permutation` of `x`; `back` puts them where they were.

    Each result is the sum of one row and zeros, whatever the other rows are.
    """
    batch, rows, columns = x.shape[:-2], x.shape[-2], x.shape[-1]
    square = (*batch, rows, rows, columns)
    at = x.graph.iota(type=TensorType(DType.I32, (rows,)))
    at = ops.reshape(at, shape=(rows, 1))
    source = ops.reshape(permutation, shape=(*batch, rows, 1, 1))
    chosen = ops.eq(ops.expand(source, shape=square), ops.expand(at, shape=square))
    inserted = (*batch, rows, 1, columns) if back else (*batch, 1, rows, columns)
    full = ops.expand(ops.reshape(x, shape=inserted), shape=square)
    zero = ops.expand(x.graph.constant(0, x.dtype), shape=square)
    return ops.reduce_sum(ops.where(chosen, full, zero), axes=(-3 if back else -2,))
