"""Library calls: LAPACK solves and decomposes large matrices, where there is a BLAS library.

    %2 = solve %a, %b  ->  %2 = solve %a, %b lowering = library(library = "lapack")

Below the extents of `LARGE` the generated kernels are as fast, and need no library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rlx.ir import ops
from rlx.ir.graph import Graph, Node
from rlx.ir.lowering import Library
from rlx.ir.op import OpDef
from rlx.ir.shape import upper
from rlx.passes.layout.choices import Choice, ChoiceObserver, Why, no_layout
from rlx.passes.rewrite import (
    GraphPass,
    LocalRewrite,
    Replacement,
    Rewritten,
    apply_rewrites,
    with_lowering,
)

LARGE: Mapping[OpDef, int] = {
    ops.solve: 192, ops.cholesky: 192, ops.lu: 192, ops.eigh: 24, ops.svd: 48, ops.qr: 64,
    ops.eig: 64,
}  # fmt: skip
"""From how many rows or columns on, whichever are fewer, LAPACK is faster: as measured."""


def use_lapack(available: Callable[[], bool], seen: ChoiceObserver = no_layout) -> GraphPass:
    """Return the pass; `available` is asked only where a system is large."""

    def rule(node: Node) -> Replacement:
        if node.lowering is not None:
            return None
        extent = min(upper(extent) for extent in node.operands[0].shape[-2:])
        choice = choose_library(node.op, extent, available)
        seen(node, choice)
        return None if choice.lowering is None else with_lowering(node, choice.lowering)

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [LocalRewrite(tuple(LARGE), rule)])

    return GraphPass("use-lapack", run, __doc__ or "")


def choose_library(definition: OpDef, extent: int, available: Callable[[], bool]) -> Choice:
    """Choose what solves or decomposes matrices of `extent` rows or columns."""
    least = LARGE[definition]
    if extent < least:
        return Why.SMALL_SYSTEM.because(extent, least)
    if not available():
        return Why.NO_LIBRARY.because(extent)
    return Why.LARGE_SYSTEM.because(extent, least, Library("lapack"))
