"""Target legalization: the passes that rewrite what a target has no instructions for."""

from __future__ import annotations

from rlx.codegen.loops.nodes import Prim
from rlx.codegen.loops.passes.drop_prefetches import drop_prefetches
from rlx.codegen.loops.passes.pipeline import KernelPass
from rlx.codegen.loops.passes.scalarize import scalarize
from rlx.codegen.loops.passes.separate_multiply_adds import separate_multiply_adds
from rlx.target import Target

_FLOATS = (Prim.F32, Prim.F64)


def target_passes(target: Target) -> tuple[KernelPass, ...]:
    """Return the passes that every kernel for `target` goes through last."""
    vectors = () if target.has_vectors else (drop_prefetches, scalarize)  # plain C has neither
    lacking = frozenset(p for p in _FLOATS if not target.multiplies_and_adds(p.size))
    return (*vectors, *((separate_multiply_adds(lacking),) if lacking else ()))
