"""Loops that round floats to bytes, in explicit vectors.

GCC takes as many iterations at a time as bytes fill a vector: a loop of eight, as an integer
convolution stores its tiles, stays scalar, at twenty times the time, and longer ones get a fraction
of the vectors' width for their floats.
"""

from __future__ import annotations

from dataclasses import replace

from rlx.codegen.loops.nodes import Block, Call, Cast, Expr, For, Kernel, LoopKind, Prim, Stmt
from rlx.codegen.loops.passes.names import Names, kept_apart
from rlx.codegen.loops.passes.pipeline import KernelPass
from rlx.codegen.loops.passes.vectorize import widen_loop
from rlx.codegen.loops.visit import expressions, map_blocks, operands, walk, walk_expression

_BYTES = (Prim.U8, Prim.I8)


def explicit_byte_loops(vector_bytes: int) -> KernelPass:
    """Return the pass that spells out vectors in `simd` loops that round floats to bytes."""

    def run(kernel: Kernel) -> Kernel:
        if not any(isinstance(s, For) and _rounds_to_bytes(s) for s in walk(kernel.body)):
            return kernel
        return replace(kernel, body=_spelled_out(kernel.body, vector_bytes, Names(kernel)))

    return run


def _spelled_out(body: Block, vector_bytes: int, names: Names) -> Block:
    result: list[Stmt] = []
    for statement in body:
        if isinstance(statement, For) and _rounds_to_bytes(statement):
            pieces = widen_loop(statement, vector_bytes, most=1)
            if pieces is not None:
                names.release(statement)
                result += kept_apart(pieces, names)
                continue
        inner = map_blocks(statement, lambda block: _spelled_out(block, vector_bytes, names))
        result.append(inner)
    return tuple(result)


def _rounds_to_bytes(loop: For) -> bool:
    if loop.kind is not LoopKind.SIMD or loop.accumulators:
        return False
    nodes = [e for s in walk(loop.body) for root in expressions(s) for e in walk_expression(root)]
    conversions = [e for e in nodes if isinstance(e, (Call, Cast)) and e.type.prim in _BYTES]
    is_plain = all(e.type.prim is not Prim.F64 and not _is_math(e) for e in nodes)
    return is_plain and any(map(_reads_floats, conversions))


def _is_math(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.type.prim.is_float


def _reads_floats(conversion: Expr) -> bool:
    return any(operand.type.prim is Prim.F32 for operand in operands(conversion))
