"""Derivatives of matrix products."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.ir.shape import product
from rlx.passes.autodiff.algebra import adjoint, reshape_to, swap_last, unbroadcast
from rlx.passes.autodiff.registry import Derivatives, Pullback, bilinear, linear


def matmul_left(g: Value, a: Value, b: Value) -> Value:
    return unbroadcast(ops.matmul(g, adjoint(b)), a.shape)


def matmul_right(g: Value, a: Value, b: Value) -> Value:
    """A matrix shared by a batch takes one product over all rows, not a sum of products."""
    if b.rank == 2:
        a, g = _stack_rows(a), _stack_rows(g)
    return unbroadcast(ops.matmul(adjoint(a), g), b.shape)


def _stack_rows(x: Value) -> Value:
    """View a batch of matrices as one tall matrix."""
    return reshape_to(x, (product(x.shape[:-1]), x.shape[-1]))


def pack_panels_transpose(
    at: Pullback, b: Value, *, panel: int, transposed: bool, lanes: int
) -> Derivatives:
    """Lay the panels side by side again, without the padding of the last one."""
    *batch, panels, inner, width = at.cotangent.shape
    rank = len(batch)
    side_by_side = ops.transpose(at.cotangent, perm=(*range(rank), rank + 1, rank, rank + 2))
    wide = reshape_to(side_by_side, (*batch, inner, panels * width))
    columns = b.shape[-2] if transposed else b.shape[-1]
    kept = ops.narrow(wide, axis=-1, start=0, length=columns)
    return swap_last(kept) if transposed else kept


bilinear(ops.matmul, matmul_left, matmul_right)
linear(ops.pack_panels, pack_panels_transpose)
