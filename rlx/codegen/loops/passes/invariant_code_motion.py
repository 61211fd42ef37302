"""Loop-invariant code motion: what is the same in every iteration is computed before the loop.

for i in 0 .. 8:                let a = s[0] * 2.0
  let a = s[0] * 2.0    ->      for i in 0 .. 8:
  y[i] = x[i] * a                 y[i] = x[i] * a
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rlx.codegen.loops.nodes import (
    Binary,
    BinaryOp,
    Block,
    Const,
    Expr,
    For,
    Kernel,
    Let,
    Load,
    LoopKind,
    Stmt,
    Var,
)
from rlx.codegen.loops.passes.effects import Effects, any_overlap, effects
from rlx.codegen.loops.visit import (
    map_blocks,
    walk_expression,
)


def invariant_code_motion(kernel: Kernel) -> Kernel:
    """Return `kernel` with invariant `let`s before the outermost loop that does not change them."""
    body = tuple(_hoisted(kernel.body))
    return kernel if body == kernel.body else replace(kernel, body=body)


def _hoisted(body: Block) -> Iterator[Stmt]:
    for statement in body:
        inner = map_blocks(statement, lambda block: tuple(_hoisted(block)))
        if isinstance(inner, For):
            yield from _split(inner)
        else:
            yield inner


def _split(loop: For) -> Iterator[Stmt]:
    """Yield what moves out of a loop, then the loop."""
    found = effects([loop])
    changing = set(found.binds)
    kept: list[Stmt] = []
    for statement in loop.body:
        if isinstance(statement, Let) and _is_invariant(loop, statement.value, changing, found):
            changing.discard(statement.var.name)
            yield statement
        else:
            kept.append(statement)
    yield replace(loop, body=tuple(kept))


def _is_invariant(loop: For, value: Expr, changing: set[str], found: Effects) -> bool:
    """True if `value` is the same at every iteration, and may be computed though there is none."""
    for part in walk_expression(value):
        match part:
            case Var(name, _) if name in changing:
                return False
            case Load(buffer, _, _):
                if found.is_opaque or any_overlap([buffer], found.writes) or not _runs(loop):
                    return False
            case Binary(BinaryOp.DIV | BinaryOp.MOD, _, b) if part.type.prim.is_int:
                if not isinstance(b, Const) and not _runs(loop):
                    return False
    return True


def _runs(loop: For) -> bool:
    """True if the loop has an iteration, whatever the arguments are."""
    if not isinstance(loop.start, Const) or not isinstance(loop.stop, Const):
        return False
    return loop.start.value < loop.stop.value and loop.kind is not LoopKind.PARALLEL
