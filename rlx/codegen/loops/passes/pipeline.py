"""Running passes over a kernel, and verifying the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from rlx.codegen.loops.nodes import Kernel
from rlx.codegen.loops.passes.common_subexpressions import common_subexpressions
from rlx.codegen.loops.passes.dead_code import dead_code
from rlx.codegen.loops.passes.fast_paths import fast_paths
from rlx.codegen.loops.passes.fuse_loops import fuse_loops
from rlx.codegen.loops.passes.invariant_code_motion import invariant_code_motion
from rlx.codegen.loops.passes.scalar_replacement import forward_stores, promote_buffers
from rlx.codegen.loops.passes.simplify import simplify
from rlx.codegen.loops.passes.single_assignment import single_assignment
from rlx.codegen.loops.passes.single_uses import inline_stored_values
from rlx.codegen.loops.passes.unroll import unroll_short_loops
from rlx.codegen.loops.verify import verify_kernel

KernelPass: TypeAlias = Callable[[Kernel], Kernel]


def run_passes(kernel: Kernel, passes: Sequence[KernelPass]) -> Kernel:
    """Return `kernel` after all `passes`; what breaks a rule of the grammar is our fault."""
    done = kernel
    for kernel_pass in passes:
        done = kernel_pass(done)
    if done is not kernel:
        verify_kernel(done)
    return done


FUSION: tuple[KernelPass, ...] = (
    fuse_loops,
    promote_buffers,  # after unrolling, which makes indices literals
    single_assignment,
    forward_stores,  # after fusion, which moves loads after their stores
    common_subexpressions,
    dead_code,  # buffers that nothing loads any more
    inline_stored_values,
    invariant_code_motion,
)
"""What makes one nest of the loops of single ops on local buffers."""

CLEANUP: tuple[KernelPass, ...] = (simplify, single_assignment, simplify, dead_code, fast_paths)
"""What every kernel goes through, after the passes that its builder asked for.

A loop without trips assigns nothing: it is removed before values replace variables, and what
values then make idle goes after. Loops are in two versions once nothing is removed any more.
"""

UNROLLED_FUSION = (unroll_short_loops, *FUSION)
"""The same, where short loops prevent vectorization: they are unrolled before."""

SPELLED_OUT = (unroll_short_loops, promote_buffers, single_assignment, forward_stores, dead_code)
"""What makes variables of the elements of a small buffer whose loops are all unrolled."""

REGISTERS: tuple[KernelPass, ...] = (
    common_subexpressions,
    dead_code,
    inline_stored_values,
    invariant_code_motion,
)
"""What a body goes through whose values are scalars from the start."""
