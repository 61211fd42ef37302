"""Leave large matrix products to a BLAS library, where the user names one.

    %2 = matmul %a, %b  ->  %2 = matmul %a, %b lowering = schedule(library = "blas")

Products in f32, f64 and complex numbers whose matrices take `LARGE` multiply-adds or more, over
`FEW_ROWS` or more of `a`; transposes of either operand are absorbed. What follows a product is a
kernel of ours, after the call. No product goes to a library by itself: generated ones are as
fast (`rlx doctor` measures it), and fuse with what follows.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.lowering import Schedule
from rlx.ir.ops.linalg import LARGEST_OF_BLAS
from rlx.ir.shape import product, upper
from rlx.passes.layout.choices import Choice, ChoiceObserver, Why, no_layout
from rlx.passes.layout.pack_operands import lowered_product, product_operands
from rlx.passes.rewrite import GraphPass, LocalRewrite, Rewritten, apply_rewrites

LARGE = 64**3
"""Multiply-adds of one matrix from which on a call is worth its time."""
FEW_ROWS = 8
"""Rows below which `b` is read about once: a library would arrange it anew first."""


def use_blas(seen: ChoiceObserver = no_layout) -> GraphPass:
    """Return the pass; `seen` is called with the products that go to the library."""

    def rule(node: Node) -> Value | None:
        choice = choose_blas(node)
        if node.lowering is not None or choice is None:
            return None
        seen(node, choice)
        (a, left), (b, right) = product_operands(node)
        return lowered_product(a, b, Schedule(library="blas"), left=left, right=right)

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [LocalRewrite((ops.matmul,), rule)])

    return GraphPass("use-blas", run, __doc__ or "")


def choose_blas(node: Node) -> Choice | None:
    """Choose the library for `node`, a matmul; None where it is not for a library."""
    a, b = node.operands
    rows = upper(product(a.shape[:-1]) if b.rank == 2 else a.shape[-2])
    inner, columns = upper(a.shape[-1]), upper(b.shape[-1])
    work = rows * inner * columns
    has_function = a.dtype.is_complex or a.dtype in (DType.F32, DType.F64)
    is_counted = max(rows, inner, columns) <= LARGEST_OF_BLAS
    if not has_function or not is_counted or rows < FEW_ROWS or work < LARGE:
        return None
    return Why.LARGE_PRODUCT.because(work, LARGE, Schedule(library="blas"))
