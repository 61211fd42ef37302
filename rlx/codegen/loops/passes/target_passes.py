"""Target legalization: the passes that rewrite what a target has no instructions for."""

from __future__ import annotations

from rlx.codegen.loops.nodes import Prim
from rlx.codegen.loops.passes.devectorize import devectorize
from rlx.codegen.loops.passes.divide_by_whole_numbers import divide_by_whole_numbers
from rlx.codegen.loops.passes.drop_prefetches import drop_prefetches
from rlx.codegen.loops.passes.pipeline import KernelPass
from rlx.codegen.loops.passes.round_to_bytes import round_to_bytes
from rlx.codegen.loops.passes.separate_multiply_adds import separate_multiply_adds
from rlx.target import Target

_FLOATS = (Prim.F32, Prim.F64)


def target_passes(target: Target) -> tuple[KernelPass, ...]:
    """Return the passes that every kernel for `target` goes through last."""
    fused = frozenset(p for p in _FLOATS if target.multiplies_and_adds(p.size))
    lacking = frozenset(_FLOATS) - fused
    passes: list[KernelPass] = [round_to_bytes]
    if not target.has_vectors:  # plain C has neither
        passes += [drop_prefetches, devectorize]
    elif fused:
        passes.append(divide_by_whole_numbers(fused))
    if lacking:
        passes.append(separate_multiply_adds(lacking))
    return tuple(passes)
