"""Kernels: one definition per thunk kind, in the loop language.

Importing this package registers every kind; `build_kernel` makes the kernel of a thunk.
"""

from rlx.codegen.kernels import (
    attention,
    control,
    conv,
    factorization,
    indexing,
    linalg,
    loss,
    norm,
    pack_panels,
    pool,
    pool_select,
    product_streamed,
    product_tiles,
    reduction,
    rope,
    scan,
    search,
    shape,
    softmax,
    solve,
    solve_lapack,
    sort,
)
from rlx.codegen.kernels.build import (
    build_kernel,
    has_kernel,
    kernel_name,
    scratch_bytes,
)

__all__ = [
    "attention",
    "build_kernel",
    "control",
    "conv",
    "factorization",
    "has_kernel",
    "indexing",
    "kernel_name",
    "linalg",
    "loss",
    "norm",
    "pack_panels",
    "pool",
    "pool_select",
    "product_streamed",
    "product_tiles",
    "reduction",
    "rope",
    "scan",
    "scratch_bytes",
    "search",
    "shape",
    "softmax",
    "solve",
    "solve_lapack",
    "sort",
]
