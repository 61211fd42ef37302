"""Removal of prefetches, for printed languages that have none.

let at = rows[i + 4] * 32
prefetch x[at]                  ->      y[i] = x[i]
y[i] = x[i]
"""

from __future__ import annotations

from dataclasses import replace

from rlx.codegen.loops.nodes import Block, Kernel, Prefetch
from rlx.codegen.loops.passes.dead_code import dead_code
from rlx.codegen.loops.visit import map_blocks, walk


def drop_prefetches(kernel: Kernel) -> Kernel:
    """Return `kernel` without prefetches, and without what only these read."""
    if not any(isinstance(statement, Prefetch) for statement in walk(kernel.body)):
        return kernel
    return dead_code(replace(kernel, body=_without(kernel.body)))


def _without(block: Block) -> Block:
    kept = (statement for statement in block if not isinstance(statement, Prefetch))
    return tuple(map_blocks(statement, _without) for statement in kept)
