"""Kernels: one definition per thunk kind, in the loop language.

`build_kernel` makes the kernel of a thunk; the module of its builder is loaded when it is asked
for (`ir.lazy_table`).
"""

from rlx.codegen.kernels.build import build_kernel as build_kernel
from rlx.codegen.kernels.build import has_kernel as has_kernel
from rlx.codegen.kernels.build import kernel_name as kernel_name
from rlx.codegen.kernels.build import scratch_bytes as scratch_bytes
