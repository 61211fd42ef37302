"""Derivatives of matrix products."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.ir.shape import product
from rlx.passes.algebra import adjoint, reshape_to, unbroadcast
from rlx.passes.autodiff.registry import bilinear


def matmul_left(g: Value, a: Value, b: Value) -> Value:
    return unbroadcast(_product(g, adjoint(b)), a.shape)


def matmul_right(g: Value, a: Value, b: Value) -> Value:
    """A matrix shared by a batch takes one product over all rows, not a sum of products."""
    if b.rank == 2:
        a, g = _stack_rows(a), _stack_rows(g)
    return unbroadcast(_product(adjoint(a), g), b.shape)


def _product(a: Value, b: Value) -> Value:
    """Multiply matrices; a sum of one term is that term, to which no 0.0 is added."""
    product_of_terms: Value = ops.mul(a, b) if a.shape[-1] == 1 else ops.matmul(a, b)
    return product_of_terms


def _stack_rows(x: Value) -> Value:
    """View a batch of matrices as one tall matrix."""
    return reshape_to(x, (product(x.shape[:-1]), x.shape[-1]))


bilinear(ops.matmul, matmul_left, matmul_right)
