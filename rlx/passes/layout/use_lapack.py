"""Let LAPACK solve large systems, where there is a BLAS library.

    %2 = solve %a, %b  ->  %2 = solve_lapack %a, %b

Up to `LARGE` rows the generated kernel is as fast, and needs no library.
"""

from __future__ import annotations

from collections.abc import Callable

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.shape import upper
from rlx.passes.rewrite import GraphPass, LocalRewrite, Rewritten, apply_rewrites

LARGE = 192


def use_lapack(available: Callable[[], bool]) -> GraphPass:
    """Return the pass; `available` is asked only where a system is large."""

    def rule(node: Node) -> Value | None:
        a, b = node.operands
        if upper(a.shape[-1]) < LARGE or not available():
            return None
        result: Value = ops.solve_lapack(a, b, **node.attrs.as_dict())
        return result

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [LocalRewrite((ops.solve,), rule)])

    return GraphPass("use-lapack", run, __doc__ or "")
