"""Canonicalization of linear systems of one unknown: elementwise ops, which are fused."""

from __future__ import annotations

import math

from rlx.ir import ops
from rlx.ir.graph import Node, Value
from rlx.passes.algebra import full, reshape_to
from rlx.passes.rewrite import LocalRewrite, rewrite


def _has_one_unknown(node: Node) -> bool:
    """True for 1x1 matrices that are no error where they are singular."""
    a = node.operands[0]
    return (
        a.shape[-1] == 1
        and a.dtype.is_float
        and a.type.is_static
        and node.attribute("on_singular") == "nan"
    )


def _nan_where(is_singular: Value, value: Value) -> Value:
    return ops.where(is_singular, full(value.graph, value.type, math.nan), value)


@rewrite(ops.cholesky, when=_has_one_unknown)
def cholesky_of_one_unknown(node: Node) -> Value | None:
    (a,) = node.operands
    return _nan_where(ops.le(a, full(a.graph, a.type, 0)), ops.sqrt(a))


@rewrite(ops.triangular_solve, ops.solve, when=_has_one_unknown)
def system_of_one_unknown(node: Node) -> Value | None:
    a, b = node.operands
    if node.op is ops.triangular_solve and node.attribute("unit_diagonal"):
        return b
    if node.op is ops.solve and node.attribute("vector"):
        a = reshape_to(a, a.shape[:-1])
    return _nan_where(ops.eq(a, full(a.graph, a.type, 0)), ops.div(b, a))


SYSTEMS: tuple[LocalRewrite, ...] = (cholesky_of_one_unknown, system_of_one_unknown)
