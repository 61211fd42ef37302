"""The loop language, operands, results and work division for kernels of custom ops.

    def kernel(scope: Scope, x: Reader, y: Writer) -> None:
        k, count = scope.k, const(row_count(x), Prim.I64)
        with blocks(k, count, row_count(x)) as (start, stop), k.loop("i", stop, start=start) as i:
            k.store(result(y), i, fma(k.load(given(x), i), 2.0, 1.0))

See `docs/loop_language.md`. `blocks` shares a range among threads; `scope.lanes(prim)` says how
many numbers a vector of the target has.
"""

from rlx.codegen.kernels.access import Reader as Reader
from rlx.codegen.kernels.access import Writer as Writer
from rlx.codegen.kernels.memory import given as given
from rlx.codegen.kernels.memory import result as result
from rlx.codegen.kernels.memory import row_count as row_count
from rlx.codegen.kernels.parallel import blocks as blocks
from rlx.codegen.kernels.parallel import each_block as each_block
from rlx.codegen.kernels.registry import Scope as Scope
from rlx.codegen.loops.builder import KernelBuilder as KernelBuilder
from rlx.codegen.loops.builder import Mutable as Mutable
from rlx.codegen.loops.expr import E as E
from rlx.codegen.loops.expr import call as call
from rlx.codegen.loops.expr import const as const
from rlx.codegen.loops.expr import fma as fma
from rlx.codegen.loops.expr import maximum as maximum
from rlx.codegen.loops.expr import minimum as minimum
from rlx.codegen.loops.expr import select as select
from rlx.codegen.loops.math import build_function as build_function
from rlx.codegen.loops.nodes import BinaryOp as BinaryOp
from rlx.codegen.loops.nodes import Buffer as Buffer
from rlx.codegen.loops.nodes import LoopKind as LoopKind
from rlx.codegen.loops.nodes import Prim as Prim
from rlx.codegen.loops.nodes import Status as Status
from rlx.codegen.loops.nodes import UnaryOp as UnaryOp
from rlx.codegen.loops.passes.vectorize import vectorize as vectorize
from rlx.ir.shape import upper as upper
from rlx.public_names import names_of as _names_of

__dir__ = _names_of(__name__)
