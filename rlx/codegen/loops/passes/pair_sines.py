"""Sines and cosines of f32 as halves of one function, where code is to be small.

    s = sin(x)             both = sin_cos(x)
    c = cos(x)      ->     s = bits(both >> 32)
                           c = bits(both)

The function has no effects, so C compilers call it once for an angle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rlx.codegen.loops.math.define import build_function
from rlx.codegen.loops.math.paired import HALVES, paired
from rlx.codegen.loops.nodes import Call, Expr, Kernel, Prim
from rlx.codegen.loops.visit import rewrite_block


def pair_sines(*, single: bool) -> Callable[[Kernel], Kernel]:
    """Return the pass; with `single`, near arguments are reduced without doubles."""
    names = {id(build_function(name, Prim.F32)): name for name in HALVES}

    def rewritten(expr: Expr) -> Expr:
        match expr:
            case Call(function, (x,)) if id(function) in names and x.type.lanes == 1:
                return paired(names[id(function)], x, single=single)
        return expr

    def run(kernel: Kernel) -> Kernel:
        return replace(kernel, body=rewrite_block(kernel.body, rewritten))

    return run
