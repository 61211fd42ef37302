"""Loops with their bodies as one kernel: in registers, on local buffers, or through thunks."""

from rlx.codegen.kernels.nests import control as control
from rlx.codegen.kernels.nests import scan as scan
