"""Deterministic reductions: sums of floats in a stated order, with equal bits from all compilers.

A `simd` loop with accumulators leaves the order to the back end: C's `omp simd reduction` gives
other last bits for other vector widths. Here such loops become loops over vectors of the target's
width, or, without vectors, loops that add one element after the other.

Vectors are for speed, too: neither GCC nor clang vectorizes sums of `fma` well.
"""

from __future__ import annotations

from dataclasses import replace

from rlx.codegen.loops.nodes import Block, For, Kernel, LoopKind, Stmt
from rlx.codegen.loops.passes.names import Names, kept_apart
from rlx.codegen.loops.passes.pipeline import KernelPass
from rlx.codegen.loops.passes.simplify import simplify
from rlx.codegen.loops.passes.vectorize import widen_loop
from rlx.codegen.loops.visit import map_blocks, walk


def order_sums(vector_bytes: int) -> KernelPass:
    """Return the pass for vectors of `vector_bytes`; 0 if there are none."""

    def run(kernel: Kernel) -> Kernel:
        if not any(map(_leaves_the_order, walk(kernel.body))):
            return kernel
        body = _ordered(kernel.body, vector_bytes, Names(kernel))
        return simplify(replace(kernel, body=body))  # a short sum fills one vector

    return run


def _leaves_the_order(statement: Stmt) -> bool:
    return (
        isinstance(statement, For)
        and statement.kind is LoopKind.SIMD
        and any(var.type.prim.is_float for var, _ in statement.accumulators)
    )


def _ordered(body: Block, vector_bytes: int, names: Names) -> Block:
    result: list[Stmt] = []
    for statement in body:
        if not isinstance(statement, For) or not _leaves_the_order(statement):
            inner = map_blocks(statement, lambda block: _ordered(block, vector_bytes, names))
            result.append(inner)
            continue
        pieces = widen_loop(statement, vector_bytes, most=1) if vector_bytes else None
        if pieces is None:
            result.append(replace(statement, kind=LoopKind.SERIAL, accumulators=()))
        else:
            names.release(statement)
            result += kept_apart(pieces, names)
    return tuple(result)
