"""The weight of a score in a softmax."""

from __future__ import annotations

from rlx.codegen.loops.expr import E, call
from rlx.codegen.loops.math import build_function


def exp_weight(shifted: E) -> E:
    """Return `exp(shifted)` of a score (or a vector of them) less the maximum."""
    return call(build_function("exp_weight", shifted.type.prim), shifted)
