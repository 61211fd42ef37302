"""Let LAPACK solve large systems, where there is a BLAS library.

    %2 = solve %a, %b  ->  %2 = solve %a, %b lowering = library(library = "lapack")

Up to `LARGE` rows the generated kernel is as fast, and needs no library.
"""

from __future__ import annotations

from collections.abc import Callable

from rlx.ir import ops
from rlx.ir.graph import Graph, Node
from rlx.ir.lowering import Library
from rlx.ir.shape import upper
from rlx.passes.rewrite import (
    GraphPass,
    LocalRewrite,
    Replacement,
    Rewritten,
    apply_rewrites,
    with_lowering,
)

LARGE = 192


def use_lapack(available: Callable[[], bool]) -> GraphPass:
    """Return the pass; `available` is asked only where a system is large."""

    def rule(node: Node) -> Replacement:
        a = node.operands[0]
        if node.lowering is not None or upper(a.shape[-1]) < LARGE or not available():
            return None
        return with_lowering(node, Library("lapack"))

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [LocalRewrite((ops.solve,), rule)])

    return GraphPass("use-lapack", run, __doc__ or "")
