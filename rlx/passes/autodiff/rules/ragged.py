"""Derivatives of ragged products: each is the transpose of the other."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.ops.linalg import swapped
from rlx.passes.autodiff.registry import bilinear

bilinear(
    ops.ragged_matmul,
    lambda g, x, w, bounds: ops.ragged_matmul(g, swapped(w), bounds),
    lambda g, x, w, bounds: ops.ragged_outer(x, g, bounds),
)
bilinear(
    ops.ragged_outer,
    lambda g, x, y, bounds: ops.ragged_matmul(y, swapped(g), bounds),
    lambda g, x, y, bounds: ops.ragged_matmul(x, g, bounds),
)
