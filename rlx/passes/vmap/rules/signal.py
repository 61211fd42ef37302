"""The Fourier transform has the axis that it is told."""

from __future__ import annotations

from rlx.ir import ops
from rlx.passes.vmap.registry import shift_axes, unrolled

shift_axes(ops.fft)
unrolled(ops.dft, because="the formula of fft makes it, which is batched as one")
