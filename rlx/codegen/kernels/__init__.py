"""Kernels: one definition per thunk kind, in the loop language.

Importing this package registers every kind; `build_kernel` makes the kernel of a thunk.
"""

from rlx.codegen.kernels import attention as attention
from rlx.codegen.kernels import checks as checks
from rlx.codegen.kernels import collective as collective
from rlx.codegen.kernels import conv as conv
from rlx.codegen.kernels import foreign as foreign
from rlx.codegen.kernels import fourier as fourier
from rlx.codegen.kernels import indexing as indexing
from rlx.codegen.kernels import linalg as linalg
from rlx.codegen.kernels import loss as loss
from rlx.codegen.kernels import nests as nests
from rlx.codegen.kernels import norm as norm
from rlx.codegen.kernels import packed as packed
from rlx.codegen.kernels import pool as pool
from rlx.codegen.kernels import products as products
from rlx.codegen.kernels import reduction as reduction
from rlx.codegen.kernels import resample as resample
from rlx.codegen.kernels import rope as rope
from rlx.codegen.kernels import shape as shape
from rlx.codegen.kernels import softmax as softmax
from rlx.codegen.kernels import sort as sort
from rlx.codegen.kernels import splat as splat
from rlx.codegen.kernels.build import build_kernel as build_kernel
from rlx.codegen.kernels.build import has_kernel as has_kernel
from rlx.codegen.kernels.build import kernel_name as kernel_name
from rlx.codegen.kernels.build import scratch_bytes as scratch_bytes
