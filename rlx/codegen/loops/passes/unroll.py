"""Full unrolling: a short loop becomes its iterations, one after the other.

for i in 0 .. 2:                let a = x[0]
  let a = x[i]          ->      y[0] = a
  y[i] = a                      let a_2 = x[1]
                                y[1] = a_2
"""

from __future__ import annotations

from dataclasses import replace

from rlx.codegen.loops.nodes import (
    Block,
    Const,
    For,
    Kernel,
    LoopKind,
    Prim,
    Stmt,
    ValueType,
)
from rlx.codegen.loops.passes.names import Names, copied
from rlx.codegen.loops.visit import (
    map_blocks,
    walk,
)

MOST_STATEMENTS = 512
"""Of all iterations of a loop together: beyond, code size costs more than loops do."""


def unroll_short_loops(kernel: Kernel) -> Kernel:
    """Return `kernel` with every `unroll` loop of a known trip count spelled out."""
    if not any(isinstance(s, For) and s.kind is LoopKind.UNROLL for s in walk(kernel.body)):
        return kernel
    return replace(kernel, body=_unrolled(kernel.body, Names(kernel)))


def _unrolled(body: Block, names: Names) -> Block:
    result: list[Stmt] = []
    for statement in body:
        match statement:
            case For(kind=LoopKind.UNROLL):
                result += _iterations(statement, names)
            case _:
                inner = map_blocks(statement, lambda block: _unrolled(block, names))
                result.append(inner)
    return tuple(result)


def _iterations(loop: For, names: Names) -> Block:
    body = _unrolled(loop.body, names)
    if not isinstance(loop.start, Const) or not isinstance(loop.stop, Const):
        return (replace(loop, body=body),)
    trips = range(int(loop.start.value), int(loop.stop.value), loop.step)
    if len(trips) * sum(1 for _ in walk(body)) > MOST_STATEMENTS:
        return (replace(loop, body=body),)
    result: list[Stmt] = []
    for at in trips:
        known = {loop.var.name: Const(at, ValueType(Prim.I64))}
        result += copied(body, known, names)
    return tuple(result)
