"""Constant propagation of operands: loads of operands that are one number become literals.

kernel(x, ones, y):                  kernel(x, y):
  y[i] = x[i] + ones[i]      ->        y[i] = x[i] + 1.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rlx.codegen.loops.nodes import Block, Const, Expr, Kernel, Load, Prefetch, Stmt, ValueType
from rlx.codegen.loops.passes.pipeline import KernelPass
from rlx.codegen.loops.visit import addresses, map_blocks, rewrite_own, walk


def known_loads(known: Mapping[str, Const]) -> KernelPass:
    """Return the pass for arguments by name, and the number that all of their elements are.

    It leaves a kernel alone that passes the address of one of them on.
    """

    def number(expr: Expr) -> Expr:
        if not isinstance(expr, Load) or expr.buffer.name not in known:
            return expr
        literal = known[expr.buffer.name]
        return replace(literal, type=ValueType(literal.type.prim, expr.lanes))

    def at(statement: Stmt) -> Stmt:
        return map_blocks(rewrite_own(statement, number), block)

    def block(body: Block) -> Block:
        return tuple(at(s) for s in body if not _is_hint(s, known))

    def run(kernel: Kernel) -> Kernel:
        passed = (a.buffer.name for s in walk(kernel.body) for a in addresses(s))
        if not known or not known.keys().isdisjoint(passed):
            return kernel
        buffers = tuple(buffer for buffer in kernel.buffers if buffer.name not in known)
        return replace(kernel, buffers=buffers, body=block(kernel.body))

    return run


def _is_hint(statement: Stmt, known: Mapping[str, Const]) -> bool:
    return isinstance(statement, Prefetch) and statement.buffer.name in known
