"""Matrix products in NumPy."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.reference.registry import reference

reference.register(ops.matmul, np.matmul)
