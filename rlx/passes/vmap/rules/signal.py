"""The Fourier transform treats leading axes as examples."""

from __future__ import annotations

from rlx.ir import ops
from rlx.passes.vmap.registry import leading

leading(ops.fft)
