"""Forward substitution: a value that is stored and read nowhere else is computed in its store.

let a = x[i] * 2.0      ->      y[i] = x[i] * 2.0
y[i] = a
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from rlx.codegen.loops.nodes import Assign, Block, Kernel, Let, Stmt, Store, Var
from rlx.codegen.loops.visit import all_expressions, map_blocks


def inline_stored_values(kernel: Kernel) -> Kernel:
    """Return `kernel` without `let`s that only the next store or assignment reads."""
    reads = Counter(e.name for e in all_expressions(kernel.body) if isinstance(e, Var))
    body = _inlined(kernel.body, reads)
    return kernel if body == kernel.body else replace(kernel, body=body)


def _inlined(body: Block, reads: Counter[str]) -> Block:
    result: list[Stmt] = []
    for statement in body:
        last = result[-1] if result else None
        if (
            isinstance(last, Let)
            and isinstance(statement, Store | Assign)
            and statement.value == last.var
            and reads[last.var.name] == 1
        ):
            result[-1] = replace(statement, value=last.value)
        else:
            result.append(map_blocks(statement, lambda block: _inlined(block, reads)))
    return tuple(result)
