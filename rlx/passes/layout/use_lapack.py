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
from rlx.passes.layout.choices import Choice, ChoiceObserver, Why, nobody
from rlx.passes.rewrite import (
    GraphPass,
    LocalRewrite,
    Replacement,
    Rewritten,
    apply_rewrites,
    with_lowering,
)

LARGE = 192


def use_lapack(available: Callable[[], bool], seen: ChoiceObserver = nobody) -> GraphPass:
    """Return the pass; `available` is asked only where a system is large."""

    def rule(node: Node) -> Replacement:
        if node.lowering is not None:
            return None
        choice = choose_library(upper(node.operands[0].shape[-1]), available)
        seen(node, choice)
        return None if choice.lowering is None else with_lowering(node, choice.lowering)

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [LocalRewrite((ops.solve,), rule)])

    return GraphPass("use-lapack", run, __doc__ or "")


def choose_library(rows: int, available: Callable[[], bool]) -> Choice:
    """Choose what solves a system of `rows` rows."""
    if rows < LARGE:
        return Why.SMALL_SYSTEM.because(rows, LARGE)
    if not available():
        return Why.NO_LIBRARY.because(rows)
    return Why.LARGE_SYSTEM.because(rows, LARGE, Library("lapack"))
