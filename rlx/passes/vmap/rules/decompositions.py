"""Orthogonal decompositions: examples are slices."""

from __future__ import annotations

from rlx.ir import ops
from rlx.passes.vmap.registry import leading

leading(ops.qr, ops.eigh, ops.eig, ops.schur, ops.svd)
